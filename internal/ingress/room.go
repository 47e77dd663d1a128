package ingress

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
)

// Room takes requests in. Any number of goroutines may use it; it has none of its own.
type Room struct{ o Options }

// New makes a room.
func New(o Options) *Room { return &Room{o: o} }

// Take answers one request for a source. Whoever routes has made sure that the method is POST.
func (room *Room) Take(w http.ResponseWriter, r *http.Request, source string) {
	room.o.Problem(w, r, Refusal{Status: http.StatusServiceUnavailable})
}

// Collectors are what a registry registers.
func (room *Room) Collectors() []prometheus.Collector { return nil }
