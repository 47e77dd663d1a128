package egress

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
)

// read is simpleReply, which it does not call for the head of the last answer.
func (s *same) read(b []byte, most int) (is reply, size int, ok bool) {
	if len(s.head) > 0 && bytes.HasPrefix(b, s.head) {
		size = len(s.head) + s.is.length
		return s.is, size, size <= len(b)
	}
	is, size, ok = simpleReply(b)
	if head := size - is.length; ok && head <= most {
		s.head, s.is = append(s.head[:0], b[:head]...), is
	}
	return is, size, ok
}

// mostSimple is the number of headers of a simple answer. Each is compared with all before it.
const mostSimple = 24

// simpleReply reads the answer at the beginning of b without net/http, if it is a simple one that
// is there as a whole: head and body, the body with a length, on a connection that stays open, with
// nothing unusual in its syntax. size is its length. All others are left to net/http, which sees
// the same bytes, so this function may refuse any answer that it is not sure of.
// FuzzSimpleReplies holds it to net/http's reading.
func simpleReply(b []byte) (a reply, size int, ok bool) {
	const begins, line = "HTTP/1.1 ", len("HTTP/1.1 200")
	if len(b) < line+2 || string(b[:len(begins)]) != begins {
		return a, 0, false
	}
	for _, c := range b[len(begins):line] {
		if c < '0' || c > '9' {
			return a, 0, false
		}
		a.status = a.status*10 + int(c-'0')
	}
	at := line
	if b[at] == ' ' {
		at++
	} else if b[at] != '\r' {
		return a, 0, false
	}
	if at, ok = lineEnd(b, at); !ok || a.status < 200 || a.status > 599 || a.status == http.StatusNotModified {
		return a, 0, false
	}
	at += 2
	a.headers = make(map[string]string, 8)
	a.length = -1
	var seen [mostSimple]string
	for n := 0; ; n++ {
		if at+1 < len(b) && b[at] == '\r' && b[at+1] == '\n' {
			at += 2
			break
		}
		if n == mostSimple || !a.field(b, &at, seen[:n], &seen[n]) {
			return a, 0, false
		}
	}
	if a.status == http.StatusNoContent && a.length < 0 {
		a.length = 0
	} else if a.length < 0 || a.status == http.StatusNoContent {
		return a, 0, false
	}
	return a, at + a.length, at+a.length <= len(b)
}

// field reads a header line that begins at *at.
func (a *reply) field(b []byte, at *int, before []string, name *string) bool {
	colon := *at
	for colon < len(b) && b[colon] != ':' {
		colon++
	}
	*name = canonical(b[*at:colon])
	if !validHeaderName(*name) || slices.Contains(before, *name) {
		return false
	}
	end, ok := lineEnd(b, min(colon+1, len(b)))
	if !ok {
		return false
	}
	*at = end + 2
	text := string(bytes.Trim(b[colon+1:end], " \t"))
	switch *name {
	case "Content-Length":
		if text == "" || len(text) > 5 {
			return false
		}
		a.length = 0
		for i := range len(text) {
			if text[i] < '0' || text[i] > '9' {
				return false
			}
			a.length = a.length*10 + int(text[i]-'0')
		}
		if a.length > maxKeptBody {
			return false
		}
	case "Connection":
		if !strings.EqualFold(text, "keep-alive") {
			return false
		}
	case "Transfer-Encoding", "Trailer", "Pragma": // the last stands for another header too
		return false
	case "Retry-After":
		a.retryAfter = text
	case "Date":
		a.date = text
	case "Webhook-Delivery":
		a.wish = text
	}
	keep(a.headers, *name, text)
	return true
}

// lineEnd finds the line break after at. A line with anything but printable ASCII and tabs has none
// here.
func lineEnd(b []byte, at int) (end int, ok bool) {
	for ; at < len(b); at++ {
		switch c := b[at]; {
		case c == '\r':
			return at, at+1 < len(b) && b[at+1] == '\n'
		case c < ' ' && c != '\t', c >= 0x7f:
			return 0, false
		}
	}
	return 0, false
}

// canonical is the canonical form of a header's name, without memory for the names that most
// answers have.
func canonical(b []byte) string {
	switch string(b) {
	case "Date":
		return "Date"
	case "Content-Length":
		return "Content-Length"
	case "Content-Type":
		return "Content-Type"
	case "Server":
		return "Server"
	case "Connection":
		return "Connection"
	}
	return http.CanonicalHeaderKey(string(b))
}
