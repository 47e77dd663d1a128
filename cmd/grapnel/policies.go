package main

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/cli"
)

func (s *session) policies() *cobra.Command {
	return group("policies", "Look at policies, check and keep them",
		s.policiesList(), s.policiesShow(), s.policiesLint(), s.policiesCreate(), s.policiesDelete())
}

func (s *session) policiesList() *cobra.Command {
	var limit int
	var cursor string
	return paging(&cobra.Command{
		Use: "list", Short: "List presets and own policies",
		RunE: s.ask(func(ctx context.Context, r reader, _ []string) (cli.View, error) {
			p, err := r.Policies(ctx, limit, cursor)
			if err != nil {
				return cli.View{}, err
			}
			return page(p, []string{"NAME", "ID", "TENANT", "ATTEMPTS", "REACHES"}, func(p client.Policy) []string {
				attempts, reach := reaches(p.JSON())
				return []string{p.Name, p.ID, p.Tenant, attempts, reach}
			}), nil
		}),
	}, &limit, &cursor)
}

func (s *session) policiesShow() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME|POLICY_ID", Short: "Show a policy and when it attempts", Args: takes(cobra.ExactArgs(1)),
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			p, err := r.Policy(ctx, args[0])
			if err != nil {
				return cli.View{}, err
			}
			rules, table := policyParts(p.JSON())
			return object(p.Name, p.JSON(), rules, table), nil
		}),
	}
}

func (s *session) policiesCreate() *cobra.Command {
	var name, tenant string
	c := &cobra.Command{
		Use: "create @FILE|-|JSON", Short: "Keep a policy that endpoints can name", Args: takes(cobra.ExactArgs(1)),
		Example: "grapnel policies create --name patient @patient.json",
		RunE: s.ask(func(ctx context.Context, r reader, args []string) (cli.View, error) {
			doc, err := s.policyDocument(args[0])
			if err != nil {
				return cli.View{}, err
			}
			for field, value := range map[string]string{"name": name, "tenant": tenant} {
				if value != "" {
					doc[field] = cli.Encode(value)
				}
			}
			p, err := r.CreatePolicy(ctx, cli.Encode(doc))
			if err != nil {
				return cli.View{}, err
			}
			rules, table := policyParts(p.JSON())
			return object(p.ID, p.JSON(), append([][]string{{"id", p.ID}}, rules...), table), nil
		}),
	}
	c.Flags().StringVar(&name, "name", "", "name of the policy, if the document has none")
	c.Flags().StringVar(&tenant, "tenant", "", "whose policy it is")
	return c
}

func (s *session) policiesDelete() *cobra.Command {
	return s.deletes("policies", &cobra.Command{
		Use: "delete POLICY_ID…", Short: "Delete policies that no endpoint names", Args: takes(cobra.MinimumNArgs(1)),
		RunE: s.askEach(nil, func(ctx context.Context, r reader, id string) (json.RawMessage, []string, error) {
			return deleted(id, r.DeletePolicy(ctx, id))
		}),
	})
}

// policyDocument reads a policy's fields without judging them.
func (s *session) policyDocument(argument string) (map[string]json.RawMessage, error) {
	text, err := s.content("the policy", argument)
	if err != nil {
		return nil, err
	}
	var doc map[string]json.RawMessage
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, cli.Usagef("the policy is not a JSON object: %v", err)
	}
	return doc, nil
}
