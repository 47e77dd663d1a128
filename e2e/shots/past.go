//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/sqlite"
	"github.com/grapnelhq/grapnel/policy"
)

// past writes two days before now: finished deliveries, deliveries between two attempts, and the
// long queue. The server is not running.
type past struct {
	w      *world
	s      *sqlite.Store
	config int64
	now    time.Time
	n      int // events so far
	batch  []told
}

// told is one event with the attempts of its delivery.
type told struct {
	in    store.Incoming
	tries []try
}

// try is one attempt.
type try struct {
	at     time.Time
	took   time.Duration
	code   int
	class  policy.Class
	status grapnel.Status
	due    time.Time // of the next one
	why    grapnel.ReasonCode
}

func (w *world) past(ctx context.Context, file string, queued int) (err error) {
	s, err := sqlite.Open(ctx, file, sqlite.Options{Ballast: -1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	config, err := s.Config(ctx)
	if err != nil {
		return err
	}
	p := &past{w: w, s: s, config: config.Version, now: time.Now().UTC().Truncate(time.Second)}
	for _, step := range []func(context.Context) error{p.hours, p.waves, p.hero} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return p.queue(ctx, queued)
}

const atOnce = 1000

// event takes one event for an endpoint.
func (p *past) event(ctx context.Context, endpoint, kind, key string, at time.Time, data string, tries ...try) error {
	p.n++
	e := &grapnel.Event{ID: fmt.Sprintf("evt_shots_%07d", p.n), Tenant: grapnel.DefaultTenant, Type: kind, Key: key,
		ContentType: grapnel.JSONType, OccurredAt: at, AcceptedAt: at, Data: []byte(data)}
	p.batch = append(p.batch, told{store.Incoming{Event: e, Targets: []store.Target{{Endpoint: endpoint, Ordered: key != ""}}}, tries})
	if len(p.batch) < atOnce {
		return nil
	}
	return p.flush(ctx)
}

// flush appends the events and records their attempts.
func (p *past) flush(ctx context.Context) error {
	if len(p.batch) == 0 {
		return nil
	}
	batch := store.Batch{Config: p.config}
	for _, t := range p.batch {
		batch.Events = append(batch.Events, t.in)
	}
	done, err := p.s.Append(ctx, batch)
	if err != nil {
		return err
	}
	heads := map[int64]int64{}
	for _, h := range done.Heads {
		heads[h.Event] = h.Delivery
	}
	for round := 0; ; round++ {
		var changes []store.Change
		for i, t := range p.batch {
			if head, ok := heads[done.Events[i].Seq]; ok && round < len(t.tries) {
				changes = append(changes, t.tries[round].change(head, round))
			}
		}
		if len(changes) == 0 {
			break
		}
		if _, err := p.s.Record(ctx, changes); err != nil {
			return err
		}
	}
	p.batch = p.batch[:0]
	return nil
}

func (t try) change(delivery int64, made int) store.Change {
	a := &grapnel.Attempt{Number: made + 1, Trigger: grapnel.TriggerSchedule, ScheduledFor: t.at, StartedAt: t.at,
		Duration: t.took, StatusCode: t.code,
		Class: t.class, NextAttemptAt: t.due,
		RequestHeaders: []grapnel.Header{{Name: "User-Agent", Value: "Grapnel"}, {Name: "Webhook-Signature",
			Value: "v1,K5oZfzN95Z9UVu1EsfQmfVNQhnkZ2pj9o9NDN/H/pI4="}},
		Phases: grapnel.Phases{Connect: 9 * time.Millisecond, TLS: 14 * time.Millisecond, FirstByte: 20 * time.Millisecond}}
	switch {
	case t.code == 0:
		a.Error = "no answer within 15s"
	case t.code >= 300:
		a.Error = fmt.Sprint(t.code, " ", http.StatusText(t.code))
		a.ResponseHeaders = map[string]string{"content-type": "text/plain", "server": "envoy"}
		a.ResponseBody = []byte("upstream connect error or disconnect/reset before headers. reset reason: connection failure")
	}
	a.Decision = map[grapnel.Status]policy.Decision{grapnel.Delivered: policy.Deliver, grapnel.Failed: policy.Fail, "": policy.Retry}[t.status]
	c := store.Change{Delivery: delivery, Expect: made, Attempt: a, At: t.at.Add(t.took), Status: t.status, ReasonCode: t.why, Due: t.due}
	if c.Status == "" {
		c.Status, c.Trigger = grapnel.Pending, grapnel.TriggerSchedule
	}
	return c
}

func good(at time.Time, i int) try {
	took := 18*time.Millisecond + time.Duration(i*7919%37)*time.Millisecond
	if i%40 == 0 {
		took *= 9
	}
	return try{at: at, took: took, code: 200, class: policy.ClassNone, status: grapnel.Delivered}
}

func refused(at, due time.Time) try {
	return try{at: at, took: 41 * time.Millisecond, code: 503, class: policy.ClassStatus5xx, due: due}
}

// hours writes the finished deliveries: more by day than by night, one bad hour for the ledger,
// and one failure here and there.
func (p *past) hours(ctx context.Context) error {
	names := []string{"acme", "nordlys", "billing", "ledger"}
	for minute := 48 * 60; minute > 12; minute-- {
		at := p.now.Add(-time.Duration(minute) * time.Minute)
		load := 14 + 9*math.Sin(float64(48*60-minute)/1440*2*math.Pi) + float64(minute*31%7)
		for i := range int(load) {
			at, n := at.Add(time.Duration(i)*time.Second), p.n
			to, kind := p.w.customers[n*13%40], "price.changed"
			if i%3 == 0 {
				to, kind = p.w.endpoints[names[n%4]], "account.updated"
			}
			key, data := fmt.Sprintf("acc_%05d", n%30_011), fmt.Sprintf(`{"amount":%d.%02d,"currency":"EUR"}`, n%900, n%100)
			tries := []try{good(at, n)}
			switch {
			case n%50 == 7, to == p.w.endpoints["nordlys"] && minute < 90 && n%3 == 0:
				tries = []try{refused(at, at.Add(5*time.Second)), good(at.Add(5*time.Second), n)}
			case minute > 900 && minute < 1010 && to == p.w.endpoints["ledger"], n%3001 == 9:
				last := refused(at.Add(5*time.Second), time.Time{})
				last.status, last.why = grapnel.Failed, grapnel.ReasonExhausted
				tries = []try{refused(at, at.Add(5*time.Second)), last}
			}
			if err := p.event(ctx, to, kind, key, at, data, tries...); err != nil {
				return err
			}
		}
	}
	return p.flush(ctx)
}

// steps are when the attempts of the preset standard are, from the first.
var steps = []time.Duration{0, 5 * time.Second, 305 * time.Second, 2105 * time.Second, 9305 * time.Second, 27305 * time.Second,
	63305 * time.Second}

// failing are attempts of the standard schedule, the last of them some time ago. The next is
// planned as the policy says, a little later by jitter.
func failing(now time.Time, made int, ago time.Duration) (first time.Time, tries []try) {
	first = now.Add(-ago - steps[made-1])
	for i := range made {
		at := first.Add(steps[i])
		gap := steps[i+1] - steps[i]
		t := refused(at, at.Add(gap+gap/20))
		if i == 2 {
			t.took, t.code, t.class = 15*time.Second, 0, policy.ClassTimeout
		}
		tries = append(tries, t)
	}
	return first, tries
}

// waves writes deliveries that are tried again over the next hours.
func (p *past) waves(ctx context.Context) error {
	for i := range 170 {
		made := 4 + i%3
		gap := steps[made] - steps[made-1]
		ago := time.Duration(float64(gap) * (.15 + .7*math.Abs(math.Sin(float64(i)))))
		first, tries := failing(p.now, made, ago)
		data := fmt.Sprintf(`{"shipment":"shp_%04d","carrier":"post"}`, i)
		if err := p.event(ctx, p.w.customers[60+i%25], "price.changed", fmt.Sprintf("shp_%04d", i), first, data, tries...); err != nil {
			return err
		}
	}
	return p.flush(ctx)
}

// heroKey is the key of the delivery whose page is shown.
const heroKey = "inv_123"

// hero writes a delivery with four failed attempts, and two that wait behind it.
func (p *past) hero(ctx context.Context) error {
	first, tries := failing(p.now, 4, 12*time.Minute)
	err := p.event(ctx, p.w.endpoints["nordlys"], "invoice.paid", heroKey, first,
		`{"invoice":"inv_123","amount":100.00,"currency":"EUR","customer":{"name":"Åse Lindqvist","note":"שלום <b>עולם</b>"},`+
			`"lines":[{"sku":"A-1","quantity":2}]}`,
		tries...)
	if err != nil {
		return err
	}
	for i, kind := range []string{"invoice.refunded", "invoice.closed"} {
		at := p.now.Add(time.Duration(2*i-3) * time.Minute)
		if err := p.event(ctx, p.w.endpoints["nordlys"], kind, heroKey, at, `{"invoice":"inv_123"}`); err != nil {
			return err
		}
	}
	return p.flush(ctx)
}

// queue fills the long queue, and two others with a little.
func (p *past) queue(ctx context.Context, messages int) error {
	long := p.w.endpoints[strings.Repeat("nightly-export-of-everything-", 2)+"eu"]
	for i := range messages {
		if err := p.event(ctx, long, "export.row", "", p.now.Add(-6*time.Hour), `{"row":1}`); err != nil {
			return err
		}
		if i > 40 {
			continue
		}
		at := p.now.Add(-time.Duration(41-i) * 7 * time.Second)
		data := fmt.Sprintf(`{"order":"ord_%d","total":%d.90,"currency":"EUR"}`, i, i)
		if err := p.event(ctx, p.w.endpoints["orders"], "order.placed", fmt.Sprintf("ord_%d", i%30), at, data); err != nil {
			return err
		}
	}
	return p.flush(ctx)
}
