package torture

import (
	"cmp"
	"strconv"
	"strings"
	"time"
)

// plain is the content of an event. Fields without a value are left out.
type plain struct {
	label    string // in histories
	kind     string // empty: invoice.paid
	key      string // the invoice; empty: one of its own
	amount   string // a JSON number; empty: 500
	version  int
	status   string
	occurred string
	more     string // further members of data: `,"a":1`
	sent     string // the envelope's timestamp; empty: now
}

// body is the JSON of an event in the envelope of Standard Webhooks; id is empty if it is a header.
func (p plain) body(id string, now time.Time) []byte {
	var b strings.Builder
	text := func(name, value string) {
		if value != "" {
			b.WriteString(`,"` + name + `":` + strconv.Quote(value))
		}
	}
	b.WriteString(`{"type":` + strconv.Quote(cmp.Or(p.kind, "invoice.paid")))
	text("id", id)
	text("timestamp", cmp.Or(p.sent, now.UTC().Format(time.RFC3339Nano)))
	b.WriteString(`,"data":{"invoice":` + strconv.Quote(p.key) + `,"amount":` + cmp.Or(p.amount, "500"))
	if p.version > 0 {
		b.WriteString(`,"version":` + strconv.Itoa(p.version))
	}
	text("status", p.status)
	text("occurred_at", p.occurred)
	b.WriteString(p.more + `}}`)
	return []byte(b.String())
}
