package receive_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	_ "modernc.org/sqlite"

	"github.com/grapnelhq/grapnel/receive"
	"github.com/grapnelhq/grapnel/receive/memstore"
	"github.com/grapnelhq/grapnel/receive/sqlstore"
	"github.com/grapnelhq/grapnel/sign"
)

// deliver sends a signed event, as a sender does, and prints the answer.
func deliver(h http.Handler, id, body string) {
	now := time.Now()
	signature, err := sign.Sign(id, now, []byte(body), secret)
	if err != nil {
		panic(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/hooks", strings.NewReader(body))
	r.Header.Set("webhook-id", id)
	r.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	r.Header.Set("webhook-signature", signature)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	fmt.Println(id, w.Code, w.Header().Get("Webhook-Outcome"))
}

// The effect and the event's key commit together: a repetition finds the key and changes nothing.
func ExampleTransaction() {
	dir, err := os.MkdirTemp("", "receive")
	if err != nil {
		panic(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	db, err := sql.Open("sqlite", filepath.Join(dir, "shop.db"))
	if err != nil {
		panic(err)
	}
	defer func() { _ = db.Close() }()
	store := sqlstore.New(db, sqlstore.SQLite)
	if err := store.CreateTables(context.Background()); err != nil {
		panic(err)
	}
	if _, err := db.Exec("create table payments(invoice text, amount integer)"); err != nil {
		panic(err)
	}
	kit, err := receive.New(receive.Options{Source: "acme", Verifier: receive.StandardWebhooks(secret), Store: store})
	if err != nil {
		panic(err)
	}
	hooks := receive.Transaction(kit, func(ctx context.Context, tx *sql.Tx, d *receive.Delivery) error {
		var payment struct {
			Invoice string
			Amount  int64
		}
		if err := d.Decode(&payment); err != nil {
			return err // permanent: no repetition makes it readable
		}
		_, err := tx.ExecContext(ctx, "insert into payments values(?, ?)", payment.Invoice, payment.Amount)
		return err
	})

	deliver(hooks, "evt_1", `{"invoice":"inv_1","amount":500}`)
	deliver(hooks, "evt_1", `{"invoice":"inv_1","amount":500}`)
	deliver(hooks, "evt_2", `{"invoice":`)
	var payments int
	if err := db.QueryRow("select count(*) from payments").Scan(&payments); err != nil {
		panic(err)
	}
	fmt.Println(payments, "payment")
	// Output:
	// evt_1 200 processed
	// evt_1 200 duplicate
	// evt_2 200 dead_lettered
	// 1 payment
}

// A payment happens elsewhere, so a crash can repeat the call. Its key makes that harmless.
func ExampleKit_Claim() {
	charged := map[string]bool{}
	charge := func(idempotencyKey string) error {
		if len(charged) == 0 {
			charged[idempotencyKey] = true
			return errors.New("the answer got lost") // after the charge
		}
		charged[idempotencyKey] = true
		return nil
	}
	kit, err := receive.New(receive.Options{Source: "acme", Verifier: receive.StandardWebhooks(secret), Store: memstore.New()})
	if err != nil {
		panic(err)
	}
	hooks := kit.Claim(func(_ context.Context, d *receive.Delivery) error {
		return charge(d.IdempotencyKey("charge"))
	})

	deliver(hooks, "evt_1", `{"invoice":"inv_1"}`)
	deliver(hooks, "evt_1", `{"invoice":"inv_1"}`)
	deliver(hooks, "evt_1", `{"invoice":"inv_1"}`)
	fmt.Println(len(charged), "charge")
	// Output:
	// evt_1 503 retryable
	// evt_1 200 processed
	// evt_1 200 duplicate
	// 1 charge
}

// The request is stored and answered; workers run the handler, one at a time for each invoice.
func ExampleKit_Inbox() {
	kit, err := receive.New(receive.Options{Source: "acme", Verifier: receive.StandardWebhooks(secret), Store: memstore.New()})
	if err != nil {
		panic(err)
	}
	inbox, err := kit.Inbox(receive.InboxOptions{
		Order: func(d *receive.Delivery) (string, int64) {
			var event struct {
				Invoice string
				Version int64
			}
			_ = d.Decode(&event) // the handler reports a body that cannot be read
			return event.Invoice, event.Version
		},
	})
	if err != nil {
		panic(err)
	}
	deliver(inbox, "evt_2", `{"invoice":"inv_1","version":2}`)
	deliver(inbox, "evt_1", `{"invoice":"inv_1","version":1}`)
	deliver(inbox, "evt_1", `{"invoice":"inv_1","version":1}`)

	ctx, stop := context.WithCancel(context.Background())
	inbox.Work(ctx, 4, func(_ context.Context, d *receive.Delivery) error {
		fmt.Println("working on", d.ID)
		if d.ID == "evt_2" {
			stop() // Work finishes this one and returns
		}
		return nil
	})
	// Output:
	// evt_2 202 accepted
	// evt_1 202 accepted
	// evt_1 200 duplicate
	// working on evt_1
	// working on evt_2
}
