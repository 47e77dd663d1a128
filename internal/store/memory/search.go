package memory

import (
	"bytes"
	"context"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// lookedAtBriefly is the number of deliveries that DeliverySearch reads with a Within.
const lookedAtBriefly = lookedAt / 10

// DeliverySearch reads at most lookedAt deliveries, or lookedAtBriefly. Those out of scope do not
// count: where a page ends would tell how many another tenant has.
func (s *model) DeliverySearch(_ context.Context, scope store.Scope, q store.DeliveryQuery,
	text string) (list []grapnel.Delivery, resume int64, err error) {
	if q.Limit <= 0 {
		return nil, 0, nil
	}
	looked, last, most := 0, int64(0), lookedAt
	if q.Within > 0 {
		most = lookedAtBriefly
	}
	for _, d := range slices.Backward(newest(s.deliveries, q.Before)) {
		if !scope.Allows(d.event.Tenant) {
			continue
		}
		if looked == most || len(list) >= q.Limit {
			return list, last, nil
		}
		if looked, last = looked+1, d.Seq; d.wanted(scope, &q) && bytes.Contains(d.event.Data, []byte(text)) {
			list = append(list, d.shown())
		}
	}
	return list, 0, nil
}
