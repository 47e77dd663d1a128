package main

import (
	"context"
	"encoding/json"
	"sync/atomic"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/proof/demo"
)

// enter is the key Enter in the terminal of grapnel dev, so that the viewer needs no other one. It
// takes the step that the story asks for, or sends an event.
type enter struct {
	session   *session
	receivers *demo.Receivers
	client    *client.Client

	asked atomic.Bool // the story waits for the viewer
}

func (e *enter) press(ctx context.Context) {
	if e.asked.Load() {
		e.receivers.Fix()
		_, err := e.client.StartReplay(ctx, e.receivers.Endpoint(demo.Ledger), client.NewReplay{Reason: "the ledger is repaired"})
		if err != nil {
			e.session.Note("The replay was not started: %v", err)
			return
		}
		e.asked.Store(false)
		e.session.Note("The ledger is repaired, and its dead letters are replayed.")
		return
	}
	sent, err := e.client.Publish(ctx, client.NewEvent{Type: "invoice.paid", Key: "inv_1", Data: json.RawMessage(`{"amount":100}`)})
	if err != nil {
		e.session.Note("The event was not sent: %v", err)
		return
	}
	e.session.Note("Sent invoice.paid as %s, to %d endpoints.", sent.ID, sent.Deliveries)
}
