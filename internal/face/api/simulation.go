package api

import (
	"cmp"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/openapi"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/policy"
)

func simulationRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/policies/simulate", scope: grapnel.ScopeRead, portal: grapnel.ScopeRead, handle: simulate,
			name: "simulate-policy", tag: "Policies", summary: "Simulate a policy during an outage",
			about: "Computed by the functions that decide about deliveries; nothing is sent. Only a few simulations run at once; others get 503.",
			body:  jsonBody, takes: newScenario{}, gives: map[int]any{200: policy.Report{}}},
	}
}

// newScenario is the body that asks for a simulation. Package policy reads it.
type newScenario struct{}

// Schema is that of an outage and its load.
func (newScenario) Schema(r huma.Registry) *huma.Schema { return openapi.ScenarioSchema(r) }

// simulate answers what a policy does during an outage.
func simulate(a *api, c *call) (answer, error) {
	named := func(name string) (policy.Policy, bool) {
		return a.policyNamed(cmp.Or(c.key.Tenant, grapnel.DefaultTenant), name)
	}
	scenario, err := policy.ParseScenario(c.body, named)
	var f strict.Faults
	addPolicyErrors(&f, "", err)
	if err := f.Err(); err != nil {
		return answer{}, err
	}
	release, err := slot(a.simulations, "Other simulations are running.")
	if err != nil {
		return answer{}, err
	}
	defer release()
	return jsonAnswer(http.StatusOK, policy.Simulate(scenario)), nil
}
