package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/grapnelhq/grapnel/client"
)

// An event is durable when Publish returns without error. Its id makes publishing idempotent beyond
// one call: the same event under the same id is accepted once, however often and from wherever it
// is sent.
func ExampleClient_Publish() {
	c, err := client.New(here)
	if err != nil {
		log.Fatal(err)
	}
	event := client.NewEvent{ID: "invoice-4711-paid", Type: "invoice.paid", Key: "invoice-4711", Data: []byte(`{"amount":1900}`)}
	for range 2 {
		accepted, err := c.Publish(context.Background(), event)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(accepted.ID, "duplicate:", accepted.Duplicate)
	}
	// Output:
	// invoice-4711-paid duplicate: false
	// invoice-4711-paid duplicate: true
}

// The server names each wrong field and its fault. Codes are stable: a program can switch on them.
func ExampleError() {
	c, err := client.New(here)
	if err != nil {
		log.Fatal(err)
	}
	_, err = c.CreateEndpoint(context.Background(), client.NewEndpoint{URL: "ftp://files.example"})
	var refused *client.Error
	var lost *client.Unreachable
	switch {
	case errors.As(err, &refused):
		fmt.Println(refused.Status, refused.Code)
		for _, f := range refused.Fields {
			fmt.Println(f.Pointer)
		}
	case errors.As(err, &lost):
		fmt.Println("no answer; the call may have taken effect:", lost)
	}
	// Output:
	// 422 invalid
	// /url
}

// A page has a cursor as long as there is more.
func ExampleClient_Deliveries() {
	ctx := context.Background()
	c, err := client.New(here)
	if err != nil {
		log.Fatal(err)
	}
	if _, err := c.CreateQueue(ctx, client.NewQueue{Name: "parcels", EventTypes: []string{"parcel.*"}}); err != nil {
		log.Fatal(err)
	}
	for i := range 5 {
		if _, err := c.Publish(ctx, client.NewEvent{Type: "parcel.sent", Data: fmt.Appendf(nil, `{"number":%d}`, i)}); err != nil {
			log.Fatal(err)
		}
	}
	filter, found := client.DeliveryFilter{Type: "parcel.sent", Limit: 2}, 0
	for {
		page, err := c.Deliveries(ctx, filter)
		if err != nil {
			log.Fatal(err)
		}
		found += len(page.Data)
		if page.Next == "" {
			break
		}
		filter.Cursor = page.Next
	}
	fmt.Println(found, "deliveries")
	// Output: 5 deliveries
}

var errBusy = errors.New("the warehouse is busy")

// A worker that deals with sixteen orders at once until it is told to stop. What cannot be read is
// put away as a dead letter; while the warehouse is busy an order comes again after a minute;
// anything else is tried again as the queue's policy says.
func ExampleClient_Consume() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := client.New(client.Options{Server: "https://grapnel.example", Key: os.Getenv("GRAPNEL_KEY")})
	if err != nil {
		log.Fatal(err)
	}
	err = c.Consume(ctx, "orders", func(ctx context.Context, m *client.Message) error {
		var order struct{ Number int }
		if err := json.Unmarshal(m.Body, &order); err != nil {
			return client.Reject(fmt.Errorf("no order: %w", err))
		}
		err := ship(ctx, m.EventID, order.Number)
		if errors.Is(err, errBusy) {
			return client.RetryAfter(time.Minute, err)
		}
		return err
	}, client.ConsumeOptions{Consumer: "shipping", Concurrency: 16})
	if err != nil {
		log.Fatal(err)
	}
}

// ship remembers the event's id in the transaction of its work, so that a message that comes twice
// is shipped once.
func ship(context.Context, string, int) error { return nil }
