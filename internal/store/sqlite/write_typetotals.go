package sqlite

import (
	"math"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// sumType changes the totals of the type of a delivery's event.
func sumType(t *tx, d *place, at time.Time, change func(*grapnel.Totals)) error {
	hour, s := codec.HourOf(codec.Micros(at)), &t.types
	if s.last == nil || s.lastKind != d.kind || s.lastHour != hour {
		name, err := typeName(t, d)
		if err != nil {
			return err
		}
		found, err := typeTotalFor(t, typeOf{hour, d.tenant, name})
		if err != nil {
			return err
		}
		s.last, s.lastKind, s.lastHour = found, d.kind, hour
	}
	s.touch(s.last)
	change(&s.last.totals)
	return nil
}

// publishedAgain counts an event that its tenant has published before.
func publishedAgain(t *tx, e *incoming) error {
	tenant, err := t.tenant(e.Tenant)
	if err != nil {
		return err
	}
	sum, err := typeTotalFor(t, typeOf{codec.HourOf(codec.Micros(e.AcceptedAt)), tenant, e.Type})
	if err != nil {
		return err
	}
	t.types.touch(sum)
	sum.totals.Duplicates++
	return nil
}

func (s *typeTotals) touch(sum *typeTotal) {
	if !sum.touched {
		sum.touched = true
		s.touched = append(s.touched, sum)
	}
}

// typeName is the type of a delivery's event.
func typeName(t *tx, d *place) (string, error) {
	return cached(t.names.types, t.bounds.Names, d.kind, func() (string, error) { return rows.LookUpText(t.q.kindType.Int(d.kind)) })
}

// typeTotalFor returns the totals of a type, or those of all other types if too many have some.
func typeTotalFor(t *tx, of typeOf) (*typeTotal, error) {
	if sum := t.types.known[of]; sum != nil {
		return sum, nil
	}
	sum := &typeTotal{typeOf: of}
	q := t.q.typeTotal.Int(0).Int(of.hour).Int(of.tenant).Text(of.name)
	found, err := rows.First(q, nil, func(q *sqlite3.Stmt) (_ bool, err error) {
		sum.totals, err = codec.DecodeTotals(q.Bytes(0))
		return true, err
	})
	if err == nil && !found && of.name != "" {
		var room bool
		if room, err = typeRoom(t, tenantHour{of.hour, of.tenant}); err == nil && !room {
			sum, err = typeTotalFor(t, typeOf{of.hour, of.tenant, ""})
		}
	}
	if err != nil {
		return nil, err
	}
	t.types.known[of] = sum
	return sum, nil
}

// typeRoom takes one of the hour's places for types that are told apart. false: there is none.
func typeRoom(t *tx, of tenantHour) (bool, error) {
	told, err := cached(t.types.told, math.MaxInt, of, func() (int64, error) {
		return rows.LookUp(t.q.typesTold.Int(0).Int(of.hour).Int(of.tenant))
	})
	if err != nil || told >= store.TypesCounted {
		return false, err
	}
	t.types.told[of]++
	return true, nil
}

// writeTypes writes the touched totals.
func writeTypes(t *tx) error {
	for _, sum := range t.types.touched {
		err := t.q.setTypeTotal.Int(0).Int(sum.hour).Int(sum.tenant).Text(sum.name).Blob(codec.EncodeTotals(&sum.totals)).Run()
		if err != nil {
			return err
		}
		sum.touched = false
	}
	t.types.touched = t.types.touched[:0]
	if len(t.types.known) > t.bounds.TypeTotals {
		t.types.forget()
	}
	return nil
}
