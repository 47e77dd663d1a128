package plain

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

func (a *answer) begin() {
	clear(a.header)
	a.status, a.rest, a.body = 0, 0, a.body[:0]
}

// finish gives up memory that a large answer took.
func (a *answer) finish(most int) {
	if cap(a.out) > most {
		a.out = nil
	}
	if cap(a.body) > most {
		a.body = nil
	}
}

// render returns the answer as bytes, with the headers that net/http would add.
func (a *answer) render(now time.Time, last bool) []byte {
	if a.status == 0 {
		a.status = http.StatusOK
	}
	b := append(strconv.AppendInt(append(a.out[:0], "HTTP/1.1 "...), int64(a.status), 10), ' ')
	b = append(append(b, http.StatusText(a.status)...), "\r\n"...)
	a.names = a.names[:0]
	for name := range a.header {
		if name != "Content-Length" && name != "Connection" {
			a.names = append(a.names, name)
		}
	}
	slices.Sort(a.names) // an answer does not depend on the order of a map
	for _, name := range a.names {
		for _, value := range a.header[name] {
			b = append(append(append(b, name...), ": "...), clean.Replace(value)...)
			b = append(b, "\r\n"...)
		}
	}
	if a.status == http.StatusNoContent || a.status == http.StatusNotModified {
		a.body = a.body[:0]
	} else {
		if _, set := a.header["Content-Type"]; !set && len(a.body) > 0 {
			b = append(append(append(b, "Content-Type: "...), http.DetectContentType(a.body)...), "\r\n"...)
		}
		b = append(strconv.AppendInt(append(b, "Content-Length: "...), int64(len(a.body)), 10), "\r\n"...)
	}
	if _, set := a.header["Date"]; !set {
		b = append(now.UTC().AppendFormat(append(b, "Date: "...), http.TimeFormat), "\r\n"...)
	}
	if last {
		b = append(b, "Connection: close\r\n"...)
	}
	a.out = append(append(b, "\r\n"...), a.body...)
	return a.out
}

// clean makes a value that cannot end its header.
var clean = strings.NewReplacer("\r", "", "\n", "")

// writer is the http.ResponseWriter of a connection.
type writer conn

// Header returns the headers of the answer.
func (w *writer) Header() http.Header { return w.header }

// WriteHeader sets the status; only the first call counts.
func (w *writer) WriteHeader(status int) {
	if w.status == 0 {
		w.status = status
	}
}

// Write adds to the body, which is sent when the handler has ended.
func (w *writer) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	w.body = append(w.body, p...)
	return len(p), nil
}

// Rest delays the answer: it is sent after this time has passed since the handler returned. A
// pipelined request gives back its share before.
func (w *writer) Rest(d time.Duration) { w.rest = d }

// SetReadDeadline limits the time for the rest of the request's body. Another goroutine than the
// handler's may call it, to end a read.
func (w *writer) SetReadDeadline(t time.Time) error {
	w.limited.Store(true)
	return w.Conn.SetReadDeadline(t)
}
