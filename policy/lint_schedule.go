package policy

import (
	"fmt"
	"time"
)

func scheduleRules() []rule {
	return []rule{
		{"attempts-differ", "the number of attempts in words is not that of the table", attemptsDiffer},
		{"window-differs", "the window in words is not the sum of the table", windowDiffers},
		{"since-first-fits", "read as offsets from the first attempt, the table fits the window", sinceFirstFits},
		{"formula-differs", "the formula does not make the table", formulaDiffers},
		{"jitter-silent", "nothing is said about jitter, without which what fails together is retried together", func(c *Claims) []string {
			s := &c.Schedule
			return when(s.Jitter == "" && (len(s.Table) > 0 || s.Formula != nil), "a schedule without a word on it")
		}},
		{"endless", "nothing ends the retries", func(c *Claims) []string {
			s := &c.Schedule
			repeats := s.Tail == TailRepeat || s.Formula != nil && len(s.Table) == 0
			return when(repeats && s.MaxAge == 0 && s.MaxAttempts == 0, "the last wait repeats, with no most attempts and no most age")
		}},
	}
}

// reach is the reach of the claimed table, or false if the claims make no complete schedule.
func (s *ScheduleClaims) reach() (Reach, bool) {
	p := Policy{
		Schedule: Schedule{Mode: s.Mode, Delays: s.Table, Tail: s.Tail},
		MaxAge:   s.MaxAge, MaxAttempts: s.MaxAttempts,
	}
	if s.Formula != nil && len(s.Table) == 0 {
		p.Schedule = Schedule{Mode: Exponential, Base: s.Formula.Base, Factor: s.Formula.Factor, Max: s.Formula.Max}
		if s.Formula.Base == 0 || s.Formula.Factor == 0 {
			return Reach{}, false
		}
	} else if len(s.Table) == 0 {
		return Reach{}, false
	}
	if p.Schedule.endless() && p.MaxAge == 0 && p.MaxAttempts == 0 {
		return Reach{}, false
	}
	return p.Reach(), true
}

func attemptsDiffer(c *Claims) []string {
	s := &c.Schedule
	reach, ok := s.reach()
	if !ok || s.Attempts == 0 || s.Attempts == reach.Attempts {
		return nil
	}
	detail := fmt.Sprintf("%d in words, %d in the table", s.Attempts, reach.Attempts)
	if s.Attempts == reach.Attempts-1 {
		detail += fmt.Sprintf("; it fits if %d retries after the first attempt are meant", s.Attempts)
	}
	return []string{detail}
}

func windowDiffers(c *Claims) []string {
	s := &c.Schedule
	reach, ok := s.reach()
	if !ok || s.Window == 0 || about(s.Window.Std(), reach.Nominal) {
		return nil
	}
	within := 0
	for _, at := range reach.Table {
		if at <= s.Window.Std() {
			within++
		}
	}
	return []string{fmt.Sprintf("%s in words, %s in the table; %d of its %d attempts are within %s",
		s.Window, Duration(reach.Nominal), within, reach.Attempts, s.Window)}
}

// about says whether a figure in words ("about 36 hours") can stand for the exact one.
func about(words, exact time.Duration) bool {
	return (words - exact).Abs() <= exact/20
}

func sinceFirstFits(c *Claims) []string {
	s := c.Schedule
	if s.Mode != SincePrevious || len(windowDiffers(c)) == 0 {
		return nil
	}
	s.Mode = SinceFirst
	reach, _ := s.reach()
	return when(about(s.Window.Std(), reach.Nominal),
		fmt.Sprintf("as offsets its last attempt is at %s, the window is %s", Duration(reach.Nominal), s.Window))
}

func formulaDiffers(c *Claims) []string {
	s := &c.Schedule
	if s.Formula == nil || len(s.Table) < 3 {
		return nil
	}
	f := *s.Formula
	// Without figures "exponential" means at least that every wait is the same multiple of the one
	// before.
	if f.Base == 0 {
		f.Base = s.Table[1]
	}
	if f.Factor == 0 && s.Table[1] > 0 {
		f.Factor = float64(s.Table[2]) / float64(s.Table[1])
	}
	if f.Max == 0 {
		f.Max = s.Table[len(s.Table)-1]
	}
	made := Schedule{Mode: Exponential, Base: f.Base, Factor: f.Factor, Max: f.Max}
	for n := 2; n <= len(s.Table); n++ {
		row := s.Table[n-1]
		if want := Duration(made.power(n)); !about(row.Std(), want.Std()) {
			return []string{fmt.Sprintf("the wait before attempt %d is %s in the table; %s times %g makes it %s",
				n, row, f.Base, f.Factor, Duration(want.Std().Round(time.Second)))}
		}
	}
	return nil
}
