package memory

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/decide"
)

// oldest returns at most limit of the items that are old, the first in an order.
func oldest[T any](items iter.Seq[T], limit int, old func(T) bool, compare func(a, b T) int) (list []T) {
	for item := range items {
		if old(item) {
			list = append(list, item)
		}
	}
	slices.SortStableFunc(list, compare)
	return list[:min(len(list), max(limit, 0))]
}

// live returns a copy of the answer that key has at a time, or nil.
func (s *model) live(key string, now time.Time) *store.Answer {
	a, there := s.answers[key]
	if !there || !micro(now).Before(a.expires) {
		return nil
	}
	a.Body = slices.Clone(a.Body)
	return &a.Answer
}

// recall is the first step of every call with an idempotency key: a non-nil answer or an error ends
// the call.
func (s *model) recall(once *store.Once) (*store.Answer, error) {
	if once == nil {
		return nil, nil
	}
	return decide.Recall(s.live(once.Key, once.Now), once)
}

// remember is the last step of such a call, after every step that can fail. The stored fingerprint
// is the request's, whatever the answer contains.
func (s *model) remember(once *store.Once, done any) {
	if once == nil {
		return
	}
	a := once.Answer(done)
	a.Fingerprint, a.Body = once.Fingerprint, slices.Clone(a.Body)
	s.answers[once.Key] = answer{Answer: a, expires: micro(once.Expires)}
}

// Recall returns the stored answer of a key.
func (s *model) Recall(_ context.Context, key string, now time.Time) (*store.Answer, error) {
	return s.live(key, now), nil
}

// Remember calls Answer with nil.
func (s *model) Remember(_ context.Context, once *store.Once) (*store.Answer, error) {
	then, err := s.recall(once)
	if then == nil && err == nil {
		s.remember(once, nil)
	}
	return then, err
}

// Forget deletes answers in the order of their expiry.
func (s *model) Forget(_ context.Context, now time.Time, limit int) (int, error) {
	old := func(key string) bool { return !micro(now).Before(s.answers[key].expires) }
	expired := oldest(maps.Keys(s.answers), limit, old, func(a, b string) int {
		return cmp.Or(s.answers[a].expires.Compare(s.answers[b].expires), cmp.Compare(a, b))
	})
	for _, key := range expired {
		delete(s.answers, key)
	}
	return len(expired), nil
}
