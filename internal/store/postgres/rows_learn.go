package postgres

import (
	"context"
	"maps"
	"slices"
)

// learn returns the numbers of names, and assigns numbers to new names.
func (s *database) learn(ctx context.Context, endpoints map[string]bool, kinds map[kind]bool) (n named, err error) {
	if n.targets, err = learnNames(ctx, s, &targetNaming, s.names.targets, endpoints); err == nil {
		n.kinds, err = learnNames(ctx, s, &kindNaming, s.names.kinds, kinds)
	}
	return n, err
}

func learnNames[N comparable](ctx context.Context, s *database, of *naming[N], remembered map[N]int32,
	wanted map[N]bool) (map[N]int32, error) {
	numbers := make(map[N]int32, len(wanted))
	others, forgotten := fromMemory(&s.names, remembered, numbers, wanted)
	if len(others) == 0 {
		return numbers, nil
	}
	slices.SortFunc(others, of.compare)
	if err := of.read(ctx, s.pool, others, numbers); err != nil {
		return nil, err
	}
	others = slices.DeleteFunc(others, func(name N) bool { _, known := numbers[name]; return known })
	if len(others) > 0 {
		if err := of.give(ctx, s.pool, others, numbers); err != nil {
			return nil, err
		}
	}
	toMemory(&s.names, remembered, numbers, s.bounds.Names, forgotten)
	return numbers, nil
}

// fromMemory copies the cached numbers. It returns the names that are not cached, and how often the
// cache was forgotten.
func fromMemory[N comparable](all *names, remembered, into map[N]int32, wanted map[N]bool) (others []N, forgotten int) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for name := range wanted {
		if number, known := remembered[name]; known {
			into[name] = number
		} else {
			others = append(others, name)
		}
	}
	return others, all.forgotten
}

// toMemory adds numbers to the cache, unless it was forgotten since they were read, and evicts some
// beyond the limit.
func toMemory[N comparable](all *names, remembered, numbers map[N]int32, most, forgotten int) {
	all.mu.Lock()
	defer all.mu.Unlock()
	if all.forgotten != forgotten {
		return
	}
	maps.Copy(remembered, numbers)
	for name := range remembered {
		if len(remembered) <= most {
			break
		}
		delete(remembered, name)
	}
}
