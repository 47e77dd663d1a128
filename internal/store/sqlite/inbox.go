package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

const (
	// asideColumns are the columns of readAside.
	asideColumns   = "id, tenant, why, event, content_type, size, intake"
	asideQuery     = "SELECT " + asideColumns + ", packed, sum, body FROM aside WHERE id = ?"
	unlearnedQuery = "SELECT seq FROM known WHERE until < ? ORDER BY until, seq LIMIT ?"
	oldAsidesQuery = "SELECT number FROM aside WHERE at < ? ORDER BY at, number LIMIT ?"
)

// SetAside encodes on the caller's goroutine, as Append does.
func (s *changer) SetAside(ctx context.Context, a grapnel.Aside) error {
	why, known := rows.Asides.Place(a.Why)
	if !known || why == 0 {
		return grapnel.Errorf(grapnel.CodeInvalid, "%q is not a reason to set a request aside", a.Why)
	}
	a.Size = len(a.Body)
	body, packed := s.packer.Shrink(a.Body)
	intake, sum := codec.EncodeIntake(&a.Intake, a.ID), codec.SumAside(&a)
	return s.write(ctx, &change{do: func(t *tx) error {
		set := t.q.addAside.Text(a.ID).Text(a.Tenant).Text(a.Source).Int(why).Int(codec.Micros(a.At))
		return rows.BindName(set, a.Event).Text(a.ContentType).Int(int64(a.Size)).Blob(intake).Int(packed).Int(sum).Blob(body).Run()
	}})
}

// ChangeAside encodes on the caller's goroutine, as SetAside does.
func (s *changer) ChangeAside(ctx context.Context, a grapnel.Aside, drop bool) error {
	if drop {
		return s.write(ctx, &change{shrinks: true, do: func(t *tx) error { return t.q.forgetAside.Text(a.ID).Text(a.Tenant).Run() }})
	}
	why, known := rows.Asides.Place(a.Why)
	if !known || why == 0 {
		return grapnel.Errorf(grapnel.CodeInvalid, "%q is not a reason to set a request aside", a.Why)
	}
	a.Size = len(a.Body)
	intake, sum := codec.EncodeIntake(&a.Intake, a.ID), codec.SumAside(&a)
	return s.write(ctx, &change{do: func(t *tx) error {
		return rows.BindName(t.q.changeAside.Int(why), a.Event).Blob(intake).Int(sum).Text(a.ID).Text(a.Tenant).Run()
	}})
}

// readAside reads the asideColumns of a row.
func readAside(q *sqlite3.Stmt) (grapnel.Aside, error) {
	a := grapnel.Aside{ID: q.String(0), Tenant: q.String(1), Why: rows.ReadWord(q, 2, rows.Asides), Event: q.String(3),
		ContentType: q.String(4), Size: int(q.Integer(5))}
	in, err := codec.DecodeIntake(q.Bytes(6), a.ID)
	if err != nil {
		return a, fmt.Errorf("sqlite: intake of request %s: %w", a.ID, err)
	}
	a.Intake = *in
	return a, nil
}

// Aside returns a request with its body.
func (s *reader) Aside(ctx context.Context, scope store.Scope, id string) (grapnel.Aside, error) {
	return rows.Reading(ctx, s.read, func(r *sqlite3.Conn) (grapnel.Aside, error) {
		none := store.ErrNotFound("request")
		return rows.First(r.Query(asideQuery).Text(id), none, func(q *sqlite3.Stmt) (a grapnel.Aside, err error) {
			if !scope.Allows(q.String(1)) {
				return a, none
			}
			if a, err = readAside(q); err != nil {
				return a, err
			}
			if a.Body, err = s.packer.Thaw(q.Bytes(9), q.Integer(7)); err != nil || codec.SumAside(&a) != q.Integer(8) {
				return a, fmt.Errorf("sqlite: request %s: %w", id, codec.ErrMangled)
			}
			return a, nil
		})
	})
}

// AsideList returns at most Limit requests; Limit 0 returns none. Corrupt ones are left out.
func (s *reader) AsideList(ctx context.Context, scope store.Scope, q store.AsideQuery) ([]grapnel.Aside, error) {
	return rows.Reading(ctx, s.read, func(r *sqlite3.Conn) (list []grapnel.Aside, err error) {
		var some bool
		if q.Tenant, some = scope.Narrow(q.Tenant); !some {
			return nil, nil
		}
		for len(list) < q.Limit {
			sql, values := asidesQuery(q)
			if sql == "" {
				return nil, nil
			}
			most, found := min(q.Limit-len(list), math.MaxInt32), 0
			rows := r.Query(sql).Texts(values...).Int(int64(most))
			for rows.More(&err) {
				a, err := readAside(rows)
				if found++; q.After != "" {
					q.After = a.ID
				} else {
					q.Before = a.ID
				}
				if err != nil {
					s.log.Error("corrupt request in the database", "request", a.ID)
					continue
				}
				list = append(list, a)
			}
			if err != nil || found < most {
				return list, err
			}
		}
		return list, nil
	})
}

// asidesQuery is the SQL of a list with the values of its filters; the last value is the limit. It
// is empty if nothing can be found. An index for each filter has the ids of one reason in their
// order, so a list of any reason is merged from one part for each, and many that are unverified do
// not hide the few that are in conflict.
func asidesQuery(q store.AsideQuery) (sql string, values []string) {
	reasons := rows.Asides[1:]
	if q.Why != "" {
		reasons = []grapnel.AsideReason{q.Why}
	}
	var f rows.Filters
	f.Equal("source", q.Source)
	f.Equal("tenant", q.Tenant)
	f.Add("id < ?", q.Before)
	f.Add("id > ?", q.After)
	var parts []string
	for _, reason := range reasons {
		if why, known := rows.Asides.Place(reason); known {
			of := rows.Filters{All: append(f.All, fmt.Sprintf("why = %d", why))}
			parts, values = append(parts, "SELECT "+asideColumns+" FROM aside"+of.Where()), append(values, f.Values...)
		}
	}
	if len(parts) == 0 {
		return "", nil
	}
	order := " ORDER BY id DESC LIMIT ?"
	if q.After != "" {
		order = " ORDER BY id LIMIT ?"
	}
	return strings.Join(parts, " UNION ALL ") + order, values
}

// Unlearn looks on a connection for reading and removes in small transactions, as Purge does, and
// removes the bytes from the files in the same way. Entries in the index of keys stay for some
// time: a few bytes of a hash, and an event's row id.
func (s *keeper) Unlearn(ctx context.Context, now, asideBefore time.Time, limit int) (removed int, err error) {
	s.purge.mu.Lock()
	defer s.purge.mu.Unlock()
	var known, old []int64
	err = s.read(ctx, func(r *sqlite3.Conn) (err error) {
		if known, err = listed(r, unlearnedQuery, now, limit); err == nil {
			old, err = listed(r, oldAsidesQuery, asideBefore, limit)
		}
		return err
	})
	if err != nil || len(known)+len(old) == 0 && !s.purge.deferred {
		return 0, err
	}
	err = s.erased(ctx, func() error {
		for len(known)+len(old) > 0 {
			n := min(s.bounds.Unlearned, len(known))
			m := min(s.bounds.Unlearned-n, len(old))
			of := 0
			if err := s.write(ctx, &change{shrinks: true, do: func(t *tx) error {
				of = 0
				return errors.Join(dropAll(t, t.q.dropKnown, known[:n], &of), dropAll(t, t.q.dropAside, old[:m], &of))
			}}); err != nil {
				return err
			}
			removed += of
			known, old = known[n:], old[m:]
		}
		return nil
	})
	return removed, err
}

// listed returns at most limit row ids of rows that expired before a time.
func listed(r *sqlite3.Conn, query string, before time.Time, limit int) ([]int64, error) {
	return rows.Integers(r.Query(query).Int(codec.Micros(before)).Int(int64(max(limit, 0))))
}

// dropAll removes the rows with these numbers, and counts them.
func dropAll(t *tx, drop *sqlite3.Stmt, numbers []int64, removed *int) error {
	for _, number := range numbers {
		n, err := t.changes(drop.Int(number))
		if err != nil {
			return err
		}
		*removed += n
	}
	return nil
}
