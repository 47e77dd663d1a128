package main

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

var keys = resource[client.Key]{
	path: "/v1/keys", plural: "API keys", id: "KEY_ID",
	settings: cli.KeySettings,
	needed:   []string{"name", "scope"},
	head:     []string{"KEY", "NAME", "SCOPES", "TENANT", "CREATED"},
	row: func(r reader, k *client.Key) []string {
		return []string{k.ID, k.Name, scopesOf(k), k.Tenant, r.Time(&k.CreatedAt)}
	},
	view: func(_ reader, k *client.Key) cli.View {
		return object(k.ID, k.JSON(), [][]string{
			{"key", k.Secret}, {"id", k.ID}, {"name", k.Name}, {"scopes", scopesOf(k)}, {"tenant", k.Tenant},
		})
	},
	once: "key", note: "The key is shown only now: keep it somewhere safe.",
	verbs: []verb{
		{"create", "Create an API key and show it, this once", "grapnel keys create --name ci --scope publish,read --tenant acme"},
		{"list", "List API keys", ""},
		{"get", "Show the name, scopes and tenant of an API key", ""},
		{"update", "Change the name or scopes of an API key", "grapnel keys update key_… --scope publish"},
		{"delete", "Delete API keys; they stop working at once", ""},
	},
}

func (s *session) keysCommand() *cobra.Command {
	return group("keys", "Create, change and delete API keys", keys.commands(s)...)
}

func scopesOf(k *client.Key) string {
	names := make([]string, len(k.Scopes))
	for i, s := range k.Scopes {
		names[i] = string(s)
	}
	return strings.Join(names, ",")
}
