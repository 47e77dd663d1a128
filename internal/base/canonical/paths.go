package canonical

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxIgnored is the largest number of ignored paths, because a set of paths is one
// machine word. maxSteps is the longest path.
const (
	MaxIgnored = 64
	maxSteps   = 16
)

// step is one part of a path: a member's name, the place of an element, or any.
type step struct {
	name  string
	index int // of an element; -1: it is a name, or any
	any   bool
}

// Ignored are paths to ignore. Values at and below them are left out of the form.
type Ignored struct{ paths [][]step }

// parsePath reads $.a.b, $.items[*].sent_at, $.list[0], $["odd name"] and $.*.
func parsePath(text string) ([]step, error) {
	rest, ok := strings.CutPrefix(text, "$")
	if !ok {
		return nil, fmt.Errorf("a path starts with $, as in $.data.sent_at")
	}
	var steps []step
	for rest != "" {
		s, after, err := parseStep(rest)
		if err != nil {
			return nil, err
		}
		rest = after
		if steps = append(steps, s); len(steps) > maxSteps {
			return nil, fmt.Errorf("a path has at most %d parts", maxSteps)
		}
	}
	if len(steps) == 0 {
		return nil, fmt.Errorf("$ alone would ignore the whole body")
	}
	return steps, nil
}

// CheckPath returns the fault of a path to ignore.
func CheckPath(text string) error {
	_, err := parsePath(text)
	return err
}

func parseStep(text string) (s step, rest string, err error) {
	s.index = -1
	if after, dotted := strings.CutPrefix(text, "."); dotted {
		end := strings.IndexAny(after, ".[")
		if end < 0 {
			end = len(after)
		}
		s.name, rest = after[:end], after[end:]
		if s.name == "" {
			return s, "", fmt.Errorf("a name is missing after a dot")
		}
		s.any = s.name == "*"
		return s, rest, nil
	}
	after, bracketed := strings.CutPrefix(text, "[")
	if !bracketed {
		return s, "", fmt.Errorf("%.20q does not start with a dot or a bracket", text)
	}
	if quoted, err := strconv.QuotedPrefix(after); err == nil && quoted[0] == '"' {
		s.name, _ = strconv.Unquote(quoted) // QuotedPrefix found it well-formed
		after, closed := strings.CutPrefix(after[len(quoted):], "]")
		if !closed {
			return s, "", fmt.Errorf("a bracket is not closed")
		}
		return s, after, nil
	}
	inside, rest, closed := strings.Cut(after, "]")
	if !closed {
		return s, "", fmt.Errorf("a bracket is not closed")
	}
	if inside == "*" {
		s.any = true
		return s, rest, nil
	}
	s.index, err = strconv.Atoi(inside)
	if err != nil || s.index < 0 || strconv.Itoa(s.index) != inside {
		return s, "", fmt.Errorf("between brackets is a number, * or a quoted name, not %.20q", inside)
	}
	return s, rest, nil
}

// ParseIgnored reads paths.
func ParseIgnored(texts []string) (Ignored, error) {
	var all Ignored
	if len(texts) > MaxIgnored {
		return all, fmt.Errorf("at most %d paths can be ignored", MaxIgnored)
	}
	for _, text := range texts {
		steps, err := parsePath(text)
		if err != nil {
			return all, fmt.Errorf("%.80q: %w", text, err)
		}
		all.paths = append(all.paths, steps)
	}
	return all, nil
}

// live is the set of paths that lead to where the reader is, one bit for each.
type live uint64

func (i *Ignored) start() live {
	if len(i.paths) == 64 {
		return ^live(0)
	}
	return 1<<len(i.paths) - 1
}

// member narrows a set to the paths that continue with a member of this name, at a depth; ends says
// that one of them ends there.
func (i *Ignored) member(from live, depth int, name []byte) (into live, ends bool) {
	return i.narrow(from, depth, func(s step) bool { return s.any || s.index < 0 && s.name == string(name) })
}

// element does the same with the element of an array.
func (i *Ignored) element(from live, depth, index int) (into live, ends bool) {
	return i.narrow(from, depth, func(s step) bool { return s.any || s.index == index })
}

func (i *Ignored) narrow(from live, depth int, goesOn func(step) bool) (into live, ends bool) {
	for n := range i.paths {
		if from&(1<<n) == 0 || !goesOn(i.paths[n][depth]) {
			continue
		}
		if len(i.paths[n]) == depth+1 {
			return 0, true
		}
		into |= 1 << n
	}
	return into, false
}
