package storetest

import (
	"fmt"
	"math"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// leaseOf translates a store's lease into the model's ids.
func (m *machine) leaseOf(l *grapnel.Lease) {
	l.Delivery, l.Event = m.deliveries.model(l.Delivery), m.events.model(l.Event)
}

func (m *machine) leasesOf(list []grapnel.Lease) {
	for i := range list {
		m.leaseOf(&list[i])
	}
}

// someToken draws a token: mostly that of an existing lease.
func (m *machine) someToken(t *rapid.T) string {
	tokens := []string{"", "lse_nobody's"}
	for _, ep := range someEndpoints {
		for _, l := range m.model.leases(ep) {
			tokens = append(tokens, l.Token, l.Token, l.Token)
		}
	}
	if m.ids > 0 {
		tokens = append(tokens, fmt.Sprint("lse_", rapid.IntRange(1, m.ids).Draw(t, "any token")))
	}
	return pick(t, "token", tokens...)
}

func (m *machine) claims(t *rapid.T) {
	c := store.Claim{Queue: pick(t, "queue", epA, epA, epX, "que_unknown"), Now: m.tick(t)}
	for range rapid.IntRange(0, 4).Draw(t, "wants") {
		m.ids++
		c.Wants = append(c.Wants, store.Want{Token: fmt.Sprint("lse_", m.ids), Consumer: pick(t, "consumer", "", "c", "d"),
			For: pick(t, "for", time.Second, 5*time.Second, time.Minute), Most: pick(t, "most", 0, 1, 2, 3)})
	}
	want := m.model.claim(c)
	got, err := m.Claim(m.ctx, c)
	m.leasesOf(got.Leases)
	m.leasesOf(got.Over)
	m.agree(got, want, err, nil, "Claim")
	for _, l := range want.Leases {
		m.show(everyone, l.Delivery)
	}
}

func (m *machine) extends(t *rapid.T) {
	token, now, by := m.someToken(t), m.tick(t), pick(t, "by", 0, time.Second, time.Minute)
	want, wantErr := m.model.extend(token, now, by)
	got, err := m.Extend(m.ctx, token, now, by)
	m.leaseOf(&got)
	m.agree(got, want, err, wantErr, "Extend")
}

// settlement draws the lease of a change: mostly the delivery's own, if it has one.
func (m *machine) settlement(t *rapid.T, delivery int64) *store.Settlement {
	r := m.model.find(delivery)
	leased := r != nil && r.lease != nil
	if chance(t, "the other way", 5) {
		leased = !leased
	}
	if !leased {
		return nil
	}
	s := &store.Settlement{Token: m.someToken(t), Over: chance(t, "over", 2)}
	if r != nil && r.lease != nil && !chance(t, "another token", 5) {
		s.Token = r.lease.Token
	}
	return s
}

// compareLeases compares the leases of all queues.
func (m *machine) compareLeases() {
	m.Helper()
	for _, queue := range someEndpoints {
		all := m.model.leases(queue)
		for _, limit := range []int{0, 1, math.MaxInt32} {
			got, err := m.LeaseList(m.ctx, queue, limit)
			m.leasesOf(got)
			m.agree(got, all[:min(limit, len(all))], err, nil, "LeaseList")
		}
		for _, want := range all {
			got, err := m.Lease(m.ctx, want.Token)
			m.leaseOf(&got)
			m.agree(got, want, err, nil, "Lease")
		}
		got, err := m.QueueCounts(m.ctx, queue, m.now)
		m.agree(got, m.model.queueCounts(queue, m.now), err, nil, "QueueCounts")
	}
}
