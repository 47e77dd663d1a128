package api

import (
	"errors"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/send/catalogue"
)

// TestFaultsNameFieldsOfTheRequest: a fault of an event names the field where the caller has
// written it, in the body or in the query.
func TestFaultsNameFieldsOfTheRequest(t *testing.T) {
	for base, want := range map[string][2]string{
		"/": {"/type", "/data/a"}, "/events/3": {"/events/3/type", "/events/3/data/a"}, "?": {"?type", "/a"},
	} {
		var f strict.Faults
		refuse(&f, base, []catalogue.Fault{{Pointer: "/type", Detail: "is new"}, {Pointer: "/data/a", Detail: "is wrong"}})
		var wrong *grapnel.Error
		if !errors.As(f.Err(), &wrong) {
			t.Fatal(f.Err())
		}
		fields := wrong.Fields
		if len(fields) != 2 || fields[0].Pointer != want[0] || fields[1].Pointer != want[1] {
			t.Errorf("base %q: %v", base, fields)
		}
	}
}
