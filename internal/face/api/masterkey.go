package api

import (
	"net/http"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/wire"
)

func masterKeyRoutes() []route {
	return []route{
		{method: "POST", path: "/v1/master-key/rotate", scope: grapnel.ScopeAdmin, handle: rotateMasterKey,
			bound: grapnel.Errorf(codeForbidden, "Only a key that is bound to no tenant rotates the master key."),
			name:  "rotate-master-key", tag: "Keys", summary: "Wrap all data keys with the first master key of --master-key",
			about: "The server reads its master keys again, and wraps with the first of them every data key that another one wraps. Nothing waits " +
				"for it, and a call that was interrupted is repeated. The former master key is needed until this call has succeeded, and for older " +
				"backups. For keys that are bound to no tenant; 409 without a master key.",
			gives: map[int]any{200: wire.MasterKey{}}},
	}
}

func rotateMasterKey(a *api, c *call) (answer, error) {
	is, err := a.MasterKey.Rotate(c.Context())
	if err != nil {
		return answer{}, err
	}
	// No document is written: the rotation can be repeated by itself. This commits its entry in the
	// audit and its answer.
	return put(c, a.Documents.PutDocuments, nil, c.entryOf(grapnel.VerbRotate, "", "master-key", "to "+is.Master),
		func(store.Put) answer {
			return jsonAnswer(http.StatusOK, wire.MasterKey{ID: is.Master, DataKeys: is.Keys, Wrapped: is.Wrapped})
		})
}
