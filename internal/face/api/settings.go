package api

import (
	"net/http"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/wire"
)

func settingsRoutes() []route {
	return []route{
		{method: "GET", path: "/v1/settings", scope: grapnel.ScopeAdmin, handle: showSettings,
			bound: grapnel.Errorf(codeForbidden, "Settings are those of all tenants; the API key is bound to one tenant."),
			name:  "settings", tag: serviceTag, summary: "Show the settings that the server runs with",
			about: "Of the node that answers. Secrets are named and have no value. Needs a key that is bound to no tenant.",
			gives: map[int]any{200: wire.Settings{}}},
	}
}

func showSettings(a *api, _ *call) (answer, error) {
	v := wire.Settings{Version: grapnel.Version, Settings: []wire.Setting{}}
	if a.Settings != nil {
		v.Settings = append(v.Settings, a.Settings()...)
	}
	return jsonAnswer(http.StatusOK, v), nil
}
