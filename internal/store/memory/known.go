package memory

import (
	"time"

	"github.com/grapnelhq/grapnel/internal/store"
)

// knownBy is what an event is known by.
type knownBy struct{ source, by string }

// known is an event that is known until a time, whether it is still here or not.
type known struct {
	sum   [32]byte
	until time.Time
	first store.Placed // what was answered for it
}

func keyOf(k *store.Known) knownBy { return knownBy{k.Source, string(k.By)} }

// recognize returns the answer to an event that is known.
func (s *Store) recognize(in *store.Incoming) (store.Placed, bool) {
	if in.Known == nil {
		return store.Placed{}, false
	}
	k, there := s.known[keyOf(in.Known)]
	if !there || !micro(in.Event.AcceptedAt).Before(k.until) {
		return store.Placed{}, false
	}
	again := k.first
	again.Duplicate, again.Differs = true, k.sum != in.Known.Sum
	return again, true
}

// learn makes an event known that was accepted.
func (s *Store) learn(k *store.Known, placed store.Placed) {
	if k != nil {
		s.known[keyOf(k)] = known{sum: k.Sum, until: micro(k.Until), first: placed}
	}
}
