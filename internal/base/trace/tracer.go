package trace

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"io"
	"log/slog"
	"math"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
)

// Bounds are the sizes and time limits inside this package; see package bounds.
type Bounds struct {
	Queue int           `bound:"4096"` // spans that wait for a batch
	Batch int           `bound:"512"`  // spans in one request
	Delay time.Duration `bound:"2s" tiny:"10ms"`
	Tries int           `bound:"5"`             // of one batch
	Last  time.Duration `bound:"3s" tiny:"1s"`  // for the spans in the queue when the server stops
	First time.Duration `bound:"1s" tiny:"5ms"` // pause after the first failure; it doubles
	Pause time.Duration `bound:"30s" tiny:"20ms"`
}

// Options configure a Tracer.
type Options struct {
	Settings
	Bounds Bounds
	Log    *slog.Logger
	Now    func() time.Time  // time.Now
	Random io.Reader         // for ids, safe for concurrent use; crypto/rand's
	Client http.RoundTripper // http.DefaultTransport's settings
}

// Tracer makes contexts of spans and exports finished spans. A nil one does neither.
type Tracer struct {
	o        Options
	bounds   Bounds
	resource resource
	client   http.Client
	queue    chan Span
	failing  bool // of Run's goroutine: the last batch could not be sent

	exported, dropped, failed atomic.Int64
}

// resource describes this process in every export.
type resource struct {
	attributes []Attribute
	version    string
}

// New makes a Tracer; nil if the settings name no endpoint. Its owner calls Run.
func New(o Options) *Tracer {
	if o.Endpoint == nil {
		return nil
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Random = cmp.Or(o.Random, rand.Reader)
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	b := bounds.Fill(o.Bounds)
	if o.Client == nil {
		transport := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // it is one
		transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 1, 1
		if o.TLS != nil {
			transport.TLSClientConfig = o.TLS
		}
		o.Client = transport
	}
	return &Tracer{
		o: o, bounds: b, resource: resource{o.Attributes, grapnel.Version}, queue: make(chan Span, b.Queue),
		client: http.Client{Transport: o.Client, Timeout: cmp.Or(o.Timeout, defaultTimeout),
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
	}
}

// Now is the tracer's clock.
func (t *Tracer) Now() time.Time { return t.o.Now() }

// Begin returns the context of a new span. It belongs to the trace of its parent or, if that is not
// valid, to a new one. false: the span is not sampled, and the context is the parent's.
func (t *Tracer) Begin(parent Context) (Context, bool) {
	if t == nil {
		return parent, false
	}
	if parent.Valid() && !t.o.Sampler.Always {
		return t.Next(parent)
	}
	is := parent
	if !is.Valid() {
		is.Trace, is.Flags = [16]byte(t.random(16)), flagRandom
	}
	if !t.o.Sampler.takes(is.Trace) {
		return parent, false
	}
	is.Span, is.Flags = [8]byte(t.random(8)), is.Flags|flagSampled
	return is, true
}

// Next returns the context of another span in the trace of a sampled one. A caller's flag samples
// nothing if the sampler ignores callers.
func (t *Tracer) Next(of Context) (Context, bool) {
	if t == nil || !of.Valid() || !of.Sampled() || t.o.Sampler.Always && !t.o.Sampler.takes(of.Trace) {
		return of, false
	}
	of.Span = [8]byte(t.random(8))
	return of, true
}

// random returns n random bytes, not all of them zero.
func (t *Tracer) random(n int) []byte {
	b := make([]byte, n)
	if _, err := io.ReadFull(t.o.Random, b); err != nil || !slices.ContainsFunc(b, func(c byte) bool { return c != 0 }) {
		b[n-1] = 1 // an id of zeros is invalid; crypto/rand never fails
	}
	return b
}

// takes says whether a trace is sampled. All processes with one ratio take the same traces.
func (s Sampler) takes(id [16]byte) bool {
	return s.Ratio >= 1 || binary.BigEndian.Uint64(id[8:])>>1 < uint64(s.Ratio*math.MaxInt64)
}

// Record queues a finished span for export. It never blocks.
func (t *Tracer) Record(s Span) {
	if t == nil {
		return
	}
	select {
	case t.queue <- s:
	default:
		t.dropped.Add(1)
	}
}

// gather waits for a span, and then for a full batch or the end of the delay.
func (t *Tracer) gather(ctx context.Context) []Span {
	var batch []Span
	select {
	case s := <-t.queue:
		batch = append(batch, s)
	case <-ctx.Done():
		return nil
	}
	timer := time.NewTimer(t.bounds.Delay)
	defer timer.Stop()
	for len(batch) < t.bounds.Batch {
		select {
		case s := <-t.queue:
			batch = append(batch, s)
		case <-timer.C:
			return batch
		case <-ctx.Done():
			return batch
		}
	}
	return batch
}

// rest takes a batch of those that are queued.
func (t *Tracer) rest() (batch []Span) {
	for len(batch) < t.bounds.Batch {
		select {
		case s := <-t.queue:
			batch = append(batch, s)
		default:
			return batch
		}
	}
	return batch
}
