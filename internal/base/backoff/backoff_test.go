package backoff

import (
	"math"
	"slices"
	"testing"
	"time"
)

func TestPausesDoubleUpToTheLongest(t *testing.T) {
	s := Steps{First: time.Second, Longest: 10 * time.Second}
	var got []time.Duration
	for _, n := range []int{-1, 0, 1, 2, 3, 4, 5, 6, math.MaxInt} {
		got = append(got, s.After(n)/time.Second)
	}
	if want := []time.Duration{1, 1, 1, 2, 4, 8, 10, 10, 10}; !slices.Equal(got, want) {
		t.Errorf("pauses are %v seconds, want %v", got, want)
	}
	if got := (Steps{First: time.Minute, Longest: time.Second}).After(1); got != time.Second {
		t.Errorf("a first pause above the longest is %s, want the longest", got)
	}
}

func TestWaitEndsWithItsOwner(t *testing.T) {
	stop := make(chan struct{})
	if !Wait(stop, 0) {
		t.Error("no time at all was not waited out")
	}
	close(stop)
	if Wait(stop, time.Hour) {
		t.Error("an hour was waited out although the owner had stopped")
	}
}

func TestTells(t *testing.T) {
	lines := 0
	for n := 1; n <= 3600; n++ {
		if Tells(n) {
			lines++
		}
	}
	if lines != 12 || !Tells(1) || !Tells(2) || Tells(3) {
		t.Errorf("%d of 3,600 failures are logged", lines)
	}
}
