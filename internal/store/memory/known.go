package memory

import (
	"github.com/grapnelhq/grapnel/internal/store"
)

func keyOf(k *store.Known) knownBy { return knownBy{k.Source, string(k.By)} }

// recognize returns the answer to an event with a stored, unexpired Known.
func (s *model) recognize(in *store.Incoming) (store.Placed, bool) {
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

// learn stores the Known of an accepted event.
func (s *model) learn(k *store.Known, placed store.Placed) {
	if k != nil {
		s.known[keyOf(k)] = known{sum: k.Sum, until: micro(k.Until), first: placed}
	}
}
