// Command shop charges once for each event, however often it is delivered: the charge is in the
// transaction of the event's key.
//
//	DSN=shop.db SECRET=whsec_… PORT=3000 go run ./examples/shop
//
// /_probe is for tests: it counts the charges of an event.
package main

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"log"
	"net/http"
	"os"
	"time"

	_ "modernc.org/sqlite"

	"github.com/grapnelhq/grapnel/receive"
	"github.com/grapnelhq/grapnel/receive/sqlstore"
)

// paid is as much of an event as the shop needs. A json.Number keeps all of its digits.
type paid struct {
	Data struct {
		Invoice string      `json:"invoice"`
		Amount  json.Number `json:"amount"`
	} `json:"data"`
}

// charge adds one row for each event: it commits together with the event's key, or not at all.
func charge(ctx context.Context, tx *sql.Tx, d *receive.Delivery) error {
	var event paid
	if err := d.Decode(&event); err != nil {
		return err // for good: the same bytes cannot be read next time either
	}
	if event.Data.Invoice == "" {
		return receive.Permanent(errors.New("the event has no invoice"))
	}
	_, err := tx.ExecContext(ctx, "insert into charge values(?, ?, ?)", d.ID, event.Data.Invoice, string(event.Data.Amount))
	return err
}

// probe answers with the charges of an event or an invoice.
func probe(db *sql.DB) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var found struct {
			Effects int    `json:"effects"`
			Amount  string `json:"amount"`
		}
		err := db.QueryRowContext(r.Context(), "select count(*), coalesce(max(amount), '') from charge where event = ? or invoice = ?",
			r.FormValue("event"), r.FormValue("key")).Scan(&found.Effects, &found.Amount)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_ = json.NewEncoder(w).Encode(found) // the client may have left
	}
}

func run(ctx context.Context) error {
	db, err := sql.Open("sqlite", "file:"+os.Getenv("DSN")+"?_pragma=journal_mode(wal)&_pragma=busy_timeout(2000)&_txlock=immediate")
	if err != nil {
		return err
	}
	store := sqlstore.New(db, sqlstore.SQLite)
	if err := store.CreateTables(ctx); err != nil {
		return err
	}
	if _, err := db.ExecContext(ctx, "create table if not exists charge(event text, invoice text, amount text)"); err != nil {
		return err
	}
	kit, err := receive.New(receive.Options{Source: "shop", Verifier: receive.StandardWebhooks(os.Getenv("SECRET")), Store: store})
	if err != nil {
		return err
	}
	http.Handle("POST /hooks", receive.Transaction(kit, charge))
	http.HandleFunc("GET /_probe", probe(db))
	server := http.Server{Addr: "127.0.0.1:" + cmp.Or(os.Getenv("PORT"), "3000"), ReadTimeout: 10 * time.Second}
	return server.ListenAndServe()
}

func main() { log.Fatal(run(context.Background())) }
