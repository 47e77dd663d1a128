package egress

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// maxPlaceholders bounds a header's value together with MaxHeaderValueLength: each stands for at
// most 3 * grapnel.MaxKeyLength bytes.
const maxPlaceholders = 8

// placeholders are the names that the value of an endpoint's own header may have in braces.
var placeholders = map[string]func(Delivery) string{
	"attempt":         func(d Delivery) string { return strconv.Itoa(d.Number) },
	"delivery.id":     func(d Delivery) string { return d.ID },
	"event.id":        func(d Delivery) string { return d.Event.ID },
	"event.key":       func(d Delivery) string { return d.Event.Key },
	"event.timestamp": func(d Delivery) string { return d.Event.OccurredAt.UTC().Format(timeLayout) },
	"event.type":      func(d Delivery) string { return d.Event.Type },
	"retry":           func(d Delivery) string { return strconv.Itoa(d.Number - 1) },
}

// Placeholders are the names that CheckHeaders allows in braces, sorted.
func Placeholders() []string { return slices.Sorted(maps.Keys(placeholders)) }

// of is the value for a delivery. Values of the event are percent-encoded as in ce-partitionkey, so
// that no control character can end the header.
func (t template) of(d Delivery) string {
	var b strings.Builder
	for _, part := range t {
		b.WriteString(part.text)
		if part.value != nil {
			b.WriteString(percentEncode(part.value(d), `"%`))
		}
	}
	return b.String()
}

// fixed is the value if it is the same for all deliveries.
func (t template) fixed() (string, bool) {
	for _, part := range t {
		if part.value != nil {
			return "", false
		}
	}
	return t.of(Delivery{}), true
}

// bare says that the value is one placeholder and nothing else, so that it holds no secret of the
// endpoint's.
func (t template) bare() bool { return len(t) == 2 && t[0].text == "" && t[1].text == "" }

// parseTemplate reads a value in which {name} is a placeholder and {{ and }} are braces. It also
// returns the first fault; then each brace and unknown name stands for itself, as in values saved
// by a later version.
func parseTemplate(value string) (t template, wrong string) {
	t = template{{}}
	for rest := value; rest != ""; {
		last := &t[len(t)-1]
		at := strings.IndexAny(rest, "{}")
		if at < 0 {
			last.text += rest
			break
		}
		last.text += rest[:at]
		rest = rest[at:]
		name, after, closed := strings.Cut(rest[1:], "}")
		known := placeholders[name]
		switch {
		case len(rest) > 1 && rest[1] == rest[0]:
			last.text, rest = last.text+rest[:1], rest[2:]
			continue
		case rest[0] == '{' && closed && known != nil:
			last.value, rest = known, after
			t = append(t, template{{}}...)
			continue
		case rest[0] == '{' && closed:
			wrong = cmp.Or(wrong, fmt.Sprintf("has the unknown name {%s} in its value", name))
		default:
			wrong = cmp.Or(wrong, fmt.Sprintf("has a single %q in its value", rest[0]))
		}
		last.text, rest = last.text+rest[:1], rest[1:]
	}
	if len(t)-1 > maxPlaceholders {
		wrong = fmt.Sprintf("has %d names in braces in its value; at most %d are allowed", len(t)-1, maxPlaceholders)
	} else if wrong != "" {
		wrong += "; known are {" + strings.Join(Placeholders(), "} {") + "}; {{ and }} are braces"
	}
	return t, wrong
}

const (
	timeLayout  = "2006-01-02T15:04:05.000000Z"
	octetStream = "application/octet-stream"
)

// percentEncode writes text as printable ASCII without space and without the others: for a header
// of the HTTP binding of CloudEvents, or for the query of a request line.
func percentEncode(text, others string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= 0x7f || strings.IndexByte(others, c) >= 0 {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		} else {
			b.WriteByte(c)
		}
	}
	return b.String()
}
