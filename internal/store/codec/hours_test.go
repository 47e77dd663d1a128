package codec

import (
	"testing"
	"time"
)

func TestHoursAndDaysAreWholeOnBothSidesOf1970(t *testing.T) {
	const micro = time.Microsecond
	for _, of := range []struct {
		at        time.Duration // since 1970
		hour, day int64
	}{
		{0, 0, 0}, {time.Hour - micro, 0, 0}, {time.Hour, 1, 0}, {24*time.Hour - micro, 23, 0}, {24 * time.Hour, 24, 1},
		{-micro, -1, -1}, {-time.Hour, -1, -1}, {-time.Hour - micro, -2, -1}, {-24 * time.Hour, -24, -1}, {-24*time.Hour - micro, -25, -2},
	} {
		at := Micros(time.Unix(0, 0).Add(of.at))
		hour := HourOf(at)
		if hour != of.hour || DayOf(hour) != of.day {
			t.Errorf("%v after 1970: hour %d of day %d, want hour %d of day %d", of.at, hour, DayOf(hour), of.hour, of.day)
		}
		if from, to := HourBegins(hour), HourBegins(hour+1); at < from || at >= to {
			t.Errorf("%v after 1970 is not between the beginnings of hour %d and the next", of.at, hour)
		}
		if from, to := Midnight(hour), FirstHour(of.day+1); from != FirstHour(of.day) || hour < from || hour >= to {
			t.Errorf("hour %d is not between the first of day %d and that of the next", hour, of.day)
		}
	}
}
