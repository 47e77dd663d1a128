package memory

import (
	"bytes"
	"context"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// DeliverySearch reads at most lookedAt deliveries. Those out of scope do not count: where a page
// ends would tell how many another tenant has.
func (s *Store) DeliverySearch(ctx context.Context, scope store.Scope, q store.DeliveryQuery,
	text string) (list []grapnel.Delivery, resume int64, err error) {
	leave, err := s.enter(ctx)
	if err != nil {
		return nil, 0, err
	}
	defer leave()
	if q.Limit <= 0 {
		return nil, 0, nil
	}
	looked, last := 0, int64(0)
	for _, d := range slices.Backward(newest(s.deliveries, q.Before)) {
		if !scope.Allows(d.Tenant) {
			continue
		}
		if looked == lookedAt || len(list) >= q.Limit {
			return list, last, nil
		}
		if looked, last = looked+1, d.Seq; d.wanted(scope, &q) && bytes.Contains(d.event.Data, []byte(text)) {
			list = append(list, d.shown())
		}
	}
	return list, 0, nil
}
