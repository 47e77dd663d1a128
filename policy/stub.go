package policy

import (
	"errors"
	"time"
)

// The declarations below are placeholders to be replaced at once.

type Duration time.Duration
type Schedule struct{}
type Jitter struct{}
type RetryAfterRule string
type Exhaustion string
type Then string
type Disable struct{}
type Breaker struct{}

func Parse(raw []byte) (Policy, error)                                 { return Policy{}, errors.New("todo") }
func Preset(name string) (Policy, bool)                                { return Policy{}, false }
func (p *Policy) Decide(o Outcome) Decision                            { return Retry }
func (p *Policy) First(pr Progress) Planned                            { return Planned{} }
func (p *Policy) After(pr Progress, o Outcome, ended time.Time) Step   { return Step{} }
func (p *Policy) Plan(pr Progress, next time.Time, most int) []Planned { return nil }
