package server

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// inCell is a client with the admin key that names a cell.
func (r running) inCell(t *testing.T, cell string) *client.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := client.New(client.Options{Server: r.URL(), Key: testKey, Cell: cell, HTTP: &http.Client{Transport: transport}, Retries: -1})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// answered is the status with which a call was refused; 0: the call succeeded.
func answered(t *testing.T, err error) int {
	t.Helper()
	var refused *client.Error
	if err != nil && !errors.As(err, &refused) {
		t.Fatal(err)
	}
	if err == nil {
		return 0
	}
	return refused.Status
}

// receiving is an endpoint that passes on the ids of events.
func receiving(t *testing.T) (url string, got chan string) {
	got = make(chan string, 1000)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header.Get("webhook-id") }))
	t.Cleanup(s.Close)
	return s.URL, got
}

// One process, two files: each file is a store of its own, one key works for both, and metrics
// carry the name of the cell.
func TestTwoCells(t *testing.T) {
	dir := t.TempDir()
	o := options(dir)
	o.AdminKey = testKey
	o.Cells = []CellOptions{{"west", "sqlite:" + filepath.Join(dir, "west", "grapnel.db")}}
	s := start(t, o)
	url, got := receiving(t)
	c, west := s.client(t, testKey), s.inCell(t, "west")
	if _, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{URL: url}); err != nil {
		t.Fatal(err)
	}
	p, err := c.Publish(t.Context(), client.NewEvent{Type: "a.b", Data: []byte("1")})
	if err != nil {
		t.Fatal(err)
	}
	if id := <-got; id != p.ID {
		t.Errorf("%s has arrived, not %s", id, p.ID)
	}
	for pending := int64(1); pending > 0; { // the event arrives before its outcome is stored, and an overview makes several reads
		o, err := c.Overview(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		pending = o.Pending.All
	}

	// No row of a tenant at home appears in another cell.
	if _, err := west.CreateEndpoint(t.Context(), client.NewEndpoint{URL: url}); answered(t, err) != http.StatusMisdirectedRequest {
		t.Errorf("an endpoint in the other cell: %v", err)
	}
	if _, err := west.CreateKey(
		t.Context(),
		client.NewKey{Name: "k", Scopes: []grapnel.Scope{grapnel.ScopeRead}},
	); answered(
		t,
		err,
	) != http.StatusMisdirectedRequest {
		t.Errorf("a key of no tenant in the other cell: %v", err)
	}
	for cell, want := range map[string]int{"": 1, "home": 1, "west": 0} {
		if l, err := s.inCell(t, cell).Endpoints(t.Context(), client.EndpointFilter{}); err != nil || len(l.Data) != want {
			t.Errorf("in cell %q there are %+v, %v", cell, l, err)
		}
		if o, err := s.inCell(t, cell).Overview(t.Context(), ""); err != nil || o.Endpoints.All != want ||
			o.Totals.Delivered+o.Pending.All != int64(want) {
			t.Errorf("in cell %q the overview is %+v, %v", cell, o, err)
		}
	}
	if _, err := s.inCell(t, "mars").Endpoints(t.Context(), client.EndpointFilter{}); answered(t, err) != http.StatusBadRequest {
		t.Errorf("a cell that there is not: %v", err)
	}
	if l, err := c.Tenants(t.Context(), 0, ""); err != nil || len(l.Data) != 1 || l.Data[0].Cell != "home" || l.Data[0].Tenant != "default" {
		t.Errorf("tenants are %+v, %v", l, err)
	}
	if _, err := c.MoveTenant(
		t.Context(),
		"default",
		"west",
		"",
	); answered(t, err) != http.StatusUnprocessableEntity ||
		!strings.Contains(err.Error(), "PostgreSQL") {
		t.Errorf("moving between files: %v", err)
	}

	m := member{running: s}
	for name, want := range map[string]float64{`grapnel_events_accepted_total{cell="home",source_kind="api"}`: 1,
		`grapnel_events_accepted_total{cell="west",source_kind="api"}`: 0,
		`grapnel_store_full{cell="west"}`:                              0, `grapnel_egress_requests_fresh_total`: 1,
		`grapnel_replays{cell="west",status="running"}`: 0} {
		if n := m.measured(t, name); n != want {
			t.Errorf("%s is %v, want %v", name, n, want)
		}
	}
	if err := s.stop(); err != nil {
		t.Fatal(err)
	}
	// Both stores were closed, and the second one has no admin key file of its own.
	if left, err := os.ReadDir(filepath.Join(dir, "west")); err != nil || len(left) == 0 {
		t.Errorf("%v, %v", left, err)
	}
	o.Store, o.Cells = o.Cells[0].Store, nil
	alone := start(t, o)
	if opens(t, alone, "another key, of nobody") || !opens(t, alone, testKey) {
		t.Error("the other store by itself should be as any other")
	}
}

// Errors in the options of cells are reported before any file is touched.
func TestCellsThatCannotBe(t *testing.T) {
	for what, tc := range map[string]struct {
		cells []CellOptions
		want  string
	}{
		"a name that is none": {[]CellOptions{{"West", "sqlite:w.db"}}, `"West" is not a name`},
		"no name":             {[]CellOptions{{"", "sqlite:w.db"}}, "is not a name"},
		"a long name":         {[]CellOptions{{strings.Repeat("x", 33), "sqlite:w.db"}}, "is not a name"},
		"home":                {[]CellOptions{{"home", "sqlite:w.db"}}, "home is the cell of --store"},
		"two of a name":       {[]CellOptions{{"west", "sqlite:w.db"}, {"west", "sqlite:x.db"}}, "the name west is given twice"},
		"two of a file":       {[]CellOptions{{"west", "sqlite:w.db"}, {"east", "sqlite:./w.db"}}, "west and east are the same"},
		"home's file":         {[]CellOptions{{"west", "sqlite:data/grapnel.db"}}, "home and west are the same"},
		"no store":            {[]CellOptions{{"west", ""}}, "--cell west"},
		"a wrong URL":         {[]CellOptions{{"west", "postgres://a:hunter2@h:port/db"}}, "--cell west"},
	} {
		dir := t.TempDir()
		t.Chdir(dir)
		o := options("")
		o.Store, o.Cells = "sqlite:data/grapnel.db", tc.cells
		s, err := Open(t.Context(), o)
		if err == nil {
			_ = run(t, s).stop()
			t.Fatalf("%s: it was opened", what)
		}
		if !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "hunter2") || grapnel.CodeOf(err) != grapnel.CodeInvalid {
			t.Errorf("%s: %v", what, err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: it left %v behind", what, left)
		}
	}
}

// A cell that cannot be opened is named, and the others are closed again.
func TestCellThatIsInUse(t *testing.T) {
	dir := t.TempDir()
	other := options(filepath.Join(dir, "other"))
	first := start(t, other)
	o := options(dir)
	o.Cells = []CellOptions{{"west", other.Store}}
	if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "cell west") || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a cell that another server has: %v", err)
	}
	if err := first.stop(); err != nil {
		t.Fatal(err)
	}
	if err := start(t, o).stop(); err != nil {
		t.Error(err)
	}
}

// Two servers that serve the same two cells are two nodes of each cell. They reach each other in
// both, whatever prefix the second one's path has.
func TestTwoNodesOfTwoCells(t *testing.T) {
	o, db := town(t)
	nodes := []running{start(t, o), start(t, o)}
	ctx := t.Context()
	for _, cell := range []string{"home", "west"} {
		for _, n := range nodes {
			c := n.inCell(t, cell)
			poll(t, "both nodes have their shards of "+cell, func() bool { return settled(member{n, c, nil}.status(t), 2) })
			is := member{n, c, nil}.status(t)
			for _, m := range is.Nodes {
				if want := map[string]bool{
					nodes[0].URL(): true,
					nodes[1].URL(): true,
				}; !want[strings.TrimSuffix(m.Address, "/cells/west")] ||
					strings.HasSuffix(m.Address, "/cells/west") != (cell == "west") {
					t.Errorf("in %s a node is at %s", cell, m.Address)
				}
			}
		}
	}
	c := nodes[0].inCell(t, "")
	moves(t, c, "acme", "west") // before it has any rows
	url, got := receiving(t)
	const endpoints = 6
	for range endpoints {
		if _, err := nodes[1].inCell(t, "").CreateEndpoint(ctx, client.NewEndpoint{URL: url, Tenant: "acme"}); err != nil {
			t.Fatal(err)
		}
	}
	for i, n := range nodes {
		if is, err := n.inCell(t, "").Tenant(ctx, "acme"); err != nil || is.Cell != "west" {
			t.Errorf("node %d says that it is %+v, %v", i, is, err)
		}
		p, err := n.inCell(t, "").Publish(ctx, client.NewEvent{Type: "a.b", Data: []byte("1"), Tenant: "acme"})
		if err != nil {
			t.Fatal(err)
		}
		for range endpoints {
			if id := <-got; id != p.ID {
				t.Errorf("%s has arrived, not %s", id, p.ID)
			}
		}
		// Only the owning node knows an endpoint's health.
		l, err := n.inCell(t, "").Endpoints(ctx, client.EndpointFilter{Tenant: "acme"})
		if err != nil || len(l.Data) != endpoints {
			t.Fatalf("%+v, %v", l, err)
		}
		for _, ep := range l.Data {
			if ep.Health.State != grapnel.HealthHealthy {
				t.Errorf("node %d says that %s is %+v", i, ep.ID, ep.Health)
			}
		}
	}
	if err := nodes[0].stop(); err != nil {
		t.Error(err)
	}

	// One database under two names would count one node as two.
	proxy, err := db.NewProxy()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = proxy.Close() }()
	o.Cells = []CellOptions{{"west", proxy.URL("home")}}
	if s, err := Open(ctx, o); err == nil || !strings.Contains(err.Error(), "home and west are the same database") {
		if err == nil {
			_ = run(t, s).stop()
		}
		t.Errorf("the same database twice: %v", err)
	}
}

// If a cell's database is unreachable, only that cell's requests fail, and the server is not ready.
// A server that stops waits for attempts in flight in all of its cells.
func TestCellAwayAndAllOfThemDrained(t *testing.T) {
	o, db := town(t)
	proxy, err := db.NewProxy()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = proxy.Close() }()
	o.Cells[0].Store = proxy.URL("west")
	s := start(t, o)
	ctx, c := t.Context(), s.inCell(t, "")
	arrived, answer := make(chan string, 100), make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- r.Header.Get("webhook-id")
		<-answer
	}))
	defer receiver.Close()
	ready := func() int {
		status, _, _ := s.consumer(t).ask(http.MethodGet, "/readyz", "")
		return status
	}
	publish := func(tenant string) (string, error) {
		p, err := c.Publish(ctx, client.NewEvent{Type: "a.b", Data: []byte("1"), Tenant: tenant})
		if err != nil {
			return "", err
		}
		return p.ID, nil
	}
	poll(t, "it is ready", func() bool { return ready() == http.StatusOK })
	moves(t, c, "acme", "west")
	for _, tenant := range []string{"acme", "default"} {
		if _, err := c.CreateEndpoint(ctx, client.NewEndpoint{URL: receiver.URL, Tenant: tenant}); err != nil {
			t.Fatal(err)
		}
	}

	proxy.Cut(true)
	poll(t, "it is not ready", func() bool { return ready() == http.StatusServiceUnavailable })
	if _, err := publish("acme"); answered(t, err) != http.StatusServiceUnavailable {
		t.Errorf("without its cell's database: %v", err)
	}
	home, err := publish("default")
	if err != nil {
		t.Fatal(err)
	}
	if id := <-arrived; id != home {
		t.Errorf("%s has arrived, not %s", id, home)
	}
	proxy.Cut(false)
	poll(t, "it is ready again", func() bool { return ready() == http.StatusOK })
	west := ""
	poll(t, "what is published there is accepted", func() bool {
		west, err = publish("acme")
		return err == nil
	})
	// A delivery whose answer was lost may come again first.
	for id := <-arrived; id != west; id = <-arrived {
	}

	// One attempt is in flight in each cell.
	ended := make(chan error, 1)
	go func() { ended <- s.stop() }()
	poll(t, "it is stopping", func() bool {
		_, err := publish("default")
		return err != nil
	})
	select {
	case err := <-ended:
		t.Fatalf("it ended while attempts were in flight: %v", err)
	default:
	}
	close(answer)
	if err := <-ended; err != nil {
		t.Fatal(err)
	}
	again := start(t, o)
	for _, id := range []string{home, west} {
		e, err := again.inCell(t, "").Event(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		if d := e.Deliveries[0]; d.Status != grapnel.Delivered || d.AttemptsMade != 1 {
			t.Errorf("%s is %s after %d attempts", id, d.Status, d.AttemptsMade)
		}
	}
}

// TestOperatorsChannelsHearOfAllCells: dead letters in a cell besides the first are told to the
// operator's channels, which are in the first.
func TestOperatorsChannelsHearOfAllCells(t *testing.T) {
	o, _ := town(t)
	o.Bounds.Alerting.Every, o.Bounds.Alerting.Slow = 50*time.Millisecond, 50*time.Millisecond
	s := start(t, o)
	told := make(chan string, 100)
	ops := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		told <- gjson.GetBytes(body, "data.title").String()
	}))
	defer ops.Close()
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) }))
	defer broken.Close()
	c := s.inCell(t, "")
	s.settles(t, c)
	if _, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{URL: ops.URL, Tenant: grapnel.OperatorTenant,
		EventTypes: []string{grapnel.ChannelPattern}}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{URL: broken.URL, Tenant: "acme",
		Policy: json.RawMessage(`{"classify":{"4xx":"fail"},"breaker":false}`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.MoveTenant(t.Context(), grapnel.OperatorTenant, "west", ""); answered(t, err) != http.StatusUnprocessableEntity {
		t.Errorf("the move of the operator's channels: %v", err)
	}
	moves(t, c, "acme", "west")
	for range 10 {
		if _, err := c.Publish(t.Context(), client.NewEvent{Type: "a.b", Tenant: "acme", Data: []byte("1")}); err != nil {
			t.Fatal(err)
		}
	}
	if got := <-told; got != "cell west: more dead letters than usual" {
		t.Errorf("the operator got %q", got)
	}
}
