package main

import (
	"time"

	"github.com/spf13/pflag"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/cli"
	"github.com/grapnelhq/grapnel/internal/face/oidc"
	"github.com/grapnelhq/grapnel/internal/server"
)

// peopleFlags are the settings of a server about people who sign in with an issuer.
type peopleFlags struct {
	issuer, client, name string
	groups, tenant       string
	scopes, algorithms   cli.Words
	rules                cli.RoleRules
	session              time.Duration
	only                 bool
}

func (f *peopleFlags) add(flags *pflag.FlagSet) {
	f.scopes, f.algorithms = cli.Words{"openid", "profile", "email"}, oidc.Algorithms()
	flags.StringVar(&f.issuer, "oidc-issuer", "", "issuer that signs people in by OpenID Connect; empty: API keys only")
	flags.StringVar(&f.client, "oidc-client-id", "", "id of this server at the issuer; its secret is in GRAPNEL_OIDC_CLIENT_SECRET")
	flags.StringVar(&f.name, "oidc-name", "single sign-on", "name of the issuer on the sign-in page")
	flags.Var(&f.scopes, "oidc-scopes", "scopes that the issuer is asked for")
	flags.StringVar(&f.groups, "oidc-groups-claim", "groups", "claim with a person's groups or roles")
	flags.StringVar(&f.tenant, "oidc-tenant-claim", "", "claim with a person's tenant; empty: the rules say it")
	flags.Var(&f.rules, "oidc-role", "who gets which role, such as group=ops,tenant=acme,role=operator; the first match counts")
	flags.Var(&f.algorithms, "oidc-algorithms", "signatures of the issuer that are accepted")
	cli.DurationVar(flags, &f.session, "oidc-session", server.DefaultPeopleSession, "how long a person is signed in")
	flags.BoolVar(&f.only, "oidc-only", false, "do not offer to sign in with an API key")
}

// options returns nil if no issuer is set.
func (f *peopleFlags) options(s *session, dashboard bool) (*server.People, error) {
	secret, err := s.SecretVariable("GRAPNEL_OIDC_CLIENT_SECRET")
	if err != nil {
		return nil, err
	}
	if f.issuer == "" {
		if f.client != "" || secret != "" || len(f.rules) > 0 || f.only {
			return nil, cli.Usagef("settings for signing in are given without --oidc-issuer")
		}
		return nil, nil
	}
	var faults cli.Faults
	faults.When(!dashboard, "--oidc-issuer: people sign in to the dashboard, which --dashboard=false switches off")
	faults.When(f.client == "", "--oidc-client-id: it must be set with --oidc-issuer")
	faults.When(len(f.rules) == 0, "--oidc-role: without a rule no person could sign in; for example domain=example.com,role=viewer")
	faults.When(f.session <= 0, "--oidc-session %v: it must be greater than 0", f.session)
	faults.When(f.session > grapnel.LongestSession, "--oidc-session %v: it must be at most %v", f.session, grapnel.LongestSession)
	if err := faults.Err(); err != nil {
		return nil, err
	}
	p := &server.People{Name: f.name, Only: f.only, Session: f.session, OIDC: oidc.Options{Issuer: f.issuer, ClientID: f.client,
		Secret: secret, Scopes: f.scopes, Algorithms: f.algorithms,
		Mapping: oidc.Mapping{Groups: f.groups, Tenant: f.tenant, Rules: f.rules}}}
	if _, err := oidc.New(p.OIDC); err != nil {
		return nil, cli.Usagef("--oidc-issuer, --oidc-algorithms or --oidc-groups-claim: %v", err)
	}
	return p, nil
}
