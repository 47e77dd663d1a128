package engine

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// movable is a store that knows where tenants are, and refuses what a sealed one's outcomes would
// change.
type movable struct {
	store.Store
	mu    sync.Mutex
	known []grapnel.Tenancy
	extra int64 // versions of the configuration that were made here
}

func (m *movable) tenancy() (grapnel.Tenancy, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.known) == 0 {
		return grapnel.Tenancy{}, false
	}
	return m.known[0], true
}

func (m *movable) Config(ctx context.Context) (store.Config, error) {
	c, err := m.Store.Config(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	c.Version, c.Tenancies = c.Version+m.extra, slices.Clone(m.known)
	return c, err
}

func (m *movable) Version(ctx context.Context) (version, newest int64, err error) {
	version, newest, err = m.Store.Version(ctx)
	m.mu.Lock()
	defer m.mu.Unlock()
	return version + m.extra, newest, err
}

func (m *movable) Changes(ctx context.Context, _ int64) (d store.ConfigChanges, complete bool, err error) {
	d.Version, d.Newest, err = m.Version(ctx)
	return d, false, err
}

func (m *movable) Append(ctx context.Context, b store.Batch) (store.Accepted, error) {
	m.mu.Lock()
	b.Config -= m.extra
	m.mu.Unlock()
	return m.Store.Append(ctx, b)
}

func (m *movable) Record(ctx context.Context, changes []store.Change) ([]store.Changed, error) {
	if t, known := m.tenancy(); known && t.State.Sealed() {
		fenced := make([]store.Changed, len(changes))
		for i := range fenced {
			fenced[i].Fenced, fenced[i].Sealed = true, true
		}
		return fenced, nil
	}
	return m.Store.Record(ctx, changes)
}

func (m *movable) PutTenancy(_ context.Context, t grapnel.Tenancy, _ grapnel.TenancyState, _ *grapnel.AuditEntry) (store.Put, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.extra++
	m.known = []grapnel.Tenancy{t}
	return store.Put{}, nil
}

func (*movable) Import(context.Context, store.Store, grapnel.Tenancy, func(int64)) (store.Imported, error) {
	return store.Imported{}, errors.New("not here")
}
func (*movable) Drop(context.Context, string, string) error      { return errors.New("not here") }
func (*movable) Erase(context.Context, string, int) (int, error) { return 0, nil }

// turn says where the tenant is from now on.
func (b *bench) turn(s grapnel.TenancyState, from grapnel.TenancyState) {
	b.t.Helper()
	_, err := b.engine.PutTenancy(
		b.t.Context(),
		grapnel.Tenancy{Tenant: "default", State: s, Move: "mov_1", Other: "west", Since: time.Now()},
		from,
		nil,
	)
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bench) quiet() bool {
	b.t.Helper()
	quiet, err := b.engine.Quiet(b.t.Context(), "default")
	if err != nil {
		b.t.Fatal(err)
	}
	return quiet
}

// slowAtFirst is the receiver of endpoint a, which answers its first request once wait is closed.
func (b *bench) slowAtFirst() (r *receiver, wait chan struct{}) {
	r, wait = &receiver{}, make(chan struct{})
	r.answer(func(n int, _ http.ResponseWriter, _ *http.Request) {
		if n == 0 {
			<-wait
		}
	})
	b.endpoint("a", r, nil)
	return r, wait
}

func movableBubble(t *testing.T, test func(b *bench)) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, &movable{Store: memory.New()})
		defer b.close()
		test(b)
	})
}

// TestATenantThatClosesFinishesWhatItHasBegun: no attempt starts, those in flight end and are
// recorded, and then the tenant is quiet. When it opens again its deliveries continue in order,
// once.
func TestATenantThatClosesFinishesWhatItHasBegun(t *testing.T) {
	movableBubble(t, func(b *bench) {
		r, wait := b.slowAtFirst()
		ids := b.publish("k", 3)
		synctest.Wait()
		if b.quiet() {
			b.t.Error("a tenant that is open is never quiet")
		}
		b.turn(grapnel.TenancyClosing, grapnel.TenancyHere)
		if b.quiet() {
			b.t.Error("quiet while an attempt is in flight")
		}
		err := b.try(1)
		var is *grapnel.Error
		if !errors.As(err, &is) || is.Code != grapnel.CodeUnavailable || is.RetryAfter == 0 {
			b.t.Errorf("publishing while the tenant closes: %v", err)
		}
		if err := b.engine.Skip(b.t.Context(), store.Everyone(), 3, grapnel.By{}); grapnel.CodeOf(err) != grapnel.CodeUnavailable {
			b.t.Errorf("an order while the tenant closes: %v", err)
		}
		close(wait)
		synctest.Wait()
		if !b.quiet() {
			b.t.Error("not quiet although nothing is in flight")
		}
		time.Sleep(5 * time.Minute)
		if got := r.ids(); !slices.Equal(got, ids[:1]) {
			b.t.Errorf("requests while closed: %v", got)
		}
		if got := b.deliveries("a"); got[0].Status != grapnel.Delivered || got[1].Status != grapnel.Pending {
			b.t.Errorf("what was in flight is %s, what waits is %s", got[0].Status, got[1].Status)
		}
		b.turn(grapnel.TenancyHere, grapnel.TenancyClosing)
		time.Sleep(time.Second)
		if got := r.ids(); !slices.Equal(got, ids) {
			b.t.Errorf("arrived %v, published %v", got, ids)
		}
		if err := b.try(1); err != nil {
			b.t.Errorf("publishing once it is open again: %v", err)
		}
	})
}

// TestOpeningWhileSomethingIsInFlight: who cancels a move while an attempt is in flight, for
// however long, is answered at once, and so is who changes something else. The endpoint goes on
// when the attempt is over, with the newest configuration.
func TestOpeningWhileSomethingIsInFlight(t *testing.T) {
	movableBubble(t, func(b *bench) {
		r := &receiver{}
		r.answer(func(n int, _ http.ResponseWriter, _ *http.Request) {
			if n == 0 {
				time.Sleep(8 * time.Second)
			}
		})
		b.endpoint("a", r, nil)
		ids := b.publish("k", 2)
		synctest.Wait()
		began := time.Now()
		for range 2 {
			b.turn(grapnel.TenancyClosing, grapnel.TenancyHere)
			b.turn(grapnel.TenancyHere, grapnel.TenancyClosing)
		}
		ids = append(ids, b.publish("k", 1)...)
		if took := time.Since(began); took != 0 {
			b.t.Errorf("changes waited %s for an attempt in flight", took)
		}
		time.Sleep(time.Second)
		if got := r.ids(); !slices.Equal(got, ids[:1]) {
			b.t.Errorf("arrived %v while the first attempt is in flight", got)
		}
		time.Sleep(8 * time.Second)
		if got := r.ids(); !slices.Equal(got, ids) {
			b.t.Errorf("arrived %v, published %v", got, ids)
		}
	})
}

// TestASealedTenantIsLeft: an outcome that the store refuses because the tenant is sealed is
// dropped, and its delivery is attempted again once the tenant is open. Callers that ask for a
// moved tenant get the cell where it is.
func TestASealedTenantIsLeft(t *testing.T) {
	movableBubble(t, func(b *bench) {
		r, wait := b.slowAtFirst()
		ids := b.publish("k", 2)
		synctest.Wait()
		b.turn(grapnel.TenancySealed, grapnel.TenancyHere)
		close(wait)
		synctest.Wait()
		if !b.quiet() {
			b.t.Error("not quiet although the store has refused the outcome")
		}
		b.turn(grapnel.TenancyGone, grapnel.TenancySealed)
		err := b.try(1)
		var is *grapnel.Error
		if !errors.As(err, &is) || is.Code != grapnel.CodeMoved || is.Cell != "west" {
			b.t.Errorf("publishing for a tenant that has gone: %v", err)
		}
		b.turn(grapnel.TenancyHere, grapnel.TenancySealed)
		time.Sleep(time.Second)
		if got, want := r.ids(), []string{ids[0], ids[0], ids[1]}; !slices.Equal(got, want) {
			b.t.Errorf("arrived %v, wanted %v", got, want)
		}
	})
}

// TestAStoreWithoutMoving says that it cannot.
func TestAStoreWithoutMoving(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		_, err := b.engine.PutTenancy(t.Context(), grapnel.Tenancy{Tenant: "default", State: grapnel.TenancyClosing}, grapnel.TenancyHere, nil)
		if grapnel.CodeOf(err) != grapnel.CodeInvalid {
			t.Errorf("%v", err)
		}
	})
}
