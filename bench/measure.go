//go:build linux

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/backoff"
)

const relayName = "relay"

// measure runs everything and prints the report.
func measure(ctx context.Context, s settings, out io.Writer) (err error) {
	if s.publishers < 1 || s.workers < 1 || s.endpoints < 1 || s.rounds < 1 || s.rate < 1 || s.size < 100 {
		return errors.New("publishers, workers, endpoints, rounds and rate are at least 1, size at least 100")
	}
	dir, d, remove, err := s.prepare("bench", false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	b := &bench{settings: s, out: out}
	if s.postgres && (s.silent || s.sealed || s.together) {
		return errors.New("-silent, -sealed and -together compare servers on SQLite; they do not go with -postgres")
	}
	if s.sealed {
		key := filepath.Join(dir, "master.key")
		if err := os.WriteFile(key, []byte(rand.Text()+rand.Text()), 0o600); err != nil {
			return err
		}
		s.flags = append(s.flags, "--master-key", "file:"+key)
	}
	if s.ingest {
		if s.silent || s.sealed || s.together || s.batch > 1 || s.endpoints > 1 {
			return errors.New("-ingest does not go with -silent, -sealed, -batch and -endpoints")
		}
		b.endpoints = 0
		if b.secret, err = newSecret(); err != nil {
			return err
		}
	}
	if s.postgres {
		if b.database, err = startDatabase(ctx, dir); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, b.database.server.Stop()) }()
		s.flags = append(s.flags, "--store", b.database.url)
	}
	at, stop, err := b.startClients()
	if err != nil {
		return err
	}
	defer stop()
	var urls []string
	for n := range b.endpoints {
		urls = append(urls, fmt.Sprintf("http://%s/%d", at, n))
	}

	first, end, err := b.other(ctx, s, dir, urls)
	if err != nil {
		return err
	}
	defer end()
	if s.sealed {
		s.flags = append(s.flags, "--encrypt-payloads")
	}
	g, err := startServer(ctx, s, dir, urls)
	if err != nil {
		return err
	}
	defer g.Stop()
	second := &side{name: "Grapnel", addr: g.Addr, cpu: g.cpu, disk: g.written}
	if s.ingest {
		if second.path, err = g.source(ctx, b.secret); err != nil {
			return err
		}
	}
	b.sides = []*side{first, second}

	b.opening(d)
	idle, err := g.memory()
	if err != nil {
		return err
	}
	if err := b.throughput(ctx); err != nil {
		return fmt.Errorf("%w\n%s", err, g.Words())
	}
	if err := b.afterBurst(ctx, g, idle); err != nil {
		return err
	}
	if s.ingest { // nothing is delivered
		return nil
	}
	if err := b.latency(ctx); err != nil {
		return fmt.Errorf("%w\n%s", err, g.Words())
	}
	return nil
}

// startClients starts the publisher and the sink, and returns the sink's address.
func (b *bench) startClients() (at string, stop func(), err error) {
	if b.sink, err = startRole("sink"); err != nil {
		return "", nil, err
	}
	if b.publisher, err = startRole("publisher"); err != nil {
		b.sink.stop()
		return "", nil, err
	}
	stop = func() { b.publisher.stop(); b.sink.stop() }
	if err = b.sink.ask("listen", b.pause, &at); err != nil {
		stop()
	}
	return at, stop, err
}

// other starts the side that Grapnel is compared with.
func (b *bench) other(ctx context.Context, s settings, dir string, urls []string) (*side, func(), error) {
	if s.ingest {
		return startSide(handlerName, "/in/bench", b.secret)
	}
	if s.silent || s.sealed || s.together {
		name := "clear"
		if s.together {
			name, s.together = "apart", false
		}
		if s.flags = slices.Clip(s.flags); s.silent {
			name, s.flags = "silent", append(s.flags, "--silent")
		}
		apart := filepath.Join(dir, name)
		if err := os.Mkdir(apart, 0o700); err != nil {
			return nil, nil, err
		}
		g, err := startServer(ctx, s, apart, urls)
		if err != nil {
			return nil, nil, err
		}
		return &side{name: name, addr: g.Addr, cpu: g.cpu, disk: g.written}, g.Stop, nil
	}
	secret, err := newSecret()
	if err != nil {
		return nil, nil, err
	}
	return startSide(relayName, "", relayOrder{Bearer: bearer, URLs: urls, Secret: secret, Workers: s.workers})
}

// startSide starts a role that takes events at a path.
func startSide(name, path string, order any) (*side, func(), error) {
	r, err := startRole(name)
	if err != nil {
		return nil, nil, err
	}
	is := &side{name: name, cpu: r.cpu, path: path}
	if err := r.ask("serve", order, &is.addr); err != nil {
		r.stop()
		return nil, nil, err
	}
	return is, r.stop, nil
}

func (b *bench) order(x *side) order {
	return order{Addr: x.addr, Path: x.path, Secret: b.secret, Bearer: bearer, Connections: b.publishers, Size: b.size, Keys: b.keys,
		Rate: b.rate, For: b.open}
}

// closedOrder is the order of a throughput window: Grapnel gets batches if that is asked.
func (b *bench) closedOrder(x *side) order {
	o := b.order(x)
	if x.name != relayName {
		o.Batch = b.batch
	}
	return o
}

// throughput measures the sides in turn: A B, A B, …
func (b *bench) throughput(ctx context.Context) error {
	var before effort
	if b.database != nil {
		var err error
		if before, err = b.database.effort(ctx, b.sides[1].addr); err != nil {
			return err
		}
	}
	for round := range b.rounds {
		for _, x := range b.sides {
			w, err := b.window1(ctx, x)
			if err != nil {
				return fmt.Errorf("throughput of %s: %w", x.name, err)
			}
			x.windows = append(x.windows, w)
			b.row(round, x, w)
		}
	}
	b.compareThroughput()
	if b.database != nil {
		after, err := b.database.effort(ctx, b.sides[1].addr)
		if err != nil {
			return err
		}
		b.compareEffort(before, after)
	}
	return nil
}

// window1 loads one side, lets it settle, and counts arrivals. Afterwards it waits until the side
// is idle, so that the other side has the machine to itself.
func (b *bench) window1(ctx context.Context, x *side) (w window, err error) {
	var before int64
	if err := b.sink.ask("received", nil, &before); err != nil {
		return w, err
	}
	if err := b.publisher.ask("closed", b.closedOrder(x), nil); err != nil {
		return w, err
	}
	if !backoff.Wait(ctx.Done(), b.warm) {
		return w, ctx.Err()
	}
	from, err := b.mark(x)
	if err != nil {
		return w, err
	}
	if !backoff.Wait(ctx.Done(), b.window) {
		return w, ctx.Err()
	}
	to, err := b.mark(x)
	if err != nil {
		return w, err
	}
	var accepted int64
	if err := b.publisher.ask("stop", nil, &accepted); err != nil {
		return w, err
	}
	seconds := to.at.Sub(from.at).Seconds()
	done := to.received - from.received
	if b.ingest {
		done = to.accepted - from.accepted
	}
	w.delivered, w.accepted = float64(done)/seconds, float64(to.accepted-from.accepted)/seconds
	w.own, w.publisher = (to.own-from.own).Seconds()/seconds, (to.publisher-from.publisher).Seconds()/seconds
	w.sink = (to.sink - from.sink).Seconds() / seconds
	w.database = (to.database - from.database).Seconds() / seconds
	w.others = max(0, (to.all-from.all).Seconds()/seconds-w.own-w.publisher-w.sink-w.database)
	w.written = float64(to.written-from.written) / float64(max(1, done))
	w.backlog = to.accepted*int64(b.endpoints) - (to.received - before)
	expected := accepted * int64(b.endpoints)
	began := time.Now()
	got, err := b.sink.arrived(ctx, 2*time.Minute, before, expected)
	w.drained = time.Since(began)
	if err != nil {
		err = fmt.Errorf("%d of %d deliveries have arrived: %w", got, expected, err)
	}
	return w, err
}

// mark is the state of all counters at one moment.
type mark struct {
	at                   time.Time
	received, accepted   int64
	own, publisher, sink time.Duration
	database             time.Duration
	all                  time.Duration // of the whole machine
	written              int64
}

func (b *bench) mark(x *side) (m mark, err error) {
	m.at = time.Now()
	errs := []error{b.sink.ask("received", nil, &m.received), b.publisher.ask("accepted", nil, &m.accepted)}
	for _, part := range []struct {
		to   *time.Duration
		read func() (time.Duration, error)
	}{{&m.own, x.cpu}, {&m.publisher, b.publisher.cpu}, {&m.sink, b.sink.cpu}, {&m.database, b.database.cpu}, {&m.all, busy}} {
		used, err := part.read()
		*part.to = used
		errs = append(errs, err)
	}
	if x.disk != nil {
		written, err := x.disk()
		m.written = written
		errs = append(errs, err)
	}
	return m, errors.Join(errs...)
}

// afterBurst lets the server rest and compares its memory with that before the load.
func (b *bench) afterBurst(ctx context.Context, g *server, idle memory) error {
	if b.rest == 0 {
		return nil
	}
	if !backoff.Wait(ctx.Done(), b.rest) {
		return ctx.Err()
	}
	now, err := g.memory()
	if err != nil {
		return err
	}
	b.compareMemory(idle, now)
	return nil
}

// latency publishes at a fixed rate to the sides in turn.
func (b *bench) latency(ctx context.Context) error {
	for range b.rounds {
		for _, x := range b.sides {
			if err := b.sink.ask("time", nil, nil); err != nil {
				return err
			}
			var before, accepted int64
			if err := b.sink.ask("received", nil, &before); err != nil {
				return err
			}
			from, err := b.used(x)
			if err != nil {
				return err
			}
			if err := b.publisher.ask("open", b.order(x), &accepted); err != nil {
				return fmt.Errorf("latency of %s: %w", x.name, err)
			}
			if _, err := b.sink.arrived(ctx, 30*time.Second, before, accepted*int64(b.endpoints)); err != nil {
				return fmt.Errorf("latency of %s: %w", x.name, err)
			}
			to, err := b.used(x)
			if err != nil {
				return err
			}
			x.steady = append(x.steady, 1000*(to-from).Seconds()/float64(max(1, accepted)))
			var took []time.Duration
			if err := b.sink.ask("times", nil, &took); err != nil {
				return err
			}
			slices.Sort(took)
			x.took = append(x.took, took)
		}
	}
	b.compareLatency()
	return nil
}
