package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/receive"
	"github.com/grapnelhq/grapnel/receive/gate"
)

var tables = []string{
	`create table if not exists ledger(
  event text not null, source text not null, invoice text not null, amount text not null, idempotency text unique)`,
	`create table if not exists invoice(
  id text primary key, version bigint, status text, amount text, time_ns bigint, event text)`,
	`create table if not exists seen(source text not null, event text not null, primary key(source, event))`,
}

type invoice struct {
	Invoice    string      `json:"invoice"`
	Amount     json.Number `json:"amount"`
	Version    *int64      `json:"version"`
	Status     string      `json:"status"`
	OccurredAt *time.Time  `json:"occurred_at"`
}

// handle is the invoice service: a gate, and one row of the ledger.
func (a *app) handle(ctx context.Context, db Conn, d *receive.Delivery) error {
	a.hold.at("after-claim", d.ID)
	if err := a.faults.meet(ctx, d.ID); err != nil {
		return err
	}
	var event struct {
		Type string  `json:"type"`
		Data invoice `json:"data"`
	}
	if err := d.Decode(&event); err != nil {
		return err
	}
	if strings.HasPrefix(event.Type, "invoice.") {
		if err := a.pass(ctx, db, event.Data, d); err != nil {
			return err
		}
	}
	key := any(nil)
	if a.env("MODE") == "claim" || a.env("MODE") == "inbox" {
		key = d.IdempotencyKey("ledger")
	}
	_, err := db.Exec(ctx, `insert into ledger(event, source, invoice, amount, idempotency) values($1, $2, $3, $4, $5)
  on conflict(idempotency) do nothing`, d.ID, d.Source, event.Data.Invoice, event.Data.Amount.String(), key)
	return err
}

// life is what an invoice goes through.
var life = func() *gate.StateMachine {
	m, err := gate.NewStateMachine(gate.StateMachine{
		Table: "invoice", Terminal: []string{"refunded", "void"}, Unknown: gate.ToDead,
		Edges: map[string][]string{"draft": {"open"}, "open": {"paid", "void"}, "paid": {"refunded"}},
	})
	if err != nil {
		panic(err)
	}
	return m
}()

// pass applies an event to its invoice by the version, the time or the status that it has.
func (a *app) pass(ctx context.Context, db Conn, i invoice, d *receive.Delivery) (err error) {
	set := gate.Set{"amount": i.Amount.String()}
	if i.Version != nil || i.OccurredAt != nil {
		set["status"] = i.Status
	}
	var result gate.Result
	switch {
	case i.Version != nil:
		result, err = gate.Version{Table: "invoice"}.Apply(ctx, db.Gate(), i.Invoice, *i.Version, set)
	case i.OccurredAt != nil:
		result, err = gate.Timestamp{Table: "invoice", Now: a.now}.Apply(ctx, db.Gate(), i.Invoice, *i.OccurredAt, d.ID, set)
	case i.Status != "":
		result, err = life.Apply(ctx, db.Gate(), i.Invoice, i.Status, set)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	return result.Err()
}

// bare is what many receivers do without a kit: one transaction with an insert that may conflict.
func (a *app) bare(source string, verifier receive.Verifier) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, receive.DefaultMaxBody))
		if err != nil {
			http.Error(w, "body", http.StatusBadRequest)
			return
		}
		verified, err := verifier.Verify(r, body, a.now())
		if err != nil {
			http.Error(w, "signature", http.StatusUnauthorized)
			return
		}
		err = a.backend.Within(r.Context(), func(db Conn) error {
			n, err := db.Exec(r.Context(), "insert into seen(source, event) values($1, $2) on conflict do nothing", source, verified.ID)
			if err != nil || n == 0 {
				return err
			}
			return a.inside(r.Context(), db, &receive.Delivery{Source: source, ID: verified.ID, Body: body, Header: r.Header})
		})
		if err != nil && !errors.Is(err, receive.ErrStale) {
			http.Error(w, "failed", http.StatusInternalServerError)
			return
		}
		a.hold.at("after-commit", verified.ID)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"received":true}`)
	})
}

// probe answers how many effects an event or an invoice has, and the invoice's row.
func (a *app) probe(w http.ResponseWriter, r *http.Request) {
	var found struct {
		Effects int64  `json:"effects"`
		State   string `json:"state"`
		Version int64  `json:"version"`
		Amount  string `json:"amount"`
	}
	column, value := "event", r.URL.Query().Get("event")
	if value == "" {
		column, value = "invoice", r.URL.Query().Get("key")
	}
	var id string
	db := a.backend.Ledger
	err := db.Row(r.Context(), "select count(*), coalesce(max(invoice), $1) from ledger where "+column+" = $1", []any{value},
		&found.Effects, &id)
	if err == nil {
		err = db.Row(r.Context(), `select coalesce(max(status), ''), coalesce(max(version), 0), coalesce(max(amount), '') from invoice
  where id = $1`, []any{id}, &found.State, &found.Version, &found.Amount)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(found)
}

func (f *faults) add(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	times, err := strconv.Atoi(q.Get("times"))
	ms, noPause := strconv.ParseInt(q.Get("ms"), 10, 32)
	kind := q.Get("kind")
	if q.Get("times") == "" {
		times, err = 1, nil
	}
	if err != nil || noPause != nil && q.Get("ms") != "" || !strings.Contains(" transient permanent slow hang ", " "+kind+" ") {
		http.Error(w, fmt.Sprintf("event, kind (transient, permanent, slow, hang), times, ms: not %q", r.URL.RawQuery), http.StatusBadRequest)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.next == nil {
		f.next = map[string][]fault{}
	}
	for range times {
		f.next[q.Get("event")] = append(f.next[q.Get("event")], fault{kind, ms})
	}
	w.WriteHeader(http.StatusNoContent)
}

// meet is the fault of a run of an event's handler.
func (f *faults) meet(ctx context.Context, event string) error {
	f.mu.Lock()
	all := f.next[event]
	if len(all) == 0 {
		f.mu.Unlock()
		return nil
	}
	met := all[0]
	f.next[event] = all[1:]
	f.mu.Unlock()
	if met.ms > 0 {
		timer := time.NewTimer(time.Duration(met.ms) * time.Millisecond)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	switch met.kind {
	case "slow":
		return nil
	case "permanent":
		return receive.Permanent(errors.New("a permanent fault"))
	}
	return receive.Retryable(errors.New("a fault that passes"))
}

// inside is the handler of the modes transaction and bare.
func (a *app) inside(ctx context.Context, db Conn, d *receive.Delivery) error {
	err := a.handle(ctx, db, d)
	if err == nil {
		a.hold.at("after-effect", d.ID)
	}
	return err
}

func (a *app) now() time.Time { return time.Now().Add(time.Duration(a.skew.Load())) }
