package api

import (
	"net/http"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/wire"
)

func masterKeyRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/master-key/rotate", scope: grapnel.ScopeAdmin, handle: rotateMasterKey,
			name: "rotate-master-key", tag: "Keys", summary: "Wrap all data keys with the first master key of --master-key",
			about: "The server reads its master keys again, and wraps with the first of them every data key that another one wraps. Nothing waits " +
				"for it, and a call that was interrupted is repeated. The former master key is needed until this call has succeeded, and for older " +
				"backups. For keys that are bound to no tenant; 409 without a master key.",
			gives: map[int]any{200: wire.MasterKey{}}},
	}
}

func rotateMasterKey(a *api, c *call) (answer, error) {
	if c.key.Tenant != "" {
		return answer{}, grapnel.Errorf(codeForbidden, "Only a key that is bound to no tenant rotates the master key.")
	}
	done, err := a.Sealer.Rotate(c.Context())
	if err == nil {
		err = a.History.Note(c.Context(), *c.entryOf(grapnel.VerbRotate, "", "master-key", "to "+done.Master))
	}
	if err != nil {
		return answer{}, err
	}
	return jsonAnswer(http.StatusOK, wire.MasterKey{ID: done.Master, DataKeys: done.Keys, Wrapped: done.Wrapped}), nil
}
