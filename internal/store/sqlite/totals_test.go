package sqlite

import "testing"

func TestHoursAreWholeOnBothSidesOf1970(t *testing.T) {
	for at, want := range map[int64]int64{0: 0, microsPerHour - 1: 0, microsPerHour: 1, -1: -1, -microsPerHour: -1, -microsPerHour - 1: -2} {
		if got := hourOf(at); got != want {
			t.Errorf("hourOf(%d) = %d, want %d", at, got, want)
		}
	}
}
