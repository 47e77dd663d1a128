package brokers

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/grapnelhq/grapnel"
)

// Driver sends messages to one broker. Several goroutines may use it at once, until Close.
type Driver interface {
	// Connect makes the connection that Send needs, unless there is one. It writes no message.
	Connect(ctx context.Context) error
	// Send writes a message once, and returns when the broker has confirmed it, has refused it (the
	// error is a *Refusal), or ctx is done. It repeats nothing by itself: attempts are the policy's.
	Send(ctx context.Context, m *Message) (Receipt, error)
	// Close closes the connections and waits for the driver's goroutines.
	Close()
}

// Message is a prepared delivery. Nobody changes it, or the bytes in it, after Send began.
type Message struct {
	ID       string // of the event; the broker drops a message whose id it has already received, if it can
	Type     string // of the event
	Delivery string // its id
	Key      string // of the event; empty: none
	Name     string // of the target, with its placeholders replaced
	Route    string // of the option OptionRoute, with its placeholders replaced; empty: none
	Body     []byte
	Headers  []grapnel.Header // names in lower case, sorted
}

// Header is a header's value; empty: there is none.
func (m *Message) Header(name string) string {
	for _, h := range m.Headers {
		if h.Name == name {
			return h.Value
		}
	}
	return ""
}

// Receipt says where the broker put a message, by names such as "offset".
type Receipt map[string]string

// Consumer reads the messages of one broker. One goroutine uses it, until Close.
type Consumer interface {
	// Receive returns the next messages, in the broker's order: as soon as there is one, at most as
	// many as the consumer was opened for. After the time wait without a message it returns none.
	// ctx limits the whole call. After an error the consumer is closed and opened again: then the
	// broker delivers all messages that were not acknowledged, before any later one.
	Receive(ctx context.Context, wait time.Duration) ([]Received, error)
	// Ack tells the broker that the oldest n messages that were received, and not acknowledged, are
	// done.
	Ack(ctx context.Context, n int) error
	// Close gives all other messages back, closes the connections and waits for the goroutines.
	Close()
}

// Received is a message that a broker has delivered.
type Received struct {
	// the same text whenever the broker delivers the message, and of no other message; empty: the
	// broker has none
	Place   string
	ID      string // by the publisher, where the broker has a field for it
	Type    string // of the message, where the broker has a field for it
	Key     string // by which the broker orders or routes; empty: none
	Headers []grapnel.Header
	Body    []byte
	At      time.Time // when the broker stored it; zero: the broker does not say
}

// ErrElsewhere is the error of a consumer that is not opened because another one reads.
var ErrElsewhere = errors.New("another consumer reads the messages")

// ErrTooMuch is the error of a consumer that received more bytes than may be in memory at once.
var ErrTooMuch = errors.New("the broker sent more bytes at once than the server takes")

// Reading is what a Kind of brokers is as a source of messages.
type Reading struct {
	What    string // what a target's name is, such as "queue"
	Options []Option
	Check   func(t *grapnel.Target, p Place) *Fault // what the rows above cannot say; nil: nothing
	// connects. group is the name by which the broker knows the source; it receives at most so many
	// messages before they are acknowledged
	Open func(ctx context.Context, t *grapnel.Target, p Place, n Network, group string, most int) (Consumer, error)
}

// Network is how a driver reaches its broker. A driver makes no connection but by Dial.
type Network struct {
	// to "host:port", over TLS if the target's address asks for it
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// the same in clear, for a driver that begins TLS itself, by TLS
	Bare   func(ctx context.Context, address string) (net.Conn, error)
	TLS    *tls.Config // nil: the target's address asks for none
	Conns  int         // at most
	Answer int64       // bytes of an answer that are read, of a broker whose API is HTTP
	Batch  int         // bytes of messages from which on they do not share an object
}

// Refusal is the answer of a broker that did not take a message. The status is the one of HTTP that
// says the same, so a policy needs no rules for brokers.
type Refusal struct {
	Status     int
	Text       string
	RetryAfter time.Duration // 0: the broker does not say
	Broken     bool          // the connection is of no further use
}

func (r *Refusal) Error() string { return strconv.Itoa(r.Status) + " " + r.Text }

// Fault is what is wrong with a field of a target.
type Fault struct {
	Field  string // "address", "options/routing_key"
	Detail string
}

func (f *Fault) Error() string { return f.Field + " " + f.Detail }

// Kind is a kind of brokers: what its targets look like, and its driver. A file of this package
// registers each.
type Kind struct {
	Name   string
	Plain  string // scheme of addresses without TLS
	Secure string // scheme of addresses with TLS
	Port   string // the usual one
	// the usual one with TLS; empty: the same
	SecurePort string
	Many       bool     // an address may have several hosts, with commas between them
	Path       string   // what the path of an address is, such as "virtual host"; empty: there is no path
	What       string   // what a target's name is, such as "topic"
	Nameless   bool     // a target may have no name
	Filled     bool     // a name may have placeholders
	ALPN       []string // protocols that a connection over TLS offers
	Options    []Option
	Check      func(t *grapnel.Target, p Place) *Fault                     // what the rows above cannot say; nil: nothing
	Open       func(t *grapnel.Target, p Place, n Network) (Driver, error) // it does no I/O
	Reading    Reading                                                     // of the kinds that ReadSource returns
}

// OptionRoute is the option of the kinds whose messages have a route besides the target's name.
const OptionRoute = "routing_key"

// Option is a further setting of a kind.
type Option struct {
	Name   string
	One    []string // the only values; nil: any
	Number bool     // a whole number above 0
	Filled bool     // its value may have placeholders
}

// Place is where a broker is.
type Place struct {
	Hosts  []string // "host:port"
	Secure bool     // with TLS
	Path   string   // without slashes at its ends
}
