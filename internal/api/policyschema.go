package api

import (
	"reflect"

	"github.com/danielgtaylor/huma/v2"

	"github.com/grapnelhq/grapnel/policy"
)

// The schema of policies is written by hand, because policies are read by package policy and not by way of tags. A test gives every
// preset to it and every property of it to policy.Parse.

const schemaPrefix = "#/components/schemas/"

// named puts a schema into the document once, and refers to it.
func named(r huma.Registry, name string, build func() *huma.Schema) *huma.Schema {
	if _, there := r.Map()[name]; !there {
		r.Map()[name] = &huma.Schema{} // build may come by here again
		s := build()
		s.PrecomputeMessages()
		r.Map()[name] = s
	}
	return &huma.Schema{Ref: schemaPrefix + name}
}

func policyOrName(r huma.Registry) *huma.Schema {
	return &huma.Schema{
		Description: "the name of a preset or of a policy of the tenant, or a policy",
		AnyOf:       []*huma.Schema{{Type: huma.TypeString}, policySchema(r)},
	}
}

func policySchema(r huma.Registry) *huma.Schema {
	return named(r, "Policy", func() *huma.Schema { return object(policyProperties(), "") })
}

// Schema is that of a policy with its name.
func (policyView) Schema(r huma.Registry) *huma.Schema {
	return named(r, "NamedPolicy", func() *huma.Schema {
		s := huma.SchemaFromType(r, reflect.TypeFor[policyHead]())
		for name, property := range policyProperties() {
			if name != "name" {
				s.Properties[name] = property
			}
		}
		return s
	})
}

// newPolicy is the body that makes a policy.
type newPolicy struct{}

// Schema is that of a policy that has to have a name.
func (newPolicy) Schema(r huma.Registry) *huma.Schema {
	return named(r, "NewPolicy", func() *huma.Schema {
		properties := policyProperties()
		properties["tenant"] = &huma.Schema{Type: huma.TypeString, Description: "the key's tenant, else default"}
		return object(properties, "name")
	})
}

// policyPatch is the body that changes a policy.
type policyPatch struct{}

// Schema is that of a policy.
func (policyPatch) Schema(r huma.Registry) *huma.Schema { return policySchema(r) }

// newScenario is the body that asks for a simulation.
type newScenario struct{}

// Schema is that of what policy.ParseScenario reads.
func (newScenario) Schema(r huma.Registry) *huma.Schema {
	part := 1.0
	return named(r, "NewScenario", func() *huma.Schema {
		return object(map[string]*huma.Schema{
			"policy": policyOrName(r),
			"outage": object(map[string]*huma.Schema{
				"kind":       enum(policy.OutageDown, policy.OutageFlaky, policy.OutageSlow),
				"after":      described(durationSchema(), "from the first event"),
				"duration":   durationSchema(),
				"error_rate": {Type: huma.TypeNumber, Maximum: &part, Description: "flaky: the part of the attempts that fail"},
				"latency":    described(durationSchema(), "slow: how long every answer takes"),
			}, "duration"),
			"rate":     {Examples: []any{"4/min"}, Description: `how often events arrive: "4/min", "10/s" or {"per_minute":4}`},
			"duration": described(durationSchema(), "how long events arrive; until the outage ends if not given"),
			"keys":     {Type: huma.TypeInteger, Description: "the events take turns with this many keys; 0: no order"},
			"seed":     {Type: huma.TypeInteger},
		}, "outage")
	})
}

func object(properties map[string]*huma.Schema, required ...string) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeObject, Properties: properties, AdditionalProperties: false}
	for _, name := range required {
		if name != "" {
			s.Required = append(s.Required, name)
		}
	}
	return s
}

func policyProperties() map[string]*huma.Schema {
	least, none, all := 1.0, 0.0, 1.0
	jitter := []*huma.Schema{{Type: huma.TypeNumber, Minimum: &none}, object(map[string]*huma.Schema{"add": durationSchema()}, "add")}
	decisions := enum(policy.Deliver, policy.Retry, policy.Fail, policy.Throttle, policy.DisableEndpoint)
	return map[string]*huma.Schema{
		"name":         {Type: huma.TypeString},
		"timeout":      described(durationSchema(), "of one attempt: connecting, sending, the whole answer"),
		"schedule":     scheduleSchema(),
		"jitter":       {AnyOf: jitter, Description: "added to each wait, never subtracted: a fraction of it, or up to a fixed time"},
		"max_attempts": {Type: huma.TypeInteger, Nullable: true, Minimum: &least, Description: "null: no limit"},
		"max_age":      {Type: huma.TypeString, Nullable: true, Description: "from the first attempt; null: no limit"},
		"success":      {Type: huma.TypeArray, Items: &huma.Schema{Type: huma.TypeString}, Examples: []any{[]string{"2xx"}}},
		"classify":     {Type: huma.TypeObject, AdditionalProperties: decisions, Description: "statuses (404, 4xx) and error classes (timeout) to decisions"},
		"retry_after":  described(enum(policy.RetryAfterExtend, policy.RetryAfterIgnore), "extend: a receiver's Retry-After may lengthen a wait, never shorten it"),
		"on_exhausted": enum(policy.DeadLetter, policy.Discard),
		"then":         described(enum(policy.Advance, policy.Block), "what becomes of the key when a delivery is exhausted"),
		"disable": object(map[string]*huma.Schema{
			"consecutive": {Type: huma.TypeInteger, Minimum: &none},
			"of":          {Type: huma.TypeString},
			"after":       durationSchema(),
			"pending":     enum(policy.PendingHold, policy.PendingDrop),
		}),
		"breaker": {Description: "false: none; null: the default one", AnyOf: []*huma.Schema{
			object(map[string]*huma.Schema{
				"failures":  {Type: huma.TypeInteger, Minimum: &least},
				"ratio":     {Type: huma.TypeNumber, Minimum: &none, Maximum: &all},
				"window":    durationSchema(),
				"probe":     durationSchema(),
				"probe_max": durationSchema(),
			}),
			{Type: huma.TypeBoolean, Nullable: true},
		}},
	}
}

func scheduleSchema() *huma.Schema {
	factor := 1.0
	return &huma.Schema{AnyOf: []*huma.Schema{
		object(map[string]*huma.Schema{
			"mode":   described(enum(policy.SincePrevious, policy.SinceFirst), "what a delay counts from"),
			"delays": {Type: huma.TypeArray, Items: durationSchema(), Description: "one per attempt; the first is the wait before attempt 1"},
			"tail":   described(enum(policy.TailStop, policy.TailRepeat), "what follows the table"),
		}, "delays"),
		object(map[string]*huma.Schema{
			"mode":   enum(policy.Exponential),
			"base":   described(durationSchema(), "the wait before attempt 2"),
			"factor": {Type: huma.TypeNumber, Minimum: &factor},
			"max":    described(durationSchema(), "no wait is longer"),
		}, "base"),
	}}
}

func enum[T ~string](values ...T) *huma.Schema {
	s := &huma.Schema{Type: huma.TypeString}
	for _, v := range values {
		s.Enum = append(s.Enum, string(v))
	}
	return s
}

func described(s *huma.Schema, text string) *huma.Schema {
	s.Description = text
	return s
}
