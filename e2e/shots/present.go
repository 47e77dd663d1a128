//go:build linux

package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/e2e/process"
)

// present makes the traffic of the last minute by the public API, and waits for the states that
// pages show.
func (w *world) present(ctx context.Context) (err error) {
	if w.c, err = newClient(w.server); err != nil {
		return err
	}
	for _, step := range []func(context.Context) error{w.outage, w.publish, w.intake, w.consume, w.letters, w.replays, w.find, w.count} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// send publishes several events.
func (w *world) send(ctx context.Context, n int, kind, key, data string) error {
	var events []client.NewEvent
	for i := range n {
		e := client.NewEvent{Type: kind, Data: json.RawMessage(strings.ReplaceAll(data, "{}", fmt.Sprint(i)))}
		if key != "" {
			e.Key = strings.ReplaceAll(key, "{}", fmt.Sprint(i%38))
		}
		events = append(events, e)
	}
	for part := range slices.Chunk(events, 100) {
		if _, err := w.c.PublishBatch(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// outage publishes for an endpoint that is down until its circuit is open; the rest is held.
func (w *world) outage(ctx context.Context) error {
	if err := w.send(ctx, 412, "invoice.paid", "inv_{}", `{"invoice":"inv_{}","amount":100.00,"currency":"EUR"}`); err != nil {
		return err
	}
	return w.state(ctx, "acme", grapnel.HealthOpen)
}

func (w *world) state(ctx context.Context, name string, want grapnel.HealthState) error {
	var last *client.Endpoint
	err := process.Until(ctx, time.Minute, func() (_ bool, err error) {
		last, err = w.c.Endpoint(ctx, w.endpoints[name])
		return err == nil && last.Health.State == want, err
	})
	if err != nil && last != nil {
		return fmt.Errorf("%s is %s, not %s: %w", name, last.Health.State, want, err)
	}
	return err
}

// publish is the traffic of the others.
func (w *world) publish(ctx context.Context) error {
	for _, p := range []struct {
		n               int
		kind, key, data string
	}{
		{31, "ledger.booked", "pay_{}", `{"payment":"pay_{}","amount":900,"currency":"JPY"}`},
		{3, "price.changed", "sku_{}", `{"sku":"sku_{}","price":12.50}`},
		{17, "shipment.sent", "shp_{}", `{"shipment":"shp_{}"}`},
		{6, "freight.container.temperature.threshold.exceeded.at.customs.checkpoint", "container/" + strings.Repeat("MSKU-", 40) + "{}", `{"degrees":-3}`},
		{14, "receipt.created", "فاتورة-{}", `{"receipt":"{}","name":"مرحبا"}`},
		{9, "campaign.sent", "", `{"campaign":"{}"}`},
		{3, "contact.changed", "", `{"contact":"{}"}`},
		{23, "stock.low", "sku_{}", `{"sku":"sku_{}"}`},
	} {
		if err := w.send(ctx, p.n, p.kind, p.key, p.data); err != nil {
			return err
		}
	}
	return w.state(ctx, "gone", grapnel.HealthDisabled)
}

// intake sends signed, repeated and forged requests to the sources.
func (w *world) intake(ctx context.Context) error {
	post := func(source, id string, headers map[string]string, body string) error {
		rq, err := http.NewRequestWithContext(ctx, http.MethodPost, w.server.URL()+"/in/"+w.endpoints["source "+source], strings.NewReader(body))
		if err != nil {
			return err
		}
		rq.Header.Set("Content-Type", "application/json")
		rq.Header.Set("X-GitHub-Event", "push")
		rq.Header.Set("X-GitHub-Delivery", id)
		for name, value := range headers {
			rq.Header.Set(name, value)
		}
		resp, err := http.DefaultClient.Do(rq)
		if err != nil {
			return err
		}
		return resp.Body.Close() // refused or not: both are wanted
	}
	for i := range 60 {
		body := fmt.Sprintf(`{"ref":"refs/heads/main","after":"%040d","pusher":{"name":"Åse"}}`, i)
		mac := hmac.New(sha256.New, []byte(sourceSecret))
		_, _ = mac.Write([]byte(body))
		signature := "sha256=" + hex.EncodeToString(mac.Sum(nil))
		if i%7 == 3 {
			signature = "sha256=" + strings.Repeat("0", 64)
		}
		id := fmt.Sprintf("72d3162e-cc78-11e3-81ab-%012d", i-i%5/4) // every fifth repeats the one before
		if err := post("github", id, map[string]string{"X-Hub-Signature-256": signature}, body); err != nil {
			return err
		}
		if i%12 == 0 {
			err := post("stripe", "", map[string]string{"Stripe-Signature": "t=1795358759,v1=" + strings.Repeat("ab", 32)},
				fmt.Sprintf(`{"id":"evt_%d","object":"event","type":"charge.refunded","data":{"object":{"note":"<script>alert(1)</script>"}}}`, i))
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// consume leases messages of a queue to three consumers, who settle some of them.
func (w *world) consume(ctx context.Context) error {
	for i, consumer := range []string{"worker-1", "worker-2", "worker-3-in-a-pod-with-a-long-name-7f9c6d5b8-x2v9k"} {
		got, err := w.c.Next(ctx, "orders", client.Take{Max: 4, Consumer: consumer})
		if err != nil {
			return err
		}
		for n, m := range got {
			switch {
			case n == 0:
				err = w.c.Ack(ctx, m.Lease)
			case n == 1 && i == 0:
				err = w.c.Nack(ctx, m.Lease, "the database is locked", time.Minute)
			case n == 1 && i == 1:
				err = w.c.Reject(ctx, m.Lease, "unknown currency")
			}
			if err != nil {
				return err
			}
		}
	}
	_, err := w.c.PauseQueue(ctx, "thumbnails", "the image service is being replaced")
	return err
}

// letters waits for dead letters, and deals with some of them.
func (w *world) letters(ctx context.Context) error {
	var dead *client.Page[client.Delivery]
	err := process.Until(ctx, time.Minute, func() (_ bool, err error) {
		dead, err = w.c.DeadLetters(ctx, client.DeliveryFilter{Endpoint: w.endpoints["ledger"], Type: "ledger.*", Limit: 100})
		return err == nil && len(dead.Data) >= 31, err
	})
	if err != nil {
		return fmt.Errorf("dead letters: %w", err)
	}
	if _, err := w.c.Note(ctx, dead.Data[1].ID, "Asked finance whether the ledger takes yen from December on"); err != nil {
		return err
	}
	_, err = w.c.Discard(ctx, dead.Data[2].ID, "a test payment")
	return err
}

// replays starts four: one runs while the pictures are taken, one is paused, one is cancelled, and
// one ends at once.
func (w *world) replays(ctx context.Context) error {
	start := func(endpoint string, r client.NewReplay) (*client.Replay, error) {
		return w.c.StartReplay(ctx, w.endpoints[endpoint], r)
	}
	delivered := []grapnel.Status{grapnel.Delivered}
	day := time.Now().Add(-24 * time.Hour)
	running, err := start("billing", client.NewReplay{Status: delivered, From: &day, Again: true, Rate: 4, StopAfter: 10,
		Reason: "the receiver lost a day of its database"})
	if err != nil {
		return err
	}
	w.ids["replays"] = running.ID
	for _, end := range []func(context.Context, string, string) (*client.Replay, error){w.c.PauseReplay, w.c.CancelReplay} {
		r, err := start("nordlys", client.NewReplay{Status: delivered, From: &day, Again: true, Rate: 1, Reason: "a rehearsal"})
		if err != nil {
			return err
		}
		if _, err := end(ctx, r.ID, "the receiver is being deployed"); err != nil {
			return err
		}
	}
	_, err = start("ledger", client.NewReplay{EventTypes: []string{"ledger.*"}, Reason: "after the repair"})
	return err
}

// find looks up the ids that only the server knows.
func (w *world) find(ctx context.Context) error {
	heroes, err := w.c.Deliveries(ctx, client.DeliveryFilter{Endpoint: w.endpoints["nordlys"], Key: heroKey, Type: "invoice.paid"})
	if err != nil || len(heroes.Data) == 0 {
		return fmt.Errorf("the delivery to show: %v, %w", heroes, err)
	}
	w.ids["deliveries"] = heroes.Data[0].ID
	prices, err := w.c.Events(ctx, client.EventFilter{Type: "price.changed", Limit: 1})
	if err != nil || len(prices.Data) == 0 {
		return fmt.Errorf("the event to show: %w", err)
	}
	w.ids["events"] = prices.Data[0].ID
	// An issue is stored some seconds after its failure.
	if err := process.Until(ctx, 30*time.Second, func() (bool, error) {
		issues, err := w.c.Issues(ctx, client.IssueFilter{Limit: 1})
		if err != nil || len(issues.Data) == 0 {
			return false, err
		}
		w.ids["issues"] = issues.Data[0].ID
		return true, nil
	}); err != nil {
		return fmt.Errorf("the issue to show: %w", err)
	}
	requests, err := w.c.Inbox(ctx, client.InboxFilter{Source: w.endpoints["source stripe"], Limit: 1})
	if err != nil || len(requests.Data) == 0 {
		return fmt.Errorf("the request to show: %w", err)
	}
	w.ids["inbox"] = requests.Data[0].ID
	if err := process.Until(ctx, 5*time.Minute, func() (bool, error) {
		alerts, err := w.c.Alerts(ctx, client.AlertFilter{Endpoint: w.ids["endpoints"], Limit: 1})
		if err != nil || len(alerts.Data) == 0 {
			return false, err
		}
		w.ids["alerts"] = alerts.Data[0].ID
		return true, nil
	}); err != nil {
		return fmt.Errorf("the alert to show: %w", err)
	}
	return nil
}

// count waits until the server has counted some full minutes, which an endpoint's page shows.
func (w *world) count(ctx context.Context) error {
	err := process.Until(ctx, 5*time.Minute, func() (bool, error) {
		stats, err := w.c.Stats(ctx, client.StatsFilter{Endpoint: w.ids["endpoints"], Bucket: "minute"})
		return err == nil && stats.To.Sub(stats.From) >= 3*time.Minute, err
	})
	if err != nil {
		return fmt.Errorf("counted minutes: %w", err)
	}
	return nil
}
