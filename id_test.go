package grapnel_test

import (
	"crypto/rand"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

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

func TestDeliveryIDsCarryTheirNumber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := time.UnixMilli(rapid.Int64Range(0, 1<<47).Draw(t, "ms"))
		seq := rapid.Int64Range(1, 1<<62).Draw(t, "seq")
		id := grapnel.DeliveryID(at, seq)
		gotSeq, ms, err := grapnel.ParseDeliveryID(id)
		if err != nil || gotSeq != seq || ms != at.UnixMilli() {
			t.Fatalf("%s is number %d of %d: %v", id, gotSeq, ms, err)
		}
		if next := grapnel.DeliveryID(at, seq+1); next <= id {
			t.Fatalf("%s does not sort after %s", next, id)
		}
		attempt := grapnel.AttemptID(at, seq, 3)
		if attempt[4:24] != id[4:24] || attempt == grapnel.AttemptID(at, seq, 4) {
			t.Fatalf("%s does not belong to %s", attempt, id)
		}
	})
}

func TestWhatIsNoDeliveryID(t *testing.T) {
	id := grapnel.DeliveryID(time.UnixMilli(1), 1)
	for _, bad := range []string{"", "dlv_", "dlv", id[:29], id + "0", "evt" + id[3:], strings.ToUpper(id), strings.Replace(id, "0", "u", 1),
		"dlv_80000000000000000000000000", grapnel.AttemptID(time.UnixMilli(1), 1, 1), "dlv_" + strings.Repeat("0", 26),
		"dlv" + grapnel.AttemptID(time.UnixMilli(1), 1, 1)[3:]} {
		if seq, _, err := grapnel.ParseDeliveryID(bad); err == nil {
			t.Errorf("%q is taken for number %d", bad, seq)
		}
	}
}

func FuzzDeliveryID(f *testing.F) {
	f.Add(grapnel.DeliveryID(time.UnixMilli(1_767_603_600_000), 42))
	f.Add("dlv_" + strings.Repeat("z", 26))
	f.Fuzz(func(t *testing.T, id string) {
		seq, ms, err := grapnel.ParseDeliveryID(id)
		if err == nil && grapnel.DeliveryID(time.UnixMilli(ms), seq) != id {
			t.Errorf("%q is not the only spelling of %d", id, seq)
		}
	})
}
