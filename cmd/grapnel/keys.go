package main

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/cli"
)

func (s *session) keys() *cobra.Command {
	return group("keys", "Create, list and delete API keys", s.keysCreate(), s.keysList(), s.keysDelete())
}

func (s *session) keysCreate() *cobra.Command {
	var in client.NewKey
	var scopes []string
	c := &cobra.Command{
		Use: "create", Short: "Create an API key and show it, this once", Args: takes(cobra.NoArgs),
		Example: "grapnel keys create --name ci --scope publish,read --tenant acme",
		RunE: s.ask(func(ctx context.Context, r reader, _ []string) (cli.View, error) {
			for _, scope := range scopes {
				in.Scopes = append(in.Scopes, grapnel.Scope(scope))
			}
			k, err := r.CreateKey(ctx, in)
			if err != nil {
				return cli.View{}, err
			}
			s.Note("The key is shown only now: keep it somewhere safe.")
			return object(k.ID, k.JSON(), append([][]string{{"key", k.Secret}}, keyForm(k)...)), nil
		}),
	}
	c.Flags().StringVar(&in.Name, "name", "", "what the key is for")
	c.Flags().StringSliceVar(&scopes, "scope", nil, "what it may do: publish, read, manage, replay, consume, admin")
	c.Flags().StringVar(&in.Tenant, "tenant", "", "the only tenant that it sees; empty: all")
	return needs(c, "name", "scope")
}

func (s *session) keysList() *cobra.Command {
	var limit int
	var cursor string
	return paging(&cobra.Command{
		Use: "list", Short: "List API keys",
		RunE: s.ask(func(ctx context.Context, r reader, _ []string) (cli.View, error) {
			p, err := r.Keys(ctx, limit, cursor)
			if err != nil {
				return cli.View{}, err
			}
			return page(p, []string{"KEY", "NAME", "SCOPES", "TENANT", "CREATED"}, func(k client.Key) []string {
				return []string{k.ID, k.Name, scopesOf(&k), k.Tenant, r.Time(&k.CreatedAt)}
			}), nil
		}),
	}, &limit, &cursor)
}

func (s *session) keysDelete() *cobra.Command {
	return s.deletes("API keys", &cobra.Command{
		Use: "delete KEY_ID…", Short: "Delete API keys; they stop working at once", Args: takes(cobra.MinimumNArgs(1)),
		RunE: s.askEach(nil, func(ctx context.Context, r reader, id string) (json.RawMessage, []string, error) {
			return deleted(id, r.DeleteKey(ctx, id))
		}),
	})
}

func keyForm(k *client.Key) [][]string {
	return [][]string{{"id", k.ID}, {"name", k.Name}, {"scopes", scopesOf(k)}, {"tenant", k.Tenant}}
}

func scopesOf(k *client.Key) string {
	names := make([]string, len(k.Scopes))
	for i, s := range k.Scopes {
		names[i] = string(s)
	}
	return strings.Join(names, ",")
}

// deleted is what a command that deletes says of each id.
func deleted(id string, err error) (json.RawMessage, []string, error) {
	return cli.Encode(struct {
		ID      string `json:"id"`
		Deleted bool   `json:"deleted"`
	}{id, true}), []string{id, "deleted"}, err
}
