package egress

import (
	"time"

	"github.com/grapnelhq/grapnel/internal/send/transform"
)

// Bounds are the sizes and time limits inside this package; see package bounds. The sizes of a
// response that are read, stored and shown are promised to users and are not here.
type Bounds struct {
	Addresses int `bound:"8"` // of a name that are tried
	// stale connections in a row that one attempt passes over
	Stale int `bound:"3"`
	// a body from this size on is written while the answer is read; a shorter one fits into buffers
	LongBody int64 `bound:"16KiB" tiny:"16"`
	// for the writer of a long body to finish, once the answer is complete
	Patience  time.Duration `bound:"50ms" tiny:"10ms"`
	TokenTime time.Duration `bound:"10s"` // for a token server to answer
	// the least age of a token that a 401 makes stale
	TokenRest time.Duration `bound:"10s" tiny:"1ms"`
	Sessions  int           `bound:"1024"` // TLS sessions remembered
	// bytes of an answer that are read ahead; a longer answer is never a simple one
	Ahead int `bound:"4096" least:"16"`

	// the head of a simple answer that is remembered: the next answer's is mostly the same
	SameHead int `bound:"512" tiny:"40"`

	// The transforms of a tenant get 1/ShapePart of one processor, after a burst of ShapeBurst.
	ShapePart  int           `bound:"4"  tiny:"4"`
	ShapeBurst time.Duration `bound:"2s"`
	// records of tenants before those within their part are deleted
	ShapeTenants int `bound:"1024"`
	Transform    transform.Bounds

	// Links to brokers, in all and of one tenant, and the connections of a link: a cluster has one for each
	// of its nodes.
	BrokerLinks  int           `bound:"1024"`
	BrokerTenant int           `bound:"64"`
	BrokerConns  int           `bound:"64" least:"4"`
	BrokerIdle   time.Duration `bound:"1m" tiny:"20ms"` // a link without a send is closed after this
	BrokerEnd    time.Duration `bound:"2s" tiny:"50ms"` // the longest that a driver may take to close
	// of an answer of a broker over HTTP, and of the messages of a file
	BrokerAnswer int64 `bound:"64KiB" tiny:"4KiB"`
	BrokerBatch  int   `bound:"4MiB" tiny:"100"`

	// A request of format batch leaves with this many events or bytes, or Linger after its first
	// event. BatchBytes is the default size of the largest event, which receivers take anyway.
	BatchEvents int           `bound:"100" tiny:"4" least:"2"`
	BatchBytes  int           `bound:"256KiB" tiny:"1KiB" least:"512"`
	Linger      time.Duration `bound:"5ms" tiny:"1ms"`

	ProxyAnswer int   `bound:"16KiB" tiny:"512"`  // head of a proxy's answer
	TokenText   int   `bound:"8KiB" tiny:"256"`   // of a bearer token
	TokenAnswer int64 `bound:"64KiB" tiny:"1KiB"` // of a token server
	// A token server that has failed rests for TokenPause, twice as long each time, up to LongestRest.
	TokenPause  time.Duration `bound:"1s" tiny:"10ms"`
	LongestRest time.Duration `bound:"10s" tiny:"40ms"`
}
