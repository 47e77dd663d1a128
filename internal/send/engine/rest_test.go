package engine

import (
	"slices"
	"testing"
)

// TestMemoryGoesBackAfterALoad: memory goes back twice after a load and then now and then, and
// never during one.
func TestMemoryGoesBackAfterALoad(t *testing.T) {
	var l lull
	b := Bounds{Restless: 10, Again: 4}
	var gave []int
	for i, writes := range []int64{0, 9, 0, 0, 0, 0, 0, 0, 10, 99, 3, 0, 0, 0} {
		if l.gives(writes, &b) {
			gave = append(gave, i)
		}
	}
	if want := []int{0, 1, 3, 7, 10, 11, 13}; !slices.Equal(gave, want) {
		t.Errorf("it gives memory back after the Rests %v, want %v", gave, want)
	}
}
