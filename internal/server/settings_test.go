package server

import (
	"strings"
	"testing"
)

// TestSettingsHaveNoSecrets: no form of a database's address shows a credential.
func TestSettingsHaveNoSecrets(t *testing.T) {
	for store, want := range map[string]string{
		"sqlite:/var/lib/g.db": "sqlite:/var/lib/g.db", "sqlite:g.db?_key=hunter2": "sqlite:g.db",
		"postgres://user:hunter2@db.example:5432/grapnel?sslpassword=hunter2": "postgres://db.example:5432/grapnel",
		"host=db password=hunter2":         "another database",
		"postgres://user:hunter2@/grapnel": "another database", "postgres://us er:hunter2@db/x": "another database",
	} {
		o := Options{Store: store, AdminKey: "grp_hunter2", Cells: []CellOptions{{Name: "west", Store: store}}}
		seen := false
		for _, s := range o.effective() {
			seen = seen || s.Name == "store" && s.Value == want
			if strings.Contains(s.Value, "hunter2") {
				t.Errorf("%s: %s is shown as %s", store, s.Name, s.Value)
			}
		}
		if !seen {
			t.Errorf("%s is not shown as %s", store, want)
		}
	}
}
