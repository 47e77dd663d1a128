package memory

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestOrder compares the set with a sorted slice while it grows over several blocks and shrinks
// again.
func TestOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	set := order{before: byNumber}
	var want, out []*delivery
	for i := range 4 * blockSize {
		d := &delivery{}
		d.Seq = int64(i)
		out = append(out, d)
	}
	random.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	check := func() {
		t.Helper()
		if got := slices.Collect(set.all()); !slices.Equal(got, want) {
			t.Fatalf("the set has %d deliveries in another order than the %d there are", len(got), len(want))
		}
		if set.size != len(want) {
			t.Fatalf("size %d, want %d", set.size, len(want))
		}
		for _, b := range set.blocks {
			if len(b) == 0 || len(b) > blockSize {
				t.Fatalf("a block has %d deliveries", len(b))
			}
		}
		if len(want) > 0 && set.first() != want[0] || len(want) == 0 && set.first() != nil {
			t.Fatalf("first is %v", set.first())
		}
	}
	add := func() {
		d := out[len(out)-1]
		out = out[:len(out)-1]
		set.add(d)
		i, _ := slices.BinarySearchFunc(want, d, func(a, b *delivery) int { return int(a.Seq - b.Seq) })
		want = slices.Insert(want, i, d)
	}
	take := func() {
		i := random.IntN(len(want))
		set.take(want[i])
		out = append(out, want[i])
		want = slices.Delete(want, i, i+1)
	}
	check()
	for len(out) > 0 {
		add()
		if random.IntN(4) == 0 {
			take()
		}
		if len(out)%50 == 0 {
			check()
		}
	}
	check()
	for len(want) > 0 {
		take()
		if len(want)%50 == 0 {
			check()
		}
	}
	check()
	for d := range set.all() {
		t.Fatalf("an empty set has %v", d)
	}
}
