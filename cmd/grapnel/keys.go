package main

import (
	"cmp"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

var keys = resource[client.Key]{
	path: "/v1/keys", plural: "API keys", id: "KEY",
	settings: cli.KeySettings,
	needed:   []string{"name", "scope"},
	head:     []string{"NAME", "KEY", "SCOPES", "TENANT", "CREATED", "ENDS", "LAST USE"},
	row: func(r reader, k *client.Key) []string {
		return []string{k.Name, k.ID, scopesOf(k.Scopes), k.Tenant, r.Time(&k.CreatedAt), r.Time(k.ExpiresAt), r.Time(k.LastUsed)}
	},
	view: func(r reader, k *client.Key) cli.View {
		return object(k.ID, k.JSON(), [][]string{
			{"key", k.Secret}, {"id", k.ID}, {"name", k.Name}, {"scopes", scopesOf(k.Scopes)}, {"tenant", k.Tenant},
			{"ends", cmp.Or(r.Time(k.ExpiresAt), "never")}, {"from", strings.Join(k.From, ", ")}, {"last use", r.Time(k.LastUsed)},
		})
	},
	once: "key", note: "The key is shown only now: keep it somewhere safe.",
	verbs: []verb{
		{"create", "Create an API key and show it, this once", "grapnel keys create --name ci --scope publish,read --tenant acme --expires 90d --from 10.0.0.0/8"},
		{"list", "List API keys", ""},
		{"get", "Show an API key, without its secret", ""},
		{"update", "Change name, scopes, end or addresses of an API key", "grapnel keys update key_… --expires 90d"},
		{"delete", "Delete API keys; they stop working at once", ""},
	},
}

func (s *session) keysCommand() *cobra.Command {
	return group("keys", "Create, change and delete API keys; rotate the master key", append(keys.commands(s), keysRotateMaster.command(s))...)
}

var keysRotateMaster = call[client.MasterKey]{
	use: "rotate-master", short: "Wrap the data keys with the first key of --master-key",
	long: "Wrap all data keys with the first master key of the server's --master-key. Put the new master key before the old one first. " +
		"Deliveries go on meanwhile, and a rotation that was interrupted is repeated. Once it has succeeded the old key opens older " +
		"backups only.",
	example: "grapnel keys rotate-master",
	method:  http.MethodPost, path: "/v1/master-key/rotate", view: masterKeyView,
}

func masterKeyView(_ reader, k *client.MasterKey) cli.View {
	text := fmt.Sprintf("The master key %s wraps all data keys (%d, of which %d anew).", k.ID, k.DataKeys, k.Wrapped)
	return single(k.ID, k.JSON(), cli.Part{Rows: [][]string{{text}}})
}

func scopesOf(scopes []grapnel.Scope) string {
	names := make([]string, len(scopes))
	for i, s := range scopes {
		names[i] = string(s)
	}
	return strings.Join(names, ",")
}
