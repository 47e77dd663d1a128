package engine

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// mailbox is a receiver that notes what it gets, and what of that it answers with 200.
type mailbox struct {
	mu        sync.Mutex
	got, took []string
	then      func(n int) (status int) // nil: 200 to all
}

func (m *mailbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m.mu.Lock()
	m.got = append(m.got, string(body))
	n := len(m.got)
	m.mu.Unlock()
	if m.then != nil {
		if status := m.then(n); status != http.StatusOK {
			w.WriteHeader(status)
			return
		}
	}
	m.mu.Lock()
	m.took = append(m.took, string(body))
	m.mu.Unlock()
}

// letters are all that came, and those that were taken.
func (m *mailbox) letters() (got, took []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.got), slices.Clone(m.took)
}

// colours is an engine with two tenants, red and blue, each with one endpoint.
type colours struct {
	*bench
	store     *memory.Store
	red, blue mailbox
}

func newColours(t *testing.T) *colours {
	c := &colours{store: memory.New()}
	c.bench = newBench(t, c.store)
	for tenant, m := range c.mailboxes() {
		c.endpoint("ep_"+tenant, m, func(ep *grapnel.Endpoint) { ep.Tenant = tenant })
	}
	return c
}

func (c *colours) mailboxes() map[string]*mailbox {
	return map[string]*mailbox{"red": &c.red, "blue": &c.blue}
}

// accept publishes n events of a tenant and returns the numbers of their deliveries.
func (c *colours) accept(tenant string, n int) (numbers []int64) {
	c.t.Helper()
	for range n {
		c.count++
		ev := &grapnel.Event{
			ID:     fmt.Sprintf("evt_%s_%d", tenant, c.count),
			Tenant: tenant,
			Type:   "test.event",
			Data: fmt.Appendf(
				nil,
				`{"of":%q,"n":%d}`,
				tenant,
				c.count,
			),
			ContentType: grapnel.JSONType,
			OccurredAt:  time.Now(),
			AcceptedAt:  time.Now(),
		}
		if _, err := c.engine.Publish(context.Background(), []store.Incoming{{Event: ev}}, nil); err != nil {
			c.t.Fatal(err)
		}
		_, ds, err := c.store.Event(context.Background(), store.Everyone(), tenant, ev.ID)
		if err != nil {
			c.t.Fatal(err)
		}
		numbers = append(numbers, ds[0].Seq)
	}
	return numbers
}

// check fails unless every one of these deliveries was taken by its receiver, and nothing went to
// another tenant.
func (c *colours) check(tenant string, numbers []int64) {
	c.t.Helper()
	for name, m := range c.mailboxes() {
		got, _ := m.letters()
		for _, letter := range got {
			if !strings.Contains(letter, fmt.Sprintf(`"of":%q`, name)) {
				c.t.Errorf("%s got %s", name, letter)
			}
		}
	}
	for _, number := range numbers {
		d, err := c.store.Delivery(context.Background(), store.Of(tenant), number)
		if err != nil {
			c.t.Fatal(err)
		}
		if d.Status != grapnel.Delivered {
			c.t.Errorf("%s is %s: %s", d.PlainID(), d.Status, d.Reason)
		}
		_, n, _ := strings.Cut(strings.TrimPrefix(d.EventID, "evt_"), "_")
		_, took := c.mailboxes()[tenant].letters()
		if !slices.ContainsFunc(took, func(letter string) bool { return strings.Contains(letter, `"n":`+n+"}") }) {
			c.t.Errorf("%s is %s and its receiver never took it", d.EventID, d.Status)
		}
	}
}

// TestStoreThatWentBack: a database that lost its last transactions gives their numbers again, here
// to another tenant's events. The events that the node has in its cache are not sent in their
// place.
func TestStoreThatWentBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newColours(t)
		defer c.close()
		then := c.store.Snapshot()
		c.red.then = func(int) int { return http.StatusServiceUnavailable }
		c.accept("red", 5)
		time.Sleep(100 * time.Millisecond)
		c.store.Restore(then)
		numbers := c.accept("blue", 5)
		time.Sleep(10 * time.Minute)
		c.check("blue", numbers)
	})
}

// TestOutcomeOfARowThatIsGone: the outcome of a request is not recorded for the delivery that has
// the row id by then.
func TestOutcomeOfARowThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newColours(t)
		defer c.close()
		then := c.store.Snapshot()
		red, blue := make(chan struct{}), make(chan struct{})
		c.red.then = func(int) int { <-red; return http.StatusOK }
		c.accept("red", 5)
		synctest.Wait() // in flight
		c.store.Restore(then)
		c.blue.then = func(n int) int {
			if n <= 5 {
				<-blue
				return http.StatusServiceUnavailable
			}
			return http.StatusOK
		}
		numbers := c.accept("blue", 5)
		synctest.Wait() // in flight as well, under the same row ids and as the same attempt
		close(red)
		synctest.Wait()
		close(blue)
		time.Sleep(10 * time.Minute)
		c.check("blue", numbers)
	})
}

// TestRowIdsThatComeAgainForTheirOwnEndpoint: the deliveries that get the numbers are of the
// endpoint that has the old ones in memory. All arrive; nothing is taken for something that was
// seen before.
func TestRowIdsThatComeAgainForTheirOwnEndpoint(t *testing.T) {
	for name, lag := range map[string]time.Duration{"waiting": 100 * time.Millisecond, "in flight": 0} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newColours(t)
				defer c.close()
				then := c.store.Snapshot()
				c.red.then = func(n int) int {
					if n <= 5 {
						time.Sleep(50 * time.Millisecond)
						return http.StatusServiceUnavailable
					}
					return http.StatusOK
				}
				c.accept("red", 5)
				time.Sleep(lag)
				c.store.Restore(then)
				numbers := c.accept("red", 5)
				time.Sleep(10 * time.Minute)
				c.check("red", numbers)
				if got, _ := c.red.letters(); len(got) > 16 {
					t.Errorf("%d requests for 5 deliveries and 5 that the store lost", len(got))
				}
			})
		})
	}
}
