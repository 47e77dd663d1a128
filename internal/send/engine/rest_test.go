package engine

import "testing"

// TestMemoryGoesBackAtRest: memory goes back if there is enough of it, and neither a load nor
// people's pages would need it again at once.
func TestMemoryGoesBackAtRest(t *testing.T) {
	b := Bounds{Restless: 10, Made: 50, Spare: 100}
	for _, c := range []struct {
		writes, made, spare int64
		want                bool
	}{{0, 0, 100, true}, {9, 49, 1000, true}, {0, 0, 99, false}, {10, 0, 1000, false}, {0, 50, 1000, false}} {
		if got := givesBack(c.writes, c.made, c.spare, &b); got != c.want {
			t.Errorf("after %d writes that made %d bytes, %d are spare: %v", c.writes, c.made, c.spare, got)
		}
	}
}
