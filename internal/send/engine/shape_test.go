package engine

import (
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// bodies keeps what a receiver got, and answers 503 while it is away.
type bodies struct {
	mu   sync.Mutex
	got  []string
	away bool
}

func (b *bodies) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.got = append(b.got, r.Header.Get("webhook-id")+" "+string(body))
	if b.away {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
}

func (b *bodies) set(away bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.away = away
}

func (b *bodies) seen() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.got)
}

// reshape changes an endpoint's transform as a patch does.
func (b *bench) reshape(id, transform string) {
	time.Sleep(time.Millisecond)
	b.update(id, func(ep *grapnel.Endpoint) {
		was := ep.Shape()
		ep.Transform = transform
		ep.Reshaped(was, time.Now())
	})
}

// TestShapeIsFrozenAtAcceptance: every attempt of a delivery and every replay of it has the body of
// its acceptance, however often the transform is changed, and across a restart; events accepted
// later have the new one.
func TestShapeIsFrozenAtAcceptance(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		r := &bodies{away: true}
		b.endpoint("ep_a", r, func(ep *grapnel.Endpoint) { ep.Transform = `{first: .id}` })
		b.publish("k", 2)
		synctest.Wait()
		b.reshape("ep_a", `{second: .id}`)
		b.publish("k", 1)
		time.Sleep(10 * time.Second) // the retry after 5 s
		b.halt()
		b.start(core.Options{})
		b.reshape("ep_a", "")
		r.set(false)
		time.Sleep(time.Hour)
		first := b.deliveries("ep_a")[0]
		if _, err := b.engine.Retry(t.Context(), store.Everyone(), first.Seq, grapnel.By{}, nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		got := r.seen()
		attempts := len(got)
		got = slices.Compact(got)
		want := []string{`evt_1 {"first":"evt_1"}`, `evt_2 {"first":"evt_2"}`, `evt_3 {"second":"evt_3"}`, `evt_1 {"first":"evt_1"}`}
		if !slices.Equal(got, want) || attempts < 6 {
			t.Errorf("in %d attempts the receiver got\n%s\nwant\n%s", attempts, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// TestWithoutBodyIsADeadLetter: an event for which a transform gives no body is a dead letter at
// once, with the reason, and without an attempt. Its key moves on, others notice nothing, and once
// the transform is mended a retry of it is sent.
func TestWithoutBodyIsADeadLetter(t *testing.T) {
	bubble(t, func(t *testing.T, b *bench) {
		broken, whole, told := &bodies{}, &bodies{}, &bodies{}
		// evt_2 is refused by a type, evt_3 by the work that it makes.
		b.endpoint("ep_b", broken, func(ep *grapnel.Endpoint) {
			ep.Transform = `if .id == "evt_2" then .id + 1 elif .id == "evt_3" then [range(1e9)] else {id} end`
			ep.EventTypes = []string{"test.*"}
		})
		b.endpoint("ep_c", whole, func(ep *grapnel.Endpoint) { ep.EventTypes = []string{"test.*"} })
		b.endpoint("ep_d", told, func(ep *grapnel.Endpoint) { ep.EventTypes = []string{grapnel.EventDeliveryFailed} })
		// Operational events that cannot be shaped either cause no further ones: there would be no end.
		b.endpoint("ep_e", &bodies{}, func(ep *grapnel.Endpoint) {
			ep.EventTypes, ep.Transform = []string{grapnel.EventDeliveryFailed}, `error("never")`
		})
		b.publish("k", 4)
		time.Sleep(time.Minute)
		synctest.Wait()
		ds := b.deliveries("ep_b")
		for i, part := range map[int]string{1: "cannot add", 2: "too much work"} {
			d := ds[i]
			if d.Status != grapnel.Failed || d.ReasonCode != grapnel.ReasonPermanent || !strings.Contains(d.Reason, "transform") ||
				!strings.Contains(d.Reason, part) ||
				d.AttemptsMade != 0 ||
				len(d.Attempts) != 0 {
				t.Errorf("%s is %s, %s: %s, after %d attempts", d.EventID, d.Status, d.ReasonCode, d.Reason, d.AttemptsMade)
			}
		}
		if got, want := broken.seen(), []string{`evt_1 {"id":"evt_1"}`, `evt_4 {"id":"evt_4"}`}; !slices.Equal(got, want) {
			t.Errorf("the receiver got %q, want %q", got, want)
		}
		if got := whole.seen(); len(got) != 4 {
			t.Errorf("another endpoint got %q", got)
		}
		if got := told.seen(); len(got) != 2 || !strings.Contains(got[0], "transform gives no body") {
			t.Errorf("told was %q", got)
		}
		if got := b.deliveries("ep_e"); len(got) != 2 || got[0].Status != grapnel.Failed {
			t.Errorf("of what could not be told became %+v", got)
		}
		b.reshape("ep_b", `{mended: .id}`)
		if _, err := b.engine.Retry(t.Context(), store.Everyone(), ds[1].Seq, grapnel.By{}, nil); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := broken.seen(); got[len(got)-1] != `evt_2 {"mended":"evt_2"}` {
			t.Errorf("after it was mended the receiver got %q", got)
		}
	})
}
