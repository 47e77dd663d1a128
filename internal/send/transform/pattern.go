package transform

import (
	"errors"
	"regexp"
	"regexp/syntax"
	"strings"
)

var errPattern = errors.New("uses a regular expression that is too long")

// pattern is a regular expression with its cost.
type pattern struct {
	*regexp.Regexp
	states int64
}

// Limits of regular expressions. Each machine caches those that it has compiled.
const (
	maxPattern  = 512 // bytes
	maxStates   = 1000
	maxPatterns = 64
	maxCached   = 5000 // states of all of them; a machine with more is used once
)

// matched is for matching a regular expression, whose arguments are the pattern, the flags and what
// the function has anyhow (see patterned). With the flag g it finds all matches, and each of them
// costs as much as the text is long, because its position is counted from the start of the text.
func matched(m *meter, x any, args []any) int64 {
	if both, is := args[0].([]any); is && len(both) > 0 { // the pattern and its flags
		args = []any{both[0], nil, args[2]}
		if len(both) > 1 {
			args[1] = both[1]
		}
	}
	text, _ := x.(string)
	source, _ := args[0].(string)
	flags, _ := args[1].(string)
	anyhow, _ := args[2].(string)
	p := m.pattern(source, flags)
	if p == nil {
		return 1 // an error of the expression, or the end
	}
	each := (4*int64(len(text)) + nodeSize) * int64(1+p.NumSubexp())
	n := int64(len(text)) * (10 + p.states)
	if strings.Contains(anyhow, "t") {
		return n
	}
	if !strings.Contains(flags+anyhow, "g") || !m.charge(n) {
		return n + each
	}
	found := int64(0)
	for at := 0; at <= len(text); found++ {
		cost := each + int64(len(text)-at)*p.states/4
		if strings.Contains(anyhow, "s") { // the parts so far are copied
			cost += 16 * found
		}
		if !m.charge(cost) {
			break
		}
		next := p.FindStringIndex(text[at:])
		if next == nil {
			break
		}
		at += max(next[1], 1)
	}
	return n
}

func (m *meter) pattern(source, flags string) *pattern {
	if strings.Contains(flags, "i") {
		source = "(?i)" + source
	}
	if strings.Contains(flags, "m") {
		source = "(?s)" + source
	}
	if p := m.patterns[source]; p != nil {
		return p
	}
	if len(source) > maxPattern {
		m.end(errPattern)
		return nil
	}
	if len(m.patterns) >= maxPatterns {
		m.crowded = true
		clear(m.patterns)
	}
	parsed, err := syntax.Parse(source, syntax.Perl)
	if err != nil {
		return nil
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil || len(program.Inst) > maxStates {
		m.end(errPattern)
		return nil
	}
	compiled, err := regexp.Compile(source)
	if err != nil || !m.charge(int64(len(program.Inst))*2000) {
		return nil
	}
	if m.states += len(program.Inst); m.states > maxCached {
		m.crowded = true
	}
	p := &pattern{compiled, int64(len(program.Inst))}
	m.patterns[source] = p
	return p
}
