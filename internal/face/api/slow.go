package api

import (
	"net/http"
	"time"
)

// slow makes a refused request wait before its answer is sent, when more requests of the same
// tenant or source are refused than RefusalPause allows. So a caller that sends invalid requests on
// many connections, or without waiting for their answers, takes little time from others: its
// connections wait, and the server reads nothing more of them meanwhile. Requests that are accepted
// never wait, those of the same tenant neither. Requests without a valid key have one rate
// together: whose is empty.
func (a *api) slow(w http.ResponseWriter, whose string, status int) {
	if status < 400 || status >= 500 {
		return
	}
	if now := a.Clock(); a.Gate.refusals.Within(whose, now) {
		a.Gate.refusals.Use(whose, now, now, a.Bounds.RefusalPause)
		return
	}
	for {
		switch is := w.(type) {
		case interface{ Rest(time.Duration) }: // a plain request: it waits without what it holds
			is.Rest(a.Bounds.RefusalWait)
			return
		case interface{ Unwrap() http.ResponseWriter }:
			w = is.Unwrap()
		default:
			<-time.After(a.Bounds.RefusalWait) // even if the caller hangs up: it could come again at once
			return
		}
	}
}

// noticed is an answer whose status is noticed on its way.
type noticed struct {
	http.ResponseWriter
	status int
}

// Unwrap lets the connection's deadlines be set.
func (n *noticed) Unwrap() http.ResponseWriter { return n.ResponseWriter }

// WriteHeader notices the first status.
func (n *noticed) WriteHeader(status int) {
	if n.status == 0 {
		n.status = status
	}
	n.ResponseWriter.WriteHeader(status)
}
