package embed_test

import (
	"context"
	"database/sql"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/embed"
)

// A program sends an event to its customer. The customer here is a server on this machine, which
// EgressAllow permits.
func Example() {
	arrived := make(chan string)
	customer := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { arrived <- r.Header.Get("Webhook-Id") }))
	defer customer.Close()
	dir, _ := os.MkdirTemp("", "example-")
	defer func() { _ = os.RemoveAll(dir) }()

	ctx := context.Background()
	g, err := embed.Open(ctx, embed.Options{Store: "sqlite:" + filepath.Join(dir, "grapnel.db"),
		EgressAllow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = g.Close() }()
	if _, err := g.Client().CreateEndpoint(ctx, client.NewEndpoint{URL: customer.URL, EventTypes: []string{"order.*"}}); err != nil {
		log.Fatal(err)
	}
	id, err := g.Publish(ctx, embed.Event{Type: "order.paid", Key: "order_1", Data: []byte(`{"amount":100}`)})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(<-arrived == id)
	// Output: true
}

// The API, the dashboard and the portal below a path of the program's own server.
func ExampleGrapnel_Handler() {
	dir, _ := os.MkdirTemp("", "example-")
	defer func() { _ = os.RemoveAll(dir) }()
	g, err := embed.Open(context.Background(), embed.Options{Store: "sqlite:" + filepath.Join(dir, "grapnel.db"),
		PublicURL: "https://shop.example/webhooks"})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = g.Close() }()
	mux := http.NewServeMux()
	mux.Handle("/webhooks/", g.Handler())
	shop := httptest.NewServer(mux)
	defer shop.Close()
	resp, err := http.Get(shop.URL + "/webhooks/readyz")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	fmt.Println(resp.StatusCode)
	// Output: 200
}

// The event is in the transaction that pays the order: both happen or none does.
func ExampleGrapnel_PublishTx() {
	dir, _ := os.MkdirTemp("", "example-")
	defer func() { _ = os.RemoveAll(dir) }()
	shop, err := sql.Open("sqlite", filepath.Join(dir, "shop.db"))
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = shop.Close() }()
	ctx := context.Background()
	if _, err := shop.ExecContext(ctx, "CREATE TABLE orders (id TEXT, paid BOOL)"); err != nil {
		log.Fatal(err)
	}
	g, err := embed.Open(ctx, embed.Options{Store: "sqlite:" + filepath.Join(dir, "grapnel.db"), Outbox: "sqlite:" + filepath.Join(dir, "shop.db")})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = g.Close() }()

	pay := func(order string) error {
		tx, err := shop.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		if _, err := tx.ExecContext(ctx, "INSERT INTO orders VALUES (?, true)", order); err != nil {
			return err
		}
		if err := g.PublishTx(ctx, tx, embed.Event{Type: "order.paid", Key: order, Data: []byte(`{"amount":100}`)}); err != nil {
			return err
		}
		return tx.Commit()
	}
	fmt.Println(pay("order_1"))
	// Output: <nil>
}
