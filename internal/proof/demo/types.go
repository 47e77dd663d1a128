package demo

import (
	"net"
	"net/http"
	"sync"

	"github.com/grapnelhq/grapnel/sign"
)

// Receipt is one request that a receiver got.
type Receipt struct {
	Receiver string
	EventID  string
	Attempt  string
	Body     string
	Status   int    // of the receiver's answer
	Why      string // the reason for an answer other than 2xx
}

// Receivers are the three of them behind one listener.
type Receivers struct {
	listener net.Listener
	http     *http.Server
	tell     func(Receipt)
	done     chan struct{}
	// receiver → id of its endpoint; Install writes it before the story reads it
	endpoints map[string]string

	mu        sync.Mutex
	verifiers map[string]*sign.Verifier
	flaky     flaky
	ledger    ledger
}

// flaky refuses the first of every three new events twice before it accepts it, so that retries can
// be watched. While it is down it refuses everything. Its fields belong to the mutex of Receivers.
type flaky struct {
	down     bool
	arrivals int            // new events while it is up
	refusals map[string]int // event → how many times it will still be refused
}

// ledger books payments and has two bugs. It refuses those in yen until Fix. And of every three it
// books the first one and then fails before it has answered, so the event comes again: it is booked
// once all the same, because the ledger remembers which events it has booked. Its fields belong to
// the mutex of Receivers.
type ledger struct {
	fixed bool
	Count
	booked map[string]bool
}

// Count has the requests that the ledger got, and their effects.
type Count struct {
	Requests int // verified, and in an accepted currency
	Events   int // different ones among them
	Effects  int // payments in the ledger
	Naive    int // payments that a ledger without a memory would have
}
