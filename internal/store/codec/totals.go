package codec

import "github.com/grapnelhq/grapnel"

func countsOf(t *grapnel.Totals) [8]*int64 {
	return [...]*int64{&t.Delivered, &t.Failed, &t.Dropped, &t.Discarded, &t.Skipped, &t.Retried, &t.FirstAttemptSuccess, &t.Attempts}
}

// EncodeTotals writes the counts, then of the latencies those buckets that have any: how many have
// none before it, and its count.
func EncodeTotals(t *grapnel.Totals) []byte {
	e := encoder{b: make([]byte, 0, 64)}
	for _, n := range countsOf(t) {
		e.int(*n)
	}
	empty := uint64(0)
	for _, n := range t.Latency {
		if n == 0 {
			empty++
			continue
		}
		e.uint(empty)
		e.uint(uint64(n))
		empty = 0
	}
	return e.b
}

// DecodeTotals reads them.
func DecodeTotals(b []byte) (grapnel.Totals, error) {
	var t grapnel.Totals
	d := decoder{b: b}
	for _, n := range countsOf(&t) {
		*n = d.int()
	}
	for i := uint64(0); len(d.b) > 0; i++ {
		if i += d.uint(); i >= grapnel.LatencyBuckets {
			return grapnel.Totals{}, ErrMangled
		}
		t.Latency[i] = uint32(d.uint())
	}
	if d.bad {
		return grapnel.Totals{}, ErrMangled
	}
	return t, nil
}
