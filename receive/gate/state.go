package gate

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
)

// Unknown says what becomes of an event whose state no edge has.
type Unknown string

// The choices.
const (
	Reject Unknown = "reject"      // it changes nothing
	Accept Unknown = "accept"      // it applies, unless the row's state is terminal
	ToDead Unknown = "dead_letter" // the handler fails for good, so that an operator sees it
)

// StateMachine applies an event whose state can be reached from the row's, over one or more edges:
// an event that comes late does not stop those after it.
type StateMachine struct {
	Table    string
	Key      string              // its column; empty: id
	Column   string              // of the state, a text; empty: status
	Edges    map[string][]string // from a state to those that may follow it
	Terminal []string            // states that no other follows
	Unknown  Unknown             // empty: Reject

	after map[string][]string // of each known state, those that can be reached
}

// NewStateMachine checks and prepares a machine.
func NewStateMachine(m StateMachine) (*StateMachine, error) {
	m.Unknown, m.after = cmp.Or(m.Unknown, Reject), map[string][]string{}
	if !slices.Contains([]Unknown{Reject, Accept, ToDead}, m.Unknown) {
		return nil, fmt.Errorf("gate: Unknown is none of %s, %s, %s", Reject, Accept, ToDead)
	}
	followers := slices.Concat(slices.Collect(maps.Values(m.Edges))...)
	for _, state := range slices.Concat(slices.Collect(maps.Keys(m.Edges)), followers, m.Terminal) {
		reached := slices.Clone(m.Edges[state])
		for i := 0; i < len(reached); i++ { // it grows
			for _, next := range m.Edges[reached[i]] {
				if !slices.Contains(reached, next) {
					reached = append(reached, next)
				}
			}
		}
		if slices.Contains(reached, state) {
			return nil, fmt.Errorf("gate: the state %s follows itself in a circle; a version or a time has to say which event is newer", state)
		}
		if len(reached) > 0 && slices.Contains(m.Terminal, state) {
			return nil, fmt.Errorf("gate: the state %s is terminal, so it has no edge", state)
		}
		m.after[state] = reached
	}
	return &m, nil
}

// Apply brings an event to the row with a key.
func (m *StateMachine) Apply(ctx context.Context, db DB, key any, state string, set Set) (Result, error) {
	_, known := m.after[state]
	if !known && m.Unknown != Accept {
		return map[Unknown]Result{Reject: Rejected, ToDead: DeadLetter}[m.Unknown], nil
	}
	column := cmp.Or(m.Column, "status")
	p, err := at(db, m.Table, m.Key, key, Set{column: state}, set)
	if err != nil {
		return "", err
	}
	// The known states that do not give way. An unknown one gives way if it may be in the row.
	var stay, yield []any
	for _, s := range slices.Sorted(maps.Keys(m.after)) {
		if known && slices.Contains(m.after[s], state) || !known && !slices.Contains(m.Terminal, s) {
			yield = append(yield, s)
		} else {
			stay = append(stay, s)
		}
	}
	how, states := " in (", yield
	if m.Unknown == Accept {
		if how, states = " not in (", stay; !known {
			states = append(states, state)
		}
	}
	condition := "g." + column + " is null"
	if len(states) > 0 {
		condition += " or g." + column + how + marks(len(p.names)+1, len(states)) + ")"
	}
	applied, err := p.upsert(ctx, condition, states...)
	if applied || err != nil {
		return Applied, err
	}
	var now sql.NullString
	_, err = p.stored(ctx, column, &now)
	switch {
	case err != nil:
		return "", err
	case now.String == state:
		return Equal, nil
	case slices.Contains(m.Terminal, now.String) || slices.Contains(m.after[state], now.String):
		return Stale, nil
	default:
		return DeadLetter, nil
	}
}
