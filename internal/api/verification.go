package api

import (
	"github.com/grapnelhq/grapnel/internal/api/strict"
	"github.com/grapnelhq/grapnel/internal/ingress"
)

// schemeOf is the row of the table that a source verifies by.
func schemeOf(name string) (ingress.Scheme, bool) {
	for _, s := range ingress.Schemes() {
		if s.Name == name {
			return s, true
		}
	}
	return ingress.Scheme{}, false
}

// checkSecret looks at a secret that is given now.
func checkSecret(scheme, text, pointer string, f *strict.Faults) {
	if wrong := ingress.CheckSecret(scheme, text); wrong != "" {
		f.Add(pointer, "%s", wrong)
	}
}
