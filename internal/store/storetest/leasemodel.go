package storetest

import (
	"cmp"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// The model's leases. A leased row has only the fields of its lease that the row itself lacks.

func (r *row) leased() grapnel.Lease {
	l := *r.lease
	l.Delivery, l.Event, l.Number, l.Until = r.Seq, r.EventSeq, r.AttemptsMade+1, r.Waiting.Due
	l.CreatedAt, l.Anchor = r.CreatedAt, r.Waiting.Anchor
	return l
}

// led are the rows of an endpoint that have a due time, the earliest first.
func (m *model) led(endpoint string) (rows []*row) {
	for _, r := range m.rows {
		if r.EndpointID == endpoint && r.Waiting.Head && !r.Waiting.Blocked {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(a, b *row) int {
		return cmp.Or(a.Waiting.Due.Compare(b.Waiting.Due), cmp.Compare(a.Seq, b.Seq))
	})
	return rows
}

func (m *model) leases(queue string) (list []grapnel.Lease) {
	for _, r := range m.led(queue) {
		if r.lease != nil {
			list = append(list, r.leased())
		}
	}
	return list
}

func (m *model) claim(c store.Claim) (done store.Claimed) {
	wants := slices.Clone(c.Wants)
	var left []*row
	rows := m.led(c.Queue)
	for i, r := range rows {
		if r.Waiting.Due.After(c.Now) || len(done.Over) == store.MostOver {
			left = append(left, rows[i:]...)
			break
		}
		if r.lease != nil {
			done.Over = append(done.Over, r.leased())
			continue
		}
		for len(wants) > 0 && wants[0].Most > 0 && m.holds(c.Queue, wants[0].Consumer) >= wants[0].Most {
			wants = wants[1:]
		}
		if len(wants) == 0 {
			left = append(left, r)
			continue
		}
		w := wants[0]
		wants = wants[1:]
		r.lease = &grapnel.Lease{Token: w.Token, Queue: c.Queue, Consumer: w.Consumer, Trigger: r.trigger, Scheduled: r.Waiting.Due,
			GrantedAt: c.Now}
		r.Waiting.Due = c.Now.Add(w.For)
		done.Leases = append(done.Leases, r.leased())
	}
	if len(left) > 0 {
		done.Next = left[0].Waiting.Due
	}
	return done
}

func (m *model) holds(queue, consumer string) (n int) {
	for _, l := range m.leases(queue) {
		if l.Consumer == consumer {
			n++
		}
	}
	return n
}

// of finds the row whose lease has a token.
func (m *model) of(token string) *row {
	for _, r := range m.rows {
		if r.lease != nil && r.lease.Token == token {
			return r
		}
	}
	return nil
}

func (m *model) extend(token string, now time.Time, by time.Duration) (grapnel.Lease, error) {
	r := m.of(token)
	if r == nil || !now.Before(r.Waiting.Due) {
		return grapnel.Lease{}, grapnel.Errorf(grapnel.CodeConflict, "over")
	}
	r.Waiting.Due = now.Add(by)
	return r.leased(), nil
}

func (m *model) queueCounts(queue string, now time.Time) (n grapnel.QueueCounts) {
	for _, r := range m.rows {
		switch {
		case r.EndpointID != queue || m.gone[r.Seq]:
			continue
		case r.Status == grapnel.Failed && r.Mark.DiscardedAt.IsZero() && r.Mark.ReplayResult != grapnel.Delivered:
			n.Dead++
			continue
		case r.Status != grapnel.Pending:
			continue
		case !r.Waiting.Head:
			n.Waiting++
		case r.Waiting.Blocked:
			n.Blocked++
		case r.lease != nil:
			n.Leased++
		case r.Waiting.Due.After(now):
			n.Delayed++
		default:
			n.Ready++
		}
		if n.Oldest.IsZero() {
			n.Oldest = r.CreatedAt
		}
	}
	return n
}
