package relay

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	neturl "net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
	"github.com/grapnelhq/grapnel/outbox"
)

// TestOrder: sixteen producers compete for ten keys. The arriving events of each key are exactly
// its counts, in the order of the commits, once, and no rolled-back event arrives, at every
// isolation level.
func TestOrder(t *testing.T) {
	for _, isolation := range []string{"read committed", "serializable"} {
		t.Run(isolation, func(t *testing.T) {
			url := database(t, server)
			// the producer's own rows make some transactions fail then, and a producer would retry those
			lenient := isolation == "serializable"
			u, err := neturl.Parse(url)
			if err != nil {
				t.Fatal(err)
			}
			if err := server.Exec(t.Context(), "ALTER DATABASE "+u.Path[1:]+" SET default_transaction_isolation = '"+isolation+"'"); err != nil {
				t.Fatal(err)
			}
			p, s := pool(t, url), newSink(t, url)
			_, stop := relaying(t, Options{Engine: s, Store: s.Store})
			_, over := fight(t, p, 16, 10, 60, lenient)
			counted := over()
			until(t, "all is relayed", func() bool { return left(t, p) == 0 })
			stop()
			s.ordered(counted)
		})
	}
}

// TestThroughAPooler: a DSN may lead through a pooler that lends connections for single
// transactions. The relay then polls instead of being woken. No event is lost, doubled or out of
// order, and the log has no error.
func TestThroughAPooler(t *testing.T) {
	url := database(t, server)
	u, err := neturl.Parse(url)
	if err != nil {
		t.Fatal(err)
	}
	pooler, err := server.NewPooler(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := pooler.Close(); err != nil {
			t.Error(err)
		}
	}()
	through := pooler.URL(u.Path[1:])
	if before, err := Install(t.Context(), through, Rights{}); err != nil || before.Version == 0 {
		t.Errorf("installing through it: %+v, %v", before, err)
	}
	p, s := pool(t, through+"&default_query_exec_mode=exec"), newSink(t, through)
	var log bytes.Buffer
	_, stop := relaying(t, Options{Bounds: Bounds{Lately: time.Millisecond, Asleep: 20 * time.Millisecond}, Engine: s, Store: s.Store,
		Log: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	_, over := fight(t, p, 8, 5, 40, false)
	counted := over()
	until(t, "all is relayed", func() bool { return left(t, p) == 0 })
	for counted["quiet"] < 20 { // most of them while the relay sleeps
		counted["quiet"]++
		do(t, p, outbox.Event{Type: "a.b", Key: "quiet", Data: fmt.Append(nil, counted["quiet"])})
		until(t, "what came while it slept is relayed", func() bool { return left(t, p) == 0 })
		if found, err := Inspect(t.Context(), through); err != nil || found.Asleep {
			t.Errorf("producers are asked to wake it: %+v, %v", found, err)
		}
	}
	stop()
	s.ordered(counted)
	if log.Len() > 0 {
		t.Errorf("logged %s", log.String())
	}
}

// TestTwoRelays: two relays work on one outbox at the same moment without a lock between them, and
// do no harm.
func TestTwoRelays(t *testing.T) {
	url := database(t, server)
	p, s := pool(t, url), newSink(t, url)
	for range 3 {
		relaying(t, Options{Engine: s, Store: s.Store, open: func(ctx context.Context, dsn string) (box, error) {
			b, err := open(ctx, dsn, bounds.Fill(Bounds{}))
			return rude{b}, err
		}})
	}
	_, over := fight(t, p, 8, 5, 60, false)
	counted := over()
	until(t, "all is relayed", func() bool { return left(t, p) == 0 })
	s.ordered(counted)
}

// rude looks without keeping the lock, like a relay whose transaction was ended unnoticed.
type rude struct{ box }

func (r rude) look(ctx context.Context, most int64) (page, error) {
	p, err := r.box.look(ctx, most)
	if err == nil {
		err = r.box.leave(ctx)
	}
	return p, err
}

func (r rude) leave(context.Context) error { return nil }

func (r rude) take(ctx context.Context, p page) error {
	b := r.box.(*pgBox)
	var err error
	if b.tx, err = b.conn.Begin(ctx); err != nil {
		return err
	}
	return b.take(ctx, p)
}

var errFault = errors.New("a fault")

// faulty fails before or after the call it wraps.
type faulty struct {
	box
	strikes func() bool
}

func (f faulty) around(do func() error) error {
	if f.strikes() {
		return errFault
	}
	err := do()
	if err == nil && f.strikes() {
		err = errFault
	}
	return err
}

func (f faulty) look(ctx context.Context, most int64) (p page, err error) {
	err = f.around(func() error { p, err = f.box.look(ctx, most); return err })
	return p, err
}

func (f faulty) take(ctx context.Context, p page) error {
	return f.around(func() error { return f.box.take(ctx, p) })
}

func (f faulty) leave(ctx context.Context) error {
	return f.around(func() error { return f.box.leave(ctx) })
}

// TestFaults: calls fail before or after their effect, and the relay is killed now and then. Each
// event arrives once and in order. Pages are short, so that there are enough calls to fail, however
// fast the producers are beside the relay.
func TestFaults(t *testing.T) {
	faults(t, bounds.Fill(Bounds{Rows: 50}), 200, 100*time.Millisecond, 1000)
}

// TestFaultsWithinTinyBounds is the same with the smallest bounds.
func TestFaultsWithinTinyBounds(t *testing.T) {
	seeds, each := uint64(2), 25
	if os.Getenv("GRAPNEL_SOAK") != "" {
		seeds, each = 20, 100
	}
	for seed := range seeds {
		t.Run(
			fmt.Sprint("seed=", seed+1),
			func(t *testing.T) { faults(t, bounds.Fill(bounds.Tiny[Bounds](seed+1)), each, 20*time.Millisecond, 10) },
		)
	}
}

func faults(t *testing.T, within Bounds, each int, killEvery time.Duration, mostKills int) {
	url := database(t, server)
	p, s := pool(t, url), newSink(t, url)
	var mu sync.Mutex
	random, faults := rand.New(rand.NewPCG(6, 6)), 0
	strikes := func() bool {
		mu.Lock()
		defer mu.Unlock()
		if random.IntN(6) > 0 {
			return false
		}
		faults++
		return true
	}
	s.injure = func([]store.Incoming) (before, after error) {
		switch {
		case strikes():
			return errFault, nil
		case strikes():
			return nil, errFault // it succeeded, but the answer is lost
		}
		return nil, nil
	}
	o := Options{Bounds: within, Engine: s, Store: s.Store, Random: func() float64 { return 0 }, Log: slog.New(slog.DiscardHandler),
		open: func(ctx context.Context, dsn string) (box, error) {
			b, err := open(ctx, dsn, within)
			return faulty{b, strikes}, err
		}}
	_, stop := relaying(t, o)
	fought, over := fight(t, p, 8, 5, each, false)
	kill := time.NewTicker(killEvery)
	defer kill.Stop()
	kills, before := 0, 0
	until(t, "all is relayed", func() bool {
		select {
		case <-kill.C:
			// A relay is killed only after it has published events: on a slow machine it needs longer
			// than from one kill to the next to begin, and no relay would get further.
			n := len(s.events())
			if kills == mostKills || n == before {
				break
			}
			kills, before = kills+1, n
			stop()
			_, stop = relaying(t, o)
		default:
		}
		select {
		case <-fought:
			return left(t, p) == 0
		default:
			return false
		}
	})
	stop()
	s.ordered(over())
	if faults < 20 || kills == 0 {
		t.Errorf("%d faults and %d kills: this test shows less than it says", faults, kills)
	}
}

// TestProducersDatabase: the database's connections are killed, and it crashes, while producers and
// relay work. Exactly the committed events arrive, once and in order.
func TestProducersDatabase(t *testing.T) {
	own := pgtest.For(t, pgtest.Options{})
	url := database(t, own)
	p, s := pool(t, url), newSink(t, url)
	r, stop := relaying(t, Options{Engine: s, Store: s.Store})
	defer p.Close()
	defer stop()
	_, over := fight(t, p, 8, 5, 300, true)
	for range 4 {
		before := len(s.events())
		until(t, "some more are relayed", func() bool { return len(s.events()) > before+10 })
		// Without the answer to their commit producers do not know its outcome. The table of their counts
		// does.
		if err := own.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'grapnel'`); err != nil {
			t.Error(err)
		}
	}
	if err := own.Crash(t.Context()); err != nil {
		t.Fatal(err)
	}
	counted := over()
	until(t, "all is relayed", func() bool { return left(t, p) == 0 })
	s.ordered(counted)
	if st, _ := r.Status("src_1"); st.State != Relaying || st.Moved == 0 {
		t.Errorf("in the end: %+v", st)
	}
}

// TestSetAside: a row that cannot become an event is stored with the reason, and delays no others.
// An id that another tenant has used is no such fault.
func TestSetAside(t *testing.T) {
	url := database(t, server)
	p, s := pool(t, url), newSink(t, url)
	zoes := &grapnel.Event{ID: "evt_twice", Tenant: "zoe", Type: "a", Data: []byte("zoe's"), AcceptedAt: time.Now()}
	if _, err := s.Publish(t.Context(), []store.Incoming{{Event: zoes}}, nil); err != nil {
		t.Fatal(err)
	}
	s.injure = func(events []store.Incoming) (before, after error) {
		for _, in := range events {
			if string(in.Event.Data) == `"not today"` {
				return grapnel.Errorf(grapnel.CodeInvalid, "not today"), nil
			}
		}
		return nil, nil
	}
	same := event("k", `1`)
	same.ID = "evt_twice"
	do(
		t,
		p,
		event("k", `0`),
		same,
		event("k", `{"big":"`+strings.Repeat("x", 1000)+`"}`),
		event("k", strings.Repeat("[", 65)+strings.Repeat("]", 65)),
	)
	again := same
	again.Data = []byte(`"another"`)
	do(t, p, same, again, event("k", `"not today"`), event("k", `2`))
	// Rows are written without the outbox's function.
	if _, err := p.Exec(t.Context(), `INSERT INTO grapnel.outbox_event VALUES
		(1000000, 1000000, 'a b', NULL, 'evt_1', '{}', NULL, now()), (1000000, 1000001, 'a', NULL, 'evt_2', '{', NULL, now()),
		(1000000, 1000002, 'a', NULL, 'evt_3', '{}', '[]', now()), (1000000, 1000003, 'a', NULL, 'evt 4', '{}', NULL, now()),
		(1000000, 1000004, 'a', NULL, 'evt_5', '\x22ff22', NULL, now())`); err != nil {
		t.Fatal(err)
	}
	do(t, p, event("k", `3`))
	for range 2 {
		// The second relay finds no new rows.
		r, stop := relaying(t, Options{Engine: s, Store: s.Store, MaxEvent: 500})
		until(t, "all is relayed", func() bool { return left(t, p) == 0 })
		stop()
		if st, _ := r.Status("src_1"); st.Aside != 0 && st.Aside != 9 {
			t.Errorf("%d were set aside", st.Aside)
		}
	}
	var got []string
	for _, ev := range s.events() {
		got = append(got, string(ev.Data))
	}
	if want := "zoe's 0 1 2 3"; strings.Join(got, " ") != want {
		t.Errorf("arrived: %s", got)
	}
	why := map[string]int{}
	for _, a := range s.asides() {
		if a.Tenant != "acme" || a.Source != "src_1" || len(a.Checks) != 1 || a.Checks[0].Passed {
			t.Errorf("%+v", a)
			continue
		}
		if other := map[bool]string{true: "evt_twice"}[a.Why == grapnel.AsideConflict]; a.Event != other {
			t.Errorf("%+v is about the event %q, want %q", a, a.Event, other)
		}
		why[string(a.Why)+": "+a.Checks[0].Text]++
	}
	for _, want := range []string{"refused: its data has 1010 bytes and is not stored; at most 500 are allowed",
		"refused: its data is nested more than 64 levels deep",
		"conflict: an event with this id exists and has another type, key or data", "refused: not today",
		"refused: its type is not made of segments of 1 to 64 characters of [A-Za-z0-9_-], joined by dots", "refused: its id is not 1 to 64 characters of [A-Za-z0-9_-]",
		"refused: its metadata are not at most 32 strings of at most 1024 bytes"} {
		if why[want] != 1 {
			t.Errorf("%d were set aside because %s", why[want], want)
		}
	}
	if n := why["refused: its data is not JSON in UTF-8"]; n != 2 {
		t.Errorf("%d were set aside because they are no JSON", n)
	}
}

// TestTimesOfNoEvent: a row whose occurred_at is infinite, or in a year that JSON cannot write, is
// set aside and delays no others. The outbox's function refuses such a time.
func TestTimesOfNoEvent(t *testing.T) {
	url := database(t, server)
	p, s := pool(t, url), newSink(t, url)
	times := []string{"infinity", "-infinity", "10000-01-01 00:00:00Z", "0044-03-15 00:00:00Z BC"}
	for i, at := range times {
		if _, err := p.Exec(t.Context(), `SELECT grapnel.grapnel_publish('a', '1', occurred_at => $1::text::timestamptz)`, at); err == nil ||
			!strings.Contains(err.Error(), "occurred_at") {
			t.Errorf("publishing with occurred_at %s: %v", at, err)
		}
		if _, err := p.Exec(t.Context(), `INSERT INTO grapnel.outbox_event VALUES (1000000, 1000000 + $1, 'a', NULL, 'evt_' || $1::int, '{}', NULL, $2::text::timestamptz)`,
			i, at); err != nil {
			t.Fatal(err)
		}
	}
	do(t, p, event("k", `1`))
	_, stop := relaying(t, Options{Engine: s, Store: s.Store})
	until(t, "all is relayed", func() bool { return left(t, p) == 0 })
	stop()
	if got := s.events(); len(got) != 1 || string(got[0].Data) != "1" {
		t.Errorf("%d events arrived", len(got))
	}
	if got := s.asides(); len(got) != len(times) || got[0].Checks[0].Text != "its occurred_at is not a time in the years 1 to 9999" {
		t.Errorf("set aside: %+v", got)
	}
}

// TestAway: an unreachable database, or one without an outbox, is reported, costs other sources
// nothing, and its password appears nowhere.
func TestAway(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	var mu sync.Mutex
	url, bare := database(t, server), server.URL("postgres")
	p := pool(t, url)
	s := newSink(t, url, "postgres://u:hunter2@127.0.0.1:1/none?connect_timeout=2", bare, "postgres://u:hunter2@127.0.0.1:x/none")
	r, stop := relaying(t, Options{Engine: s, Store: s.Store, Log: slog.New(slog.NewJSONHandler(writer(func(b []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return log.Write(b)
	}), nil))})
	state := func(id string, want State) func() bool {
		return func() bool { st, _ := r.Status(id); return st.State == want }
	}
	for _, id := range []string{"src_2", "src_3", "src_4"} {
		until(t, id+" is away", state(id, Away))
	}
	do(t, p, event("k", `1`))
	until(t, "the other one is relayed", func() bool { return left(t, p) == 0 })
	for id, says := range map[string]string{"src_2": "127.0.0.1", "src_3": "grapnel outbox install",
		"src_4": "postgres://user:password@host"} {
		st, _ := r.Status(id)
		if !strings.Contains(st.Detail, says) || strings.Contains(fmt.Sprintf("%+v", st), "hunter2") {
			t.Errorf("%+v", st)
		}
	}
	// A paused or deleted source has no courier. A source that gets an outbox again gets a courier.
	paused := s.Sources(store.Everyone())
	paused[0].Paused = true
	s.set(paused[0])
	until(t, "nobody relays", func() bool { _, a := r.Status("src_1"); _, b := r.Status("src_2"); return !a && !b })
	do(t, p, event("k", `2`))
	paused[0].Paused = false
	s.set(paused[0])
	until(t, "it is relayed again", func() bool { return left(t, p) == 0 })
	stop()
	mu.Lock()
	defer mu.Unlock()
	if strings.Contains(log.String(), "hunter2") || !strings.Contains(log.String(), "src_2") {
		t.Errorf("the log: %s", log.String())
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(b []byte) (int, error) { return w(b) }

// TestRefusals: while the server refuses events they wait in the outbox, the source reports it, and
// its lag grows.
func TestRefusals(t *testing.T) {
	url := database(t, server)
	p, s := pool(t, url), newSink(t, url)
	var mu sync.Mutex
	full := true
	s.injure = func([]store.Incoming) (before, after error) {
		mu.Lock()
		defer mu.Unlock()
		if full {
			return &grapnel.Error{Code: grapnel.CodeOverloaded, Detail: "too much", RetryAfter: 10 * time.Millisecond}, nil
		}
		return nil, nil
	}
	r, _ := relaying(t, Options{Engine: s, Store: s.Store})
	do(t, p, event("k", `1`))
	until(t, "it is held", func() bool { st, _ := r.Status("src_1"); return st.State == Held && st.Lag > 100*time.Millisecond })
	if left(t, p) == 0 || len(s.events()) > 0 {
		t.Error("it is gone")
	}
	mu.Lock()
	full = false
	mu.Unlock()
	until(t, "it is relayed", func() bool { return left(t, p) == 0 })
	until(t, "all is well", func() bool { st, _ := r.Status("src_1"); return st.State == Relaying && st.Lag == 0 })
}

// overload has a number of publishes refused, because the server is overloaded.
func (s *sink) overload(publishes int64) {
	var tries atomic.Int64
	s.injure = func([]store.Incoming) (before, after error) {
		if tries.Add(1) <= publishes {
			return &grapnel.Error{Code: grapnel.CodeOverloaded, Detail: "too much", RetryAfter: time.Millisecond}, nil
		}
		return nil, nil
	}
}

// TestAPageBeyondTheTenantsQuotaIsRelayedInParts: a page with more events than the tenant may still
// publish on a day is not refused as a whole, day after day.
func TestAPageBeyondTheTenantsQuotaIsRelayedInParts(t *testing.T) {
	url := database(t, server)
	p, s := pool(t, url), newSink(t, url)
	var may atomic.Int64
	may.Store(2)
	s.injure = func(events []store.Incoming) (before, after error) {
		if n := may.Load(); int64(len(events)) > n {
			return &grapnel.Error{Code: grapnel.CodeQuota, Detail: "too much", RetryAfter: time.Millisecond, Quota: &grapnel.Quota{Left: n}}, nil
		}
		may.Add(-int64(len(events)))
		return nil, nil
	}
	do(t, p, event("k", `1`), event("k", `2`), event("k", `3`), event("k", `4`), event("k", `5`))
	r, _ := relaying(t, Options{Engine: s, Store: s.Store})
	until(t, "the rest is held", func() bool { st, _ := r.Status("src_1"); return st.State == Held && len(s.events()) == 2 })
	may.Store(3)
	until(t, "it is relayed", func() bool { return left(t, p) == 0 })
	if n := len(s.events()); n != 5 {
		t.Errorf("%d events", n)
	}
}

// TestRefusalsCountOnce: while the server refuses a page, a row of it that is set aside counts
// once, however often the page is tried.
func TestRefusalsCountOnce(t *testing.T) {
	url := database(t, server)
	p, s := pool(t, url), newSink(t, url)
	s.overload(5)
	do(t, p, event("k", strings.Repeat("[", 65)+strings.Repeat("]", 65)), event("k", `1`))
	r, _ := relaying(t, Options{Engine: s, Store: s.Store})
	until(t, "both are carried", func() bool { st, _ := r.Status("src_1"); return st.Moved == 2 })
	if st, _ := r.Status("src_1"); st.Aside != 1 {
		t.Errorf("one row was set aside, %d are counted", st.Aside)
	}
}

// TestSetAsideNow: a row that waited in the outbox for an hour is, when it is set aside, the newest
// request of the inbox, which lists requests by their ids. While its page is repeated it stays one.
func TestSetAsideNow(t *testing.T) {
	url := database(t, server)
	p, s := pool(t, url), newSink(t, url)
	s.overload(2)
	do(t, p, event("k", strings.Repeat("[", 65)+strings.Repeat("]", 65)), event("k", `1`))
	if _, err := p.Exec(t.Context(), `UPDATE grapnel.outbox_commit SET committed_at = committed_at - interval '1 hour'`); err != nil {
		t.Fatal(err)
	}
	began := grapnel.NewID(grapnel.AsidePrefix, time.Now(), bytes.NewReader(make([]byte, 10)))
	relaying(t, Options{Engine: s, Store: s.Store})
	until(t, "all is relayed", func() bool { return left(t, p) == 0 })
	if got := s.asides(); len(got) != 1 || got[0].ID < began {
		t.Errorf("set aside after %s: %+v", began, got)
	}
}

// TestARefusedRowIsTakenInLater: an event that was set aside because its tenant had too many types
// arrives when its row is inserted again, with the same id, once the limit is raised.
func TestARefusedRowIsTakenInLater(t *testing.T) {
	url := database(t, server)
	p, s := pool(t, url), newSink(t, url)
	var raised atomic.Bool
	s.injure = func([]store.Incoming) (before, after error) {
		if !raised.Load() {
			return grapnel.Errorf(grapnel.CodeTooManyTypes, "too many types"), nil
		}
		return nil, nil
	}
	relaying(t, Options{Engine: s, Store: s.Store})
	row := event("k", `1`)
	row.ID = "evt_1"
	do(t, p, row)
	until(t, "it is set aside", func() bool { return len(s.asides()) == 1 && left(t, p) == 0 })
	raised.Store(true)
	do(t, p, row)
	until(t, "it is relayed", func() bool { return len(s.events()) == 1 })
	was, err := s.Aside(t.Context(), store.Everyone(), s.asides()[0].ID)
	if is := s.events()[0]; err != nil || is.ID != "evt_1" || string(is.Data) != string(was.Body) {
		t.Errorf("set aside was %+v, %v, relayed %+v", was, err, is)
	}
}

// TestFailureIsLoggedWhileHeld: a store that fails is logged, once, also if the server has refused
// events before for a reason that is no fault.
func TestFailureIsLoggedWhileHeld(t *testing.T) {
	url := database(t, server)
	p, s := pool(t, url), newSink(t, url)
	var tries atomic.Int64
	s.injure = func([]store.Incoming) (before, after error) {
		if tries.Add(1) == 1 {
			return &grapnel.Error{Code: grapnel.CodeOverloaded, Detail: "too much", RetryAfter: time.Millisecond}, nil
		}
		return errFault, nil
	}
	var log bytes.Buffer
	_, stop := relaying(t, Options{Engine: s, Store: s.Store, Random: func() float64 { return 0 },
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	do(t, p, event("k", `1`))
	until(t, "it has tried again", func() bool { return tries.Load() > 4 })
	stop()
	if n := strings.Count(log.String(), "storing events of a source failed; retrying"); n != 1 {
		t.Errorf("logged %d times: %s", n, log.String())
	}
}

// TestSleep: a sleeping relay is woken; one that is awake asks for no NOTIFY.
func TestSleep(t *testing.T) {
	t.Parallel()
	url := database(t, server)
	p, s := pool(t, url), newSink(t, url)
	sleeps := func() (is bool) {
		if err := p.QueryRow(t.Context(), `SELECT last_value > 0 FROM grapnel.outbox_sleeper`).Scan(&is); err != nil {
			t.Fatal(err)
		}
		return is
	}
	// The relay falls asleep when the test's clock says so, and an event that did not wake it would
	// wait for an hour.
	var clock atomic.Int64
	r, _ := relaying(t, Options{Engine: s, Store: s.Store, Bounds: Bounds{Asleep: time.Hour, Ask: time.Hour},
		Now: func() time.Time { return time.Unix(clock.Load(), 0) }})
	for n := range 5 {
		until(t, "it sleeps", sleeps)
		do(t, p, event("k", fmt.Sprint(n)))
		until(t, "it is woken", func() bool { return len(s.events()) == n+1 })
		until(t, "the event is removed", func() bool { return left(t, p) == 0 })
		if sleeps() {
			t.Error("it asks to be woken although it is awake")
		}
		// After the commit the relay reads the clock: set further before that, the last event would
		// stay recent.
		until(t, "the relay has noted the event", func() bool { st, _ := r.Status("src_1"); return st.Moved == int64(n+1) })
		clock.Add(int64(bounds.Fill(Bounds{}).Lately/time.Second) + 1)
	}
}

// watched counts the times at which a relay went to sleep, which is when it asks to be woken.
type watched struct {
	box
	*counted
	carries *atomic.Bool // it has moved events
}

// counted is what several relays have done.
type counted struct {
	sleeps, late, idle atomic.Int64 // late: sleeps of a relay that carries; idle: its looks that found nothing
}

func (w watched) look(ctx context.Context, most int64) (page, error) {
	p, err := w.box.look(ctx, most)
	if err == nil && !p.elsewhere && len(p.rows) == 0 && w.carries.Load() {
		w.idle.Add(1)
	}
	return p, err
}

func (w watched) take(ctx context.Context, p page) error {
	err := w.box.take(ctx, p)
	w.carries.Store(true)
	return err
}

func (w watched) sleep(ctx context.Context, d time.Duration) error {
	w.sleeps.Add(1)
	if w.carries.Load() {
		w.late.Add(1)
	}
	return w.box.sleep(ctx, d)
}

// TestTakeOver: when one of two relays stops the other continues. Neither leaves the request to
// wake the other in place while there is work.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	url := database(t, server)
	p, s := pool(t, url), newSink(t, url)
	var did counted
	relay := func() (*Runner, func()) {
		var carries atomic.Bool
		// By a clock that stands still the last event is always recent.
		return relaying(t, Options{Engine: s, Store: s.Store, Now: func() time.Time { return time.Unix(1e9, 0) },
			open: func(ctx context.Context, dsn string) (box, error) {
				b, err := open(ctx, dsn, bounds.Fill(Bounds{}))
				return watched{b, &did, &carries}, err
			}})
	}
	_, stopOne := relay()
	two, _ := relay()
	published := 0
	publish := func(n int) {
		t.Helper()
		for range n {
			published++
			do(t, p, event("k", fmt.Sprint(published)))
		}
		until(t, "all is relayed", func() bool { return left(t, p) == 0 })
	}
	asked := int64(0)
	for range 20 {
		publish(10)
		was := did.idle.Load()
		until(t, "the relay that moved them finds no more", func() bool { return did.idle.Load() > was+1 })
		var is bool
		if err := p.QueryRow(t.Context(), `SELECT last_value > 0 FROM grapnel.outbox_sleeper`).Scan(&is); err != nil {
			t.Fatal(err)
		}
		if is {
			asked++
		}
	}
	t.Logf("producers were asked to wake a relay after %d of 20 rounds; relays went to sleep %d times", asked, did.sleeps.Load())
	// Moving events withdraws every request to be woken, so each round of requests follows another
	// sleep.
	if n := did.sleeps.Load(); asked > n {
		t.Errorf("relays went to sleep %d times; producers were asked to wake one after %d rounds", n, asked)
	}
	if n := did.late.Load(); n > 0 {
		t.Errorf("a relay slept %d times although its last event was recent", n)
	}
	stopOne()
	publish(10)
	until(t, "the other one relays", func() bool { st, _ := two.Status("src_1"); return !st.MovedAt.IsZero() && st.State == Relaying })
	s.ordered(map[string]int{"k": published})
}

// TestLateCommit: a transaction that drew its number long before its commit is not overlooked,
// whatever was relayed meanwhile. Relayed numbers are skipped once no transaction can have drawn a
// lower one.
func TestLateCommit(t *testing.T) {
	url := database(t, server)
	p := pool(t, url)
	opened, err := open(t.Context(), url, bounds.Fill(Bounds{}))
	if err != nil {
		t.Fatal(err)
	}
	b := opened.(*pgBox)
	defer b.Close()
	look := func() (found []string) {
		t.Helper()
		got, err := b.look(t.Context(), 1000)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range got.rows {
			found = append(found, string(r.data))
		}
		if err := b.take(t.Context(), got); err != nil {
			t.Fatal(err)
		}
		return found
	}
	late, err := p.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := outbox.PublishPgx(t.Context(), late, event("late", `0`)); err != nil {
		t.Fatal(err)
	}
	if _, err := late.Exec(t.Context(), `SET CONSTRAINTS ALL IMMEDIATE`); err != nil {
		t.Fatal(err)
	}
	for n := 1; n <= 5; n++ {
		do(t, p, event(fmt.Sprint("k", n), fmt.Sprint(n)))
		if got := look(); len(got) != 1 || got[0] != fmt.Sprint(n) {
			t.Fatalf("found %v, not %d", got, n)
		}
	}
	if b.low != 0 {
		t.Errorf("it passes over %d although number 1 is not committed", b.low)
	}
	// Events published after the number was drawn are a separate batch.
	if err := errors.Join(outbox.PublishPgx(t.Context(), late, event("late", `6`)), late.Commit(t.Context())); err != nil {
		t.Fatal(err)
	}
	if got := look(); strings.Join(got, " ") != "0 6" {
		t.Fatalf("of the late one came %v", got)
	}
	// A long-running reader delays the database's cleaning, which skipping is for, but it does not
	// delay the skipping.
	reader, err := p.BeginTx(t.Context(), pgx.TxOptions{IsoLevel: pgx.RepeatableRead})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Rollback(context.Background()) }()
	if _, err := reader.Exec(t.Context(), `SELECT count(*) FROM grapnel.outbox_commit`); err != nil {
		t.Fatal(err)
	}
	for n := 7; n < 12; n++ {
		do(t, p, event("k", fmt.Sprint(n)))
		look()
	}
	if b.low < 7 {
		t.Errorf("it passes over no more than %d", b.low)
	}
}

// TestPages: a transaction larger than a page, in rows and in bytes, arrives whole and in order.
func TestPages(t *testing.T) {
	url := database(t, server)
	p, s := pool(t, url), newSink(t, url)
	// A transaction whose events were all deleted by hand delays no others.
	if _, err := p.Exec(
		t.Context(),
		`INSERT INTO grapnel.outbox_commit VALUES (nextval('grapnel.outbox_commit_number'), 0, now())`,
	); err != nil {
		t.Fatal(err)
	}
	var events []outbox.Event
	pageRows := bounds.Fill(Bounds{}).Rows
	for n := range 2*pageRows + 10 {
		data := fmt.Sprint(n + 1)
		if n > 2*pageRows-15 {
			data = strings.Repeat(" ", 200<<10) + data // JSON may have space around it
		}
		events = append(events, event("k", data))
	}
	do(t, p, events...)
	relaying(t, Options{Engine: s, Store: s.Store})
	until(t, "all is relayed", func() bool { return left(t, p) == 0 })
	got := s.events()
	if len(got) != len(events) {
		t.Fatalf("%d of %d arrived", len(got), len(events))
	}
	for i := range got {
		if !bytes.Equal(got[i].Data, events[i].Data) {
			t.Fatalf("event %d is another one", i)
		}
	}
}

// TestRights: a role that may only publish can publish and read nothing; one that may only relay
// can relay. Installing again changes nothing, and a newer outbox is not changed.
func TestRights(t *testing.T) {
	t.Parallel()
	url := database(t, server)
	// Roles belong to the whole server.
	role := func(does string) string { return fmt.Sprint(does, databases.Load()) }
	publishes, relays, reads := role("publishes"), role("relays"), role("reads")
	as := func(name string) string { return strings.Replace(url, "user=postgres", "user="+name, 1) }
	p, s := pool(t, url), newSink(t, as(relays))
	for _, sql := range []string{`CREATE ROLE ` + publishes + ` LOGIN`, `CREATE ROLE ` + relays + ` LOGIN`} {
		if _, err := p.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	do(t, p, event("k", `1`))
	before, err := Install(t.Context(), url, Rights{Publishers: []string{publishes}, Relays: []string{relays}})
	if err != nil || before.Version != outbox.Version || before.Waiting != 1 {
		t.Fatalf("%+v, %v", before, err)
	}
	mortal := pool(t, as(publishes))
	do(t, mortal, event("k", `2`))
	var n int
	if err := mortal.QueryRow(t.Context(), `SELECT count(*) FROM grapnel.outbox_event`).Scan(&n); err == nil {
		t.Error("whoever may publish may read")
	}
	_, stop := relaying(t, Options{Engine: s, Store: s.Store})
	until(t, "all is relayed", func() bool { return left(t, p) == 0 })
	if len(s.events()) != 2 {
		t.Errorf("%d arrived", len(s.events()))
	}
	// A relay that may not delete reports it, and does not retry in a tight loop.
	for _, sql := range []string{`CREATE ROLE ` + reads + ` LOGIN`, `GRANT pg_read_all_data TO ` + reads,
		`GRANT UPDATE ON grapnel.outbox_sleeper TO ` + reads} {
		if _, err := p.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	var tries atomic.Int64
	stop()
	do(t, p, event("k", `3`))
	source := s.Sources(store.Everyone())[0]
	source.Outbox = &grapnel.Outbox{DSN: grapnel.Secret{Text: as(reads)}}
	s.set(source)
	r, _ := relaying(t, Options{Engine: s, Store: s.Store, Random: func() float64 { tries.Add(1); return 1 }})
	until(t, "it is tried for some time", func() bool { return tries.Load() >= 4 })
	if st, _ := r.Status(
		"src_1",
	); st.State != Away || !strings.Contains(st.Detail, "permission denied") ||
		!strings.Contains(st.Detail, "--relay") {
		t.Errorf("%+v", st)
	}
	if len(s.events()) != 3 {
		t.Errorf("%d arrived", len(s.events()))
	}
	if _, err := p.Exec(t.Context(), `UPDATE grapnel.outbox_installation SET version = $1`, outbox.Version+1); err != nil {
		t.Fatal(err)
	}
	if _, err := Install(t.Context(), url, Rights{}); grapnel.CodeOf(err) != grapnel.CodeConflict {
		t.Errorf("a newer one is overwritten: %v", err)
	}
	if _, err := p.Exec(
		t.Context(),
		outbox.InstallSQL(),
		pgx.QueryExecModeSimpleProtocol,
	); err == nil ||
		!strings.Contains(err.Error(), "newer") {
		t.Errorf("the SQL by itself overwrites a newer one: %v", err)
	}
}

func TestUninstall(t *testing.T) {
	url := database(t, server)
	p := pool(t, url)
	do(t, p, event("k", `1`), event("k", `2`))
	if _, err := Uninstall(t.Context(), url, 1); grapnel.CodeOf(err) != grapnel.CodeConflict {
		t.Errorf("more than expected is removed: %v", err)
	}
	if was, err := Uninstall(t.Context(), url, 2); err != nil || was.Waiting != 2 {
		t.Errorf("%+v, %v", was, err)
	}
	if is, err := Inspect(t.Context(), url); err != nil || is.Version != 0 {
		t.Errorf("%+v, %v", is, err)
	}
	if _, err := Install(t.Context(), url, Rights{}); err != nil {
		t.Error(err)
	}
}
