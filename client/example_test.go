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

var errBusy = errors.New("the warehouse is busy")

// A worker that deals with sixteen orders at once until it is told to stop. What cannot be read is put away as a dead letter; while the
// warehouse is busy an order comes again after a minute; anything else is tried again as the queue's policy says.
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

// ship remembers the event's id in the transaction of its work, so that a message that comes twice is shipped once.
func ship(context.Context, string, int) error { return nil }
