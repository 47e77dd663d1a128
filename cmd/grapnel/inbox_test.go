package main

import (
	"reflect"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/wire"
)

// TestInboxListNamesAllOutcomes: the help of the list names every outcome by which it can be
// narrowed.
func TestInboxListNamesAllOutcomes(t *testing.T) {
	field, _ := reflect.TypeFor[wire.InboxRequest]().FieldByName("Outcome")
	c := inbox.command(&session{}, inbox.verbs[1])
	for outcome := range strings.SplitSeq(field.Tag.Get("enum"), ",") {
		if !strings.Contains(c.Short, outcome) {
			t.Errorf("%s is missing in %q", outcome, c.Short)
		}
	}
}
