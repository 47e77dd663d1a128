package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// The ends of work that fails.
var (
	errTransient = errors.New("a failure that passes")
	errPermanent = errors.New("a failure for good")
)

// database is a transaction, or the pool, which commits each statement.
type database interface {
	Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error)
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// payload is the part of an event that the work reads.
type payload struct {
	Data struct {
		Invoice    string      `json:"invoice"`
		Amount     json.Number `json:"amount"`
		Version    *int64      `json:"version"`
		Status     string      `json:"status"`
		OccurredAt string      `json:"occurred_at"`
	} `json:"data"`
}

// work moves the invoice forward, and takes the money: a row that no constraint protects.
func (r *receiver) work(ctx context.Context, db database, e event) error {
	at("after-claim", e.id)
	if err := r.fault(ctx, e.id); err != nil {
		return err
	}
	var p payload
	if err := json.Unmarshal(e.body, &p); err != nil {
		return fmt.Errorf("%w: %w", errPermanent, err)
	}
	if applied, err := gate(ctx, db, p, e.id); err != nil || !applied {
		return err
	}
	_, err := db.Exec(ctx, `insert into ledger values($1, $2, $3, $4)`, e.id, e.source, p.Data.Invoice, p.Data.Amount.String())
	at("after-effect", e.id)
	return err
}

// fault fails or delays the work as the tests ask for it.
func (r *receiver) fault(ctx context.Context, id string) error {
	r.mu.Lock()
	f := r.faults[id]
	if f == nil || f.times == 0 {
		r.mu.Unlock()
		return nil
	}
	f.times--
	r.mu.Unlock()
	if f.wait > 0 {
		select {
		case <-time.After(f.wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return map[string]error{"transient": errTransient, "hang": errTransient, "permanent": errPermanent}[f.kind]
}

// gate moves the invoice to the event's state unless it has a newer one, and says whether it did.
func gate(ctx context.Context, db database, p payload, id string) (bool, error) {
	d, version := p.Data, int64(0)
	if d.Version != nil {
		version = *d.Version
	}
	const upsert = `insert into invoice as i values($1, $2, $3, $4, $5, $6) on conflict(id) do update set status = excluded.status,
		version = excluded.version, amount = excluded.amount, changed = excluded.changed, changed_by = excluded.changed_by where `
	row := []any{d.Invoice, d.Status, version, d.Amount.String(), "", id}
	switch {
	case d.Version == nil && d.OccurredAt == "" && d.Status == "":
		return true, nil
	case is("ungated-upsert"):
		return moved(db.Exec(ctx, upsert+`true`, row...))
	case is("update-only") && d.Version != nil: // no row: nothing is updated, which looks like a stale event
		return moved(db.Exec(ctx, `update invoice set status = $2, version = $3, amount = $4 where id = $1 and version < $3`, row[:4]...))
	case d.Version != nil:
		return moved(db.Exec(ctx, upsert+`excluded.version > i.version`, row...))
	case is("truncated-time") && d.OccurredAt != "":
		return truncated(ctx, db, p)
	case d.OccurredAt != "":
		at, err := time.Parse(time.RFC3339Nano, d.OccurredAt)
		if err != nil {
			return false, fmt.Errorf("%w: %w", errPermanent, err)
		}
		row[4] = at.UTC().Format("2006-01-02T15:04:05.000000000Z")
		return moved(db.Exec(ctx, upsert+`(excluded.changed, excluded.changed_by) > (i.changed, i.changed_by)`, row...))
	case is("status-index"):
		return indexed(ctx, db, p)
	}
	return moved(db.Exec(ctx, upsert+`(i.status, excluded.status) in
		(('draft', 'open'), ('open', 'paid'), ('open', 'void'), ('paid', 'refunded'))`, row...))
}

func moved(tag pgconn.CommandTag, err error) (bool, error) { return tag.RowsAffected() > 0, err }

// truncated reads the invoice's time, compares at milliseconds, and writes; the event id does not
// count.
func truncated(ctx context.Context, db database, p payload) (bool, error) {
	d, last := p.Data, ""
	err := db.QueryRow(ctx, `select changed from invoice where id = $1`, d.Invoice).Scan(&last)
	if errors.Is(err, pgx.ErrNoRows) {
		return moved(db.Exec(ctx, `insert into invoice(id, amount, changed) values($1, $2, $3)`, d.Invoice, d.Amount.String(), d.OccurredAt))
	}
	before, _ := time.Parse(time.RFC3339Nano, last)
	after, _ := time.Parse(time.RFC3339Nano, d.OccurredAt)
	if err != nil || after.UnixMilli() <= before.UnixMilli() {
		return false, err
	}
	return moved(db.Exec(ctx, `update invoice set amount = $2, changed = $3 where id = $1`, d.Invoice, d.Amount.String(), d.OccurredAt))
}

// order is the order of states that "status-index" believes in.
var order = []string{"draft", "open", "paid", "refunded", "void"}

// indexed reads the invoice's state, compares its index with the new one's, and writes.
func indexed(ctx context.Context, db database, p payload) (bool, error) {
	d, last := p.Data, ""
	err := db.QueryRow(ctx, `select status from invoice where id = $1`, d.Invoice).Scan(&last)
	if errors.Is(err, pgx.ErrNoRows) {
		_, err = db.Exec(ctx, `insert into invoice(id) values($1)`, d.Invoice)
	}
	if err != nil || slices.Index(order, d.Status) <= slices.Index(order, last) {
		return false, err
	}
	return moved(db.Exec(ctx, `update invoice set status = $2 where id = $1`, d.Invoice, d.Status))
}
