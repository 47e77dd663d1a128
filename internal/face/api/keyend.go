package api

import (
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// usualLife is the life of a key that is created without an end.
const usualLife = 365 * 24 * time.Hour

const neverEnds = "never"

// endOf is the time that a request gives as the end of a key; zero: never.
func endOf(text string, now time.Time) (time.Time, error) {
	switch text {
	case neverEnds:
		return time.Time{}, nil
	case "":
		return now.Add(usualLife).Truncate(time.Second), nil
	}
	if d, err := policy.ParseDuration(text); err == nil {
		return now.Add(d).Truncate(time.Second), nil
	}
	if day, err := time.Parse(time.DateOnly, text); err == nil {
		return day, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	return at.UTC(), err
}

func isEnd(text string) bool {
	_, err := endOf(text, time.Time{})
	return err == nil
}

func isRange(text string) bool {
	_, err := grapnel.Range(text)
	return err == nil
}
