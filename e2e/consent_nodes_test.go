//go:build linux && prove

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// address is a receiver whose deliveries wait for its consent.
type address struct {
	url string

	mu       sync.Mutex
	answers  func(w http.ResponseWriter, node, token string) // nil: it does not consent
	agreed   bool                                            // it has consented to a node that lived to hear it
	asked    []string                                        // number of each challenge
	got      []float64
	tooEarly int
}

// listens starts the receiver. Addresses with different hosts have different budgets of challenges.
func listens(t *testing.T, host string) *address {
	a := &address{}
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var in struct {
			Type string
			Data struct {
				Challenge string
				N         float64
			}
		}
		_ = json.Unmarshal(body, &in)
		a.mu.Lock()
		if in.Type != "webhook_endpoint.consent" {
			if !a.agreed {
				a.tooEarly++
			}
			a.got = append(a.got, in.Data.N)
			a.mu.Unlock()
			return
		}
		a.asked = append(a.asked, r.Header.Get("grapnel-attempt"))
		answers := a.answers
		a.mu.Unlock()
		if answers != nil {
			answers(w, r.Header.Get("grapnel-node"), in.Data.Challenge)
		}
	}))
	_ = s.Listener.Close()
	var err error
	if s.Listener, err = net.Listen("tcp", host+":0"); err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(s.Close)
	a.url = s.URL
	return a
}

// answer sets what the receiver does with challenges.
func (a *address) answer(how func(w http.ResponseWriter, node, token string)) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers = how
}

// agrees answers with the token.
func (a *address) agrees(w http.ResponseWriter, _, token string) {
	a.mu.Lock()
	a.agreed = true
	a.mu.Unlock()
	_, _ = io.WriteString(w, token)
}

func (a *address) challenges() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked)
}

// consents returns once the receiver has n deliveries, which have to be the events 0, 1, … in
// order, and fails the test if one came before its consent.
func (a *address) consents(t *testing.T, n int) {
	t.Helper()
	eventually(t, 30*time.Second, "all events have arrived", func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		return len(a.got) >= n
	})
	a.mu.Lock()
	defer a.mu.Unlock()
	next := 0.0
	for _, m := range a.got {
		if m > next {
			t.Fatalf("got %v", a.got)
		}
		next = max(next, m+1)
	}
	if a.tooEarly > 0 || next != float64(n) {
		t.Errorf("%d deliveries came before consent, and %v of %d in all", a.tooEarly, next, n)
	}
}

// consenting is what a test reads of an endpoint.
type consenting struct {
	ID, Status string
	Consent    *struct {
		Asked int
		Given *time.Time `json:"given_at"`
	}
}

// TestConsentOnTwoNodes: with two nodes on one database no delivery reaches an address before it
// has answered a challenge, whichever node it is created at, asked by and owned by. Nodes that ask
// at the same moment send no challenge twice. The other node goes on after one is killed between a
// challenge and its answer. The budgets count the challenges of both.
func TestConsentOnTwoNodes(t *testing.T) {
	beside(t, heavy)
	db := pgtest.For(t, pgtest.Options{})
	if _, err := db.Create(t.Context(), "grapnel"); err != nil {
		t.Fatal(err)
	}
	const perHost = 12
	nodes := make([]*child, 2)
	for i := range nodes {
		nodes[i] = newChild(t, program{flag: []string{"--store", db.URL("grapnel"), "--lease", leaseHere.String(),
			"--bounds", fmt.Sprintf("consent.every=50ms,consent.first=200ms,consent.longest=1s,consent.tries=100,consent.pertenant=1000,consent.perhost=%d", perHost)}},
			t.TempDir())
		nodes[i].start()
		nodes[i].ready(30 * time.Second)
	}
	c := &cluster{trial: &trial{t: t, child: nodes[0]}, nodes: nodes}
	c.settled(nil)
	nodes[0].must(http.StatusOK, http.MethodPatch, "/v1/tenants/default", map[string]any{"consent": "required"}, nil)
	// create makes endpoints at one node, and has each of them get events 0 to 3 from both.
	create := func(at int, a *address, kind string) consenting {
		t.Helper()
		var ep consenting
		nodes[at].must(http.StatusCreated, http.MethodPost, "/v1/endpoints",
			map[string]any{"url": a.url, "event_types": []string{kind}}, &ep)
		if ep.Status != "paused" {
			t.Fatalf("an endpoint that node %d creates is %s", at, ep.Status)
		}
		for n := range 4 {
			nodes[(at+n)%2].must(http.StatusAccepted, http.MethodPost, "/v1/events",
				map[string]any{"type": kind, "key": "k", "data": map[string]any{"n": n}}, nil)
		}
		return ep
	}
	read := func(node *child, id string) (ep consenting) {
		node.must(http.StatusOK, http.MethodGet, "/v1/endpoints/"+id, nil, &ep)
		return ep
	}

	// Nodes that ask: of endpoints that belong to either, created at either.
	for i := range 4 {
		a := listens(t, fmt.Sprintf("127.0.1.%d", 1+i))
		ep := create(i%2, a, fmt.Sprintf("all.%d", i))
		eventually(t, 10*time.Second, "it is asked", func() bool { return len(a.challenges()) > 0 })
		a.answer(a.agrees)
		a.consents(t, 4)
		if i%2 == 0 { // it moves to an address of the other node's choice, which agrees only later
			moved := listens(t, fmt.Sprintf("127.0.2.%d", 1+i))
			nodes[1].must(http.StatusOK, http.MethodPatch, "/v1/endpoints/"+ep.ID, map[string]any{"url": moved.url}, nil)
			for n := range 4 {
				nodes[n%2].must(http.StatusAccepted, http.MethodPost, "/v1/events",
					map[string]any{"type": fmt.Sprintf("all.%d", i), "key": "k", "data": map[string]any{"n": n}}, nil)
			}
			eventually(t, 10*time.Second, "its new address is asked", func() bool { return len(moved.challenges()) > 0 })
			moved.answer(moved.agrees)
			moved.consents(t, 4)
		}
	}

	// Both ask at once, beside the schedule, until the budget of the host is used up.
	victim := listens(t, "127.0.0.5")
	ep := create(0, victim, "victim")
	statuses := map[int]int{}
	for statuses[http.StatusTooManyRequests] < 4 {
		var both sync.WaitGroup
		var answered [2]int
		for i, n := range nodes {
			both.Go(func() {
				answered[i], _, _ = n.call(t.Context(), http.MethodPost, "/v1/endpoints/"+ep.ID+"/consent", nil)
			})
		}
		both.Wait()
		for i, status := range answered {
			if statuses[status]++; status != http.StatusOK && status != http.StatusConflict && status != http.StatusTooManyRequests {
				t.Fatalf("node %d answers %d", i, status)
			}
		}
	}
	eventually(t, 10*time.Second, "what was stored was sent", func() bool {
		return read(nodes[0], ep.ID).Consent.Asked == len(victim.challenges())
	})
	seen := map[string]int{}
	for _, number := range victim.challenges() {
		if seen[number]++; seen[number] > 1 {
			t.Errorf("challenge %s was sent %d times", number, seen[number])
		}
	}
	counts := 1 // memories of the budget: another leader begins anew
	for _, n := range nodes {
		text, err := os.ReadFile(n.log.Name())
		if err != nil {
			t.Fatal(err)
		}
		counts += len(lostLine.FindAll(text, -1))
	}
	if len(seen) < perHost || len(seen) > perHost*counts || len(seen) < statuses[http.StatusOK] {
		t.Errorf("%d challenges to a host that may get %d, counted anew %d times; answers: %v", len(seen), perHost, counts-1, statuses)
	}
	victim.consents(t, 0)

	// The leader, which asks by schedule and counts, is killed before it gets the answer.
	conn, err := pgx.Connect(t.Context(), db.URL("grapnel"))
	if err != nil {
		t.Fatal(err)
	}
	var leads string
	err = conn.QueryRow(t.Context(), "SELECT owner FROM shard WHERE number = 0").Scan(&leads)
	if err = errors.Join(err, conn.Close(t.Context())); err != nil {
		t.Fatal(err)
	}
	dies := 0
	if nodes[1].name() == leads {
		dies = 1
	}
	dead, lives := nodes[dies], nodes[1-dies]
	a := listens(t, "127.0.0.4")
	arrived, hangs := make(chan struct{}, 100), make(chan struct{})
	release := sync.OnceFunc(func() { close(hangs) })
	t.Cleanup(release)
	a.answer(func(w http.ResponseWriter, node, token string) {
		if node == leads {
			arrived <- struct{}{}
			<-hangs
			_, _ = io.WriteString(w, token)
		}
	})
	ep = create(dies, a, "killed")
	<-arrived
	dead.kill()
	release()
	before := len(a.challenges())
	lives.must(http.StatusAccepted, http.MethodPost, "/v1/events",
		map[string]any{"type": "killed", "key": "k", "data": map[string]any{"n": 4}}, nil)
	eventually(t, 30*time.Second, "the other node asks", func() bool { return len(a.challenges()) > before })
	a.answer(a.agrees)
	a.consents(t, 5)
	if is := read(lives, ep.ID); is.Status != "enabled" || is.Consent.Given == nil || is.Consent.Asked != len(a.challenges()) {
		t.Errorf("%+v, %+v, asked %v", is, is.Consent, a.challenges())
	}
}
