package grapnel_test

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

func TestNewIDsAreValidDifferentAndSortByTime(t *testing.T) {
	now := time.Date(2026, 1, 5, 9, 0, 0, 0, time.UTC)
	seen := map[string]bool{}
	last := ""
	for range 1000 {
		now = now.Add(time.Millisecond)
		id := grapnel.NewID(grapnel.EventPrefix, now, rand.Reader)
		if !grapnel.ValidID(id) || !strings.HasPrefix(id, "evt_") || len(id) != 30 {
			t.Fatalf("%q is no id", id)
		}
		if seen[id] || id <= last {
			t.Fatalf("%q after %q", id, last)
		}
		seen[id], last = true, id
	}
}
