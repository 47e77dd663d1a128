package torture

import (
	"bytes"
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
	more     string // further members of the data: `"a":1`
	sent     string // the envelope's timestamp; empty: now
}

// body is the JSON of an event in the envelope of Standard Webhooks.
func (p plain) body(now time.Time) []byte {
	var b strings.Builder
	text := func(name, value string) {
		if value != "" {
			b.WriteString(`,"` + name + `":` + strconv.Quote(value))
		}
	}
	b.WriteString(`{"type":` + strconv.Quote(cmp.Or(p.kind, "invoice.paid")))
	text("timestamp", cmp.Or(p.sent, now.UTC().Format(time.RFC3339Nano)))
	b.WriteString(`,"data":{"invoice":` + strconv.Quote(p.key) + `,"amount":` + cmp.Or(p.amount, "500"))
	if p.version > 0 {
		b.WriteString(`,"version":` + strconv.Itoa(p.version))
	}
	text("status", p.status)
	text("occurred_at", p.occurred)
	if p.more != "" {
		b.WriteString("," + p.more)
	}
	b.WriteString(`}}`)
	return []byte(b.String())
}

// written fills a template of the user's, in which names in braces stand for the fields.
func (p plain) written(template, id string, now time.Time) []byte {
	text := strings.NewReplacer("{event}", id, "{id}", id, "{type}", cmp.Or(p.kind, "invoice.paid"), "{key}", p.key,
		"{amount}", cmp.Or(p.amount, "500"), "{version}", strconv.Itoa(max(p.version, 1)), "{status}", cmp.Or(p.status, "draft"),
		"{timestamp}", cmp.Or(p.sent, now.UTC().Format(time.RFC3339Nano)),
		"{occurred_at}", cmp.Or(p.occurred, now.UTC().Format(time.RFC3339Nano))).Replace(template)
	return widened([]byte(text), p.more)
}

// widened adds members at the beginning of a JSON object. Another body stays as it is.
func widened(body []byte, more string) []byte {
	rest, object := bytes.CutPrefix(bytes.TrimSpace(body), []byte("{"))
	if more == "" || !object {
		return body
	}
	return append([]byte("{"+more+","), rest...)
}

// altered is a body with another last digit, which stays as valid as it was.
func altered(body []byte) []byte {
	out := bytes.Clone(body)
	if i := bytes.LastIndexAny(out, "0123456789"); i >= 0 {
		out[i] = '0' + (out[i]-'0'+1)%10
	}
	return out
}
