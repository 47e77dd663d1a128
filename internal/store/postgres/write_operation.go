package postgres

import "sync/atomic"

// operation is one call of a writing method. Its result is valid once the transaction has
// committed.
type operation interface {
	// need adds the locks and rows that it needs.
	need(*needs)
	// apply decides whether the operation can succeed, and then applies it. An error that it decides
	// leaves the transaction unchanged. It may be called again for another transaction.
	apply(*tx) error
}

// request is an operation on its way to a writer and back.
type request struct {
	operation
	alone bool // in a transaction of its own, because it makes further queries
	err   error
	state atomic.Int32
	done  chan struct{}
}

// bytes is the size of the operation's large data.
func (r *request) bytes() int {
	if o, big := r.operation.(interface{ bytes() int }); big {
		return o.bytes()
	}
	return 0
}

// The states of a request. If the caller gives up before the operation was taken, nothing has
// changed.
const (
	waits = iota
	taken
	abandoned
)

// change is an operation that has no result.
type change struct {
	needs func(*needs)
	do    func(*tx) error
}

func (o *change) need(n *needs) {
	if o.needs != nil {
		o.needs(n)
	}
}

func (o *change) apply(t *tx) error { return o.do(t) }
