package relay

import (
	"cmp"
	"context"
	"database/sql/driver"
	"errors"
	"time"

	"github.com/go-sql-driver/mysql"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/store"
)

func newCourier(r *Runner, s grapnel.Source) *courier {
	return &courier{runner: r, source: s, over: make(chan struct{}), most: r.o.Bounds.Messages, given: map[[2]int64]*shelving{},
		now: Status{State: Connecting, Since: r.o.Now()}}
}

// run connects, again and again, and carries while the connection lasts.
func (c *courier) run(ctx context.Context) {
	warned := false
	for failures := 0; ctx.Err() == nil; {
		b, err := c.open(ctx)
		if err == nil {
			if host, remedy := b.inClear(); host != "" && !warned {
				warned = true
				c.runner.o.Log.Warn("outbox connection without TLS to another host; events cross the network in clear",
					"source", c.source.ID, "host", host, "remedy", remedy)
			}
			err = c.carry(ctx, b, &failures)
			_ = b.Close() // the connection already failed
		}
		if ctx.Err() != nil {
			return
		}
		failures++
		c.away(err)
		backoff.Wait(ctx.Done(), c.pause(failures))
	}
}

func (c *courier) open(ctx context.Context) (box, error) {
	if c.source.Broker != nil {
		return openBroker(c)
	}
	return c.runner.o.open(ctx, c.source.Outbox.DSN.Text)
}

// pause is the time to wait after the n-th failure in a row.
func (c *courier) pause(n int) time.Duration {
	steps := backoff.Steps{First: c.runner.o.Bounds.First, Longest: c.runner.o.Bounds.Longest}
	return time.Duration(c.runner.o.Random() * float64(steps.After(n)))
}

// carry publishes events and waits for more, until the connection is broken.
func (c *courier) carry(ctx context.Context, b box, failures *int) error {
	var last time.Time // when there was something
	for refusals := 0; ; {
		p, err := b.look(ctx, c.runner.o.MaxEvent)
		if err != nil {
			return err
		}
		c.saw(p)
		if p.elsewhere || len(p.rows) == 0 {
			if err := b.leave(ctx); err != nil {
				return err
			}
			*failures = 0
			c.well(p.elsewhere)
			if err := c.idle(ctx, b, p.elsewhere, last); err != nil {
				return err
			}
			continue
		}
		err = c.publish(ctx, p.rows)
		if n := permitted(err); 0 < n && n < len(p.rows) {
			p.rows, p.full = p.rows[:n], true
			err = c.publish(ctx, p.rows)
		}
		if err != nil {
			if err := b.leave(ctx); err != nil {
				return err
			}
			refusals++
			backoff.Wait(ctx.Done(), c.refused(err, refusals))
			continue
		}
		refusals = 0
		if err := b.take(ctx, p); err != nil {
			// a successful look is not enough: with a role that may not delete, take would fail
			// again and again
			return err
		}
		*failures = 0
		c.well(false)
		last = c.runner.o.Now()
		c.moved(p, last)
		if !p.full {
			backoff.Wait(ctx.Done(), c.runner.o.Bounds.Nap)
		}
	}
}

// permitted is the number of events that the tenant may still publish; 0: it is not known. A page
// with more would be refused forever.
func permitted(err error) int {
	if e, is := errors.AsType[*grapnel.Error](err); is && e.Quota != nil {
		return int(e.Quota.Left)
	}
	return 0
}

// idle waits for an event.
func (c *courier) idle(ctx context.Context, b box, elsewhere bool, last time.Time) error {
	switch {
	case elsewhere:
		backoff.Wait(ctx.Done(), c.runner.o.Bounds.StandBy)
	case c.runner.o.Now().Sub(last) < c.runner.o.Bounds.Lately:
		backoff.Wait(ctx.Done(), c.runner.o.Bounds.Nap)
	default:
		return b.sleep(ctx, c.runner.o.Bounds.Asleep)
	}
	return nil
}

// refused records that events could not be published, and returns the time until a retry.
func (c *courier) refused(err error, n int) time.Duration {
	var e *grapnel.Error
	if errors.As(err, &e) && e.RetryAfter > 0 {
		c.set(Held, "the server takes no more at the moment: "+e.Detail)
		return min(e.RetryAfter, c.runner.o.Bounds.Refused)
	}
	const failing = "storing events failed; retrying"
	told := c.status().Detail == failing
	if c.set(Held, failing); !told {
		c.runner.o.Log.Error("storing events of a source failed; retrying", "source", c.source.ID, "err", err)
	}
	return c.pause(n)
}

// away notes that the database cannot be used.
func (c *courier) away(err error) {
	detail := explain(err)
	if c.set(Away, detail) != Away {
		c.runner.o.Log.Warn("reading a source failed; retrying", "source", c.source.ID, "err", detail)
	}
}

// explain describes the error of a database, with the remedy if it is known.
func explain(err error) string {
	if said, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch said.Code {
		case "3F000", "42P01": // no such schema, no such table
			return "the database has no outbox: create it with grapnel outbox install"
		case "42501":
			return said.Message + ": grapnel outbox install --relay ROLE lets a role read the outbox"
		}
		return said.Message
	}
	if said, ok := errors.AsType[*mysql.MySQLError](err); ok {
		switch said.Number {
		case 1146: // no such table
			return "the database has no outbox: create it with grapnel outbox install"
		case 1142, 1143, 1370: // of a table, a column, a procedure
			return said.Message + ": grapnel outbox install --relay USER@HOST lets a user read the outbox"
		}
		return said.Message
	}
	if errors.Is(err, mysql.ErrInvalidConn) || errors.Is(err, driver.ErrBadConn) {
		return "the connection to the database broke"
	}
	return err.Error()
}

// publish makes rows durable: as events or, if that is impossible, set aside.
func (c *courier) publish(ctx context.Context, rows []row) error {
	now := c.runner.o.Now()
	c.aside = 0
	var events []store.Incoming
	var of []*row
	for i := range rows {
		r := &rows[i]
		if r.id == 0 {
			continue
		}
		ev, wrong := c.event(r, now)
		if wrong != "" {
			if err := c.setAside(ctx, r, grapnel.AsideRefused, wrong); err != nil {
				return err
			}
			continue
		}
		events, of = append(events, store.Incoming{Event: ev}), append(of, r)
	}
	return c.append(ctx, events, of)
}

// append publishes events in order. If one of them is refused, the others are still published:
// halves are tried by themselves until it is found.
func (c *courier) append(ctx context.Context, events []store.Incoming, of []*row) error {
	if len(events) == 0 {
		return nil
	}
	done, err := c.runner.o.Engine.Publish(ctx, events, nil)
	if wrong, is := unfit(err); is {
		if len(events) == 1 {
			return c.setAside(ctx, of[0], grapnel.AsideRefused, wrong)
		}
		half := len(events) / 2
		if err := c.append(ctx, events[:half], of[:half]); err != nil {
			return err
		}
		return c.append(ctx, events[half:], of[half:])
	}
	if err != nil {
		return err
	}
	for i, placed := range done.Events {
		switch {
		case placed.Conflict || placed.Differs:
			if err := c.setAside(ctx, of[i], grapnel.AsideConflict, "an event with this id exists and has another type, key or data"); err != nil {
				return err
			}
		case placed.Duplicate:
			c.runner.count(repeated)
		default:
			c.runner.count(accepted)
		}
	}
	return nil
}

// unfit says whether an error is about the events, not about the state of the server. After such an
// error nothing was written.
func unfit(err error) (wrong string, is bool) {
	var e *grapnel.Error
	if !errors.As(err, &e) {
		return "", false
	}
	switch e.Code {
	case grapnel.CodeInvalid, grapnel.CodeMalformed, grapnel.CodeTooLarge, grapnel.CodeUnsupported, grapnel.CodeTooCostly,
		grapnel.CodeTooManyTypes:
		return cmp.Or(e.Detail, e.Error()), true
	}
	return "", false
}
