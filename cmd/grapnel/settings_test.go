package main

import (
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// TestShownSettings: the page of settings has the flags of serve that are not hidden, under their
// names, as a person writes them, and no credential of a database.
func TestShownSettings(t *testing.T) {
	for store, want := range map[string]string{
		"sqlite:/var/lib/g.db": "sqlite:/var/lib/g.db", "sqlite:g.db?_key=hunter2": "sqlite:g.db",
		"postgres://user:hunter2@db.example:5432/grapnel?sslpassword=hunter2": "postgres://db.example:5432/grapnel",
		"host=db password=hunter2":         "another database",
		"postgres://user:hunter2@/grapnel": "another database", "postgres://us er:hunter2@db/x": "another database",
	} {
		c := (&session{World: &cli.World{Program: "grapnel"}}).serveCommand()
		if err := c.ParseFlags([]string{"--store", store, "--max-event", "262144",
			"--retention-rule", "tenant=acme,for=90d"}); err != nil {
			t.Fatal(err)
		}
		values := map[string]string{}
		for _, s := range cli.Shown(c) {
			values[s.Name] = s.Value
			if f := c.Flags().Lookup(s.Name); f == nil || f.Hidden {
				t.Errorf("--%s is shown and is no flag of serve", s.Name)
			}
			if strings.Contains(s.Value, "hunter2") {
				t.Errorf("%s: --%s is shown as %s", store, s.Name, s.Value)
			}
		}
		if values["store"] != want || values["max-event"] != "256KiB" || values["retention-rule"] != "tenant=acme,for=2160h" {
			t.Errorf("%s is shown as %q; the others: %q", store, values["store"], values)
		}
		for _, name := range []string{"log-level", "oidc-issuer", "retention", "listen"} {
			if _, ok := values[name]; !ok {
				t.Errorf("--%s is not shown", name)
			}
		}
	}
}
