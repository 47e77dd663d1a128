package postgres

import (
	"bytes"
	"crypto/sha256"
	"slices"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/postgres/rows"
)

func freezeKnown(k *store.Known) *known {
	if k == nil {
		return nil
	}
	h := sha256.New()
	_, _ = h.Write(append([]byte(k.Source), 0))
	_, _ = h.Write(k.By)
	return &known{key: h.Sum(nil), sum: bytes.Clone(k.Sum[:]), until: codec.Micros(k.Until)}
}

const (
	knownQuery = "SELECT key, sum, until, seq, accepted, made, event FROM known WHERE key = ANY($1)"
	dropKnown  = `DELETE FROM known k USING unnest($1::bytea[], $2::bigint[]) u(key, accepted) WHERE k.key = u.key AND k.until <= u.accepted`
)

var (
	knownFields = rows.Fields[*known]{
		rows.Value("key", "bytea", func(k *known) []byte { return k.key }),
		rows.Value("sum", "bytea", func(k *known) []byte { return k.sum }),
		rows.Value("until", "bigint", func(k *known) int64 { return k.until }),
		rows.Value("seq", "bigint", func(k *known) int64 { return k.placed.Seq }),
		rows.Value("accepted", "bigint", acceptedOf),
		rows.Value("made", "integer", func(k *known) int32 { return int32(k.placed.Deliveries) }),
		rows.Value("event", "text", func(k *known) string { return k.placed.ID }),
	}
	addKnown = knownFields.Insert("known", "")
)

func acceptedOf(k *known) int64 { return codec.Micros(k.placed.AcceptedAt) }

func (t *tx) readKnown(got pgx.Rows) error {
	var r known
	var accepted int64
	into := []any{&r.key, &r.sum, &r.until, &r.placed.Seq, &accepted, &r.placed.Deliveries, &r.placed.ID}
	return rows.Answered(got).Each(into, func() {
		k := r
		k.placed.AcceptedAt = codec.Moment(accepted)
		t.known[string(k.key)] = &k
	})
}

// recognize returns the answer to an event that was already received.
func recognize(t *tx, e *incoming) (store.Placed, bool) {
	if e.known == nil {
		return store.Placed{}, false
	}
	k := t.known[string(e.known.key)]
	if k == nil || k.until <= codec.Micros(e.AcceptedAt) {
		return store.Placed{}, false
	}
	again := k.placed
	again.Duplicate, again.Differs = true, !bytes.Equal(k.sum, e.known.sum)
	return again, true
}

// familiar stores the dedupe key of an accepted event. It replaces an earlier event with the same
// key.
func familiar(t *tx, k *known, placed store.Placed) {
	if k == nil {
		return
	}
	k.placed = placed
	t.known[string(k.key)] = k
	t.learned = append(t.learned, k)
}

// flushKnown writes the new dedupe keys. If another node stores one of them at the same time, the
// transaction conflicts and is tried again.
func flushKnown(t *tx, b *pgx.Batch) {
	list := slices.DeleteFunc(t.learned, func(k *known) bool { return t.known[string(k.key)] != k })
	if len(list) == 0 {
		return
	}
	slices.SortFunc(list, func(x, y *known) int { return bytes.Compare(x.key, y.key) })
	b.Queue(dropKnown, rows.Column(list, func(k *known) []byte { return k.key }), rows.Column(list, acceptedOf))
	addKnown.Queue(b, list)
}
