package server

import (
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/internal/base/promise"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// TestCountsAfterTheDatabaseWentBack: a database that was restored from a backup lacks the document
// of the current hour. The node stores its counts anew, and reads those of the other nodes again.
func TestCountsAfterTheDatabaseWentBack(t *testing.T) {
	ctx := t.Context()
	w := newWatched(t, memory.New(), "node_a", slotTime)
	w.publishes(100, 0)
	w.round(ctx)
	restored := memory.New()
	w.docs = func() store.Documents { return restored }
	for range 3 {
		w.publishes(10, 0)
		w.round(ctx)
	}
	other := newWatched(t, restored, "node_b", slotTime)
	other.publishes(1, 0)
	other.round(ctx)
	w.round(ctx)
	for _, is := range []*watched{w, other} {
		if got := is.availability(); got != (promise.Count{Good: 131}) {
			t.Errorf("%s counts %+v", is.node, got)
		}
	}
	if log := w.logged.String(); strings.Contains(log, "failed") {
		t.Errorf("the log is %s", log)
	}
}
