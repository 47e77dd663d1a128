//go:build linux && prove

package e2e

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
)

// TestATenantEndsThroughKills: a tenant has a text in each thing that it can have. It is deleted
// while its publishers go on and the process is killed, 20 times. From the answer to the order on
// no publish of it is acknowledged. When the job is done no file of the data directory has the
// text; the other tenant's is still there, each of its events has arrived, and a tenant of the same
// name begins with nothing.
func TestATenantEndsThroughKills(t *testing.T) {
	beside(t, busy)
	a := newAttacked(t, program{tiny: true}.bounded(t, newDice(t)))
	(&ending{attacked: a, dice: newDice(t), kills: 20, events: 1500}).through(func(text string) (in []string) {
		err := filepath.WalkDir(a.dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := os.ReadFile(path)
			if strings.Contains(string(content), text) {
				in = append(in, d.Name())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return in
	})
}

// TestATenantEndsOnPostgres: the same with two nodes on one database. The one that answers the
// order is killed; the other one refuses the tenant.
func TestATenantEndsOnPostgres(t *testing.T) {
	beside(t, heavy)
	db := pgtest.For(t, pgtest.Options{})
	url, err := db.Create(t.Context(), "grapnel")
	if err != nil {
		t.Fatal(err)
	}
	d := newDice(t)
	p := program{tiny: true}.bounded(t, d)
	p.flag = append(p.flag, "--store", url, "--lease", "5s")
	a := newAttacked(t, p)
	other := startAttacked(t, p)
	e := &ending{attacked: a, other: other, dice: d, kills: 4, events: 300}
	e.through(func(text string) []string {
		found := ""
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		err = conn.QueryRow(t.Context(), fmt.Sprintf(`SELECT coalesce(string_agg(table_name, ' '), '') FROM information_schema.tables
			WHERE table_schema NOT IN ('pg_catalog', 'information_schema') AND table_type = 'BASE TABLE' AND 0 < (xpath('/row/n/text()',
			query_to_xml(format('SELECT count(*) AS n FROM %%I.%%I t WHERE t::text LIKE ''%%%%%s%%%%'' OR t::text LIKE ''%%%%%s%%%%''',
			table_schema, table_name), false, true, '')))[1]::text::int`, text, hex.EncodeToString([]byte(text)))).Scan(&found)
		if err := errors.Join(err, conn.Close(t.Context())); err != nil {
			t.Fatal(err)
		}
		return strings.Fields(found)
	})
}

// ending is a server with two tenants, one of which ends.
type ending struct {
	*attacked
	other  *attacked // another node; nil: none
	dice   *dice
	kills  int
	events int

	mu      sync.Mutex
	arrived map[string]bool // events of the tenant that stays
}

// Texts of the tenants. The first is of the one that ends.
const (
	canary = "canary-of-the-ant"
	stays  = "canary-of-the-bee"
)

// through deletes the tenant. where says which files or tables have a text.
func (e *ending) through(where func(text string) []string) {
	e.arrived = map[string]bool{}
	receiver := httptest.NewServer(http.HandlerFunc(e.receive))
	e.t.Cleanup(receiver.Close)
	sources := map[string]string{}
	for tenant, text := range map[string]string{attacker: canary, victim: stays} {
		sources[tenant] = e.furnish(tenant, text, receiver.URL)
	}
	for n := range e.events {
		e.publishAs(attacker, newEvent{ID: fmt.Sprint("ant-", n), Type: "made", Data: json.RawMessage(`"` + canary + `"`)})
	}
	for _, text := range []string{canary, stays} {
		if len(where(text)) == 0 {
			e.t.Fatalf("%s is nowhere before the order: this test shows nothing", text)
		}
	}

	var job struct{ ID string }
	e.must(http.StatusAccepted, http.MethodDelete, "/v1/tenants/"+attacker+"?reason=e2e", nil, &job)
	node := e.attacked
	if e.other != nil {
		node = e.other
	}
	node.refuses(sources[attacker], e.keys[attacker])
	ctx, stop := context.WithCancel(e.t.Context())
	var publishing sync.WaitGroup
	publishing.Go(func() { e.publish(ctx, job.ID) })
	e.killWhileItRuns(node, job.ID)
	stop()
	publishing.Wait()

	if in := where(canary); len(in) > 0 {
		e.t.Errorf("the tenant's text is in %v", in)
	}
	if len(where(stays)) == 0 {
		e.t.Error("the other tenant's text is nowhere")
	}
	e.t.Logf("of the other tenant %d events", len(e.arrived))
	if e.terminate(30*time.Second) != 0 {
		e.t.Error("the server did not stop")
	}
	if in := where(canary); len(in) > 0 {
		e.t.Errorf("after a stop the tenant's text is in %v", in)
	}
	e.start()
	e.ready(30 * time.Second)
	e.keys[attacker][grapnel.ScopeAdmin], _ = e.key(attacker, grapnel.ScopeAdmin)
	for _, path := range []string{"/v1/endpoints", "/v1/events", "/v1/deliveries", "/v1/sources", "/v1/policies", "/v1/event-types", "/v1/issues",
		"/v1/replays", "/v1/inbox?tenant=" + attacker} {
		var list struct {
			Data []struct{ Tenant, Type string }
		}
		e.by(attacker, grapnel.ScopeAdmin, http.StatusOK, http.MethodGet, path, nil, &list)
		for _, one := range list.Data {
			if one.Tenant == attacker && one.Type != "later" {
				e.t.Errorf("%s has something of the tenant that begins anew", path)
			}
		}
	}
}

// receive takes the other tenant's events, and fails for the tenant that ends with its text.
func (e *ending) receive(w http.ResponseWriter, r *http.Request) {
	if strings.Contains(r.URL.Path, canary) {
		w.Header().Set("X-Answer", canary)
		w.WriteHeader(http.StatusUnprocessableEntity)
		_, _ = io.WriteString(w, canary)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.arrived[r.Header.Get("webhook-id")] = true
}

// furnish gives a tenant one of everything, with its text. It returns the path of a source.
func (e *ending) furnish(tenant, text, receiver string) (source string) {
	made := func(path string, body map[string]any) (id string) {
		e.t.Helper()
		var is struct{ ID string }
		e.by(tenant, grapnel.ScopeAdmin, http.StatusCreated, http.MethodPost, path, body, &is)
		return is.ID
	}
	made("/v1/policies", map[string]any{"name": text, "timeout": "5s"})
	endpoint := made("/v1/endpoints", map[string]any{"url": receiver + "/" + text, "description": text,
		"headers": map[string]any{"X-Mine": text}, "event_types": []string{"made"}, "policy": text})
	made("/v1/queues", map[string]any{"name": text, "event_types": []string{"made"}})
	made("/v1/channels", map[string]any{"url": "ntfy://127.0.0.1:9/" + text, "description": text})
	made("/v1/keys", map[string]any{"name": text, "scopes": []string{"read"}})
	made("/v1/event-types", map[string]any{"name": "made", "description": text})
	_, source = e.sourceOf(tenant, map[string]any{"name": text, "verify": map[string]any{"scheme": "github", "secret": signingSecret},
		"on_unverified": "quarantine"})
	e.by(tenant, grapnel.ScopeAdmin, http.StatusOK, http.MethodPatch, "/v1/tenants/"+tenant+"/portal", map[string]any{"name": text}, nil)
	e.must(http.StatusOK, http.MethodPatch, "/v1/tenants/"+tenant, map[string]any{"max_pending": 1 << 20, "max_events_per_day": 1 << 20}, nil)
	e.by(tenant, grapnel.ScopeAdmin, http.StatusAccepted, http.MethodPost, "/v1/events", map[string]any{"type": "made", "key": text,
		"data": map[string]any{"text": text}, "metadata": map[string]string{"text": text}}, nil)
	if status, answer := e.in(source, []byte(`{"of":"`+text+`"}`), "X-Their-Header", text); status != http.StatusAccepted {
		e.t.Fatalf("the source answers %d %s", status, answer)
	}
	eventually(e.t, time.Minute, "deliveries of "+tenant+" are attempted", func() bool {
		var list struct {
			Data []struct {
				N int `json:"attempts_made"`
			}
		}
		e.by(tenant, grapnel.ScopeAdmin, http.StatusOK, http.MethodGet, "/v1/deliveries?endpoint="+endpoint, nil, &list)
		return len(list.Data) > 0 && list.Data[0].N > 0
	})
	return source
}

// refuses fails the test unless the node refuses the tenant that ends.
func (a *attacked) refuses(source string, keys map[grapnel.Scope]string) {
	a.t.Helper()
	for what, try := range map[string]struct {
		key, path string
		body      map[string]any
		status    int
	}{
		"a publish of the operator": {adminKey, "/v1/events", map[string]any{"tenant": attacker, "type": "made", "data": 1}, http.StatusConflict},
		"a publish of the tenant":   {keys[grapnel.ScopePublish], "/v1/events", map[string]any{"type": "made", "data": 1}, http.StatusForbidden},
		"an endpoint": {adminKey, "/v1/endpoints", map[string]any{"tenant": attacker, "url": "http://127.0.0.1:9/"},
			http.StatusConflict},
	} {
		if status, answer := a.ask(try.key, http.MethodPost, try.path, try.body); status != try.status {
			a.t.Errorf("%s is answered %d %s", what, status, answer)
		}
	}
	// A source that is deleted already is not found.
	if status, answer := a.in(source, []byte(`{}`)); status != http.StatusConflict && status != http.StatusNotFound {
		a.t.Errorf("the source answers %d %s", status, answer)
	}
}

// publish publishes for both tenants until ctx ends. Nothing of the tenant that ends is
// acknowledged before all of it is deleted: then a tenant of the same name begins. Each event of
// the other one arrives.
func (e *ending) publish(ctx context.Context, job string) {
	var acknowledged []string
	begun := false
	for n := 0; ctx.Err() == nil; n++ {
		var status int
		var err error
		if !begun {
			status, _, _, err = e.as(ctx, adminKey, http.MethodPost, "/v1/events", map[string]any{"tenant": attacker, "type": "later", "data": n})
			begun = err == nil && status < 300
		}
		if begun {
			_, is, _, err := e.as(ctx, adminKey, http.MethodGet, "/v1/erasures/"+job, nil)
			if err == nil && strings.Contains(string(is), `"running"`) {
				e.t.Errorf("a publish is acknowledged while the job is %s", is)
			}
		}
		id := fmt.Sprint("bee-", n)
		status, _, _, err = e.as(ctx, adminKey, http.MethodPost, "/v1/events",
			map[string]any{"tenant": victim, "id": id, "type": "made", "data": stays})
		if err == nil && status < 300 {
			acknowledged = append(acknowledged, id)
		}
		pause(ctx, 5*time.Millisecond)
	}
	if len(acknowledged) == 0 {
		e.t.Error("nothing of the other tenant was acknowledged")
	}
	eventually(e.t, time.Minute, "the other tenant's events arrive", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		for _, id := range acknowledged {
			if !e.arrived[id] {
				return false
			}
		}
		return true
	})
}

// killWhileItRuns kills the process again and again, after a random time or a random number of
// deleted events, until the job is done.
func (e *ending) killWhileItRuns(asked *attacked, id string) {
	e.t.Helper()
	type progress struct {
		State   string
		Counts  map[string]int
		Remains []string
	}
	look := func() (p progress, known bool) {
		status, body, err := asked.call(context.Background(), http.MethodGet, "/v1/erasures/"+id, nil)
		if err != nil || status >= http.StatusInternalServerError {
			return p, false
		}
		asked.check(status, body, err, http.StatusOK, http.MethodGet, "/v1/erasures/"+id, &p)
		return p, true
	}
	killed := 0
	is := progress{}
	for ; killed < e.kills && is.State != "done"; killed++ {
		until, most := e.dice.between(0, 400*time.Millisecond), is.Counts["events"]+e.dice.n(2*e.events/e.kills)
		poll(context.Background(), until, time.Millisecond, func() bool {
			if p, known := look(); known {
				is = p
			}
			return is.State == "done" || is.Counts["events"] > most
		})
		if is.State == "done" {
			break
		}
		e.kill()
		e.start()
		e.ready(time.Minute)
	}
	eventually(e.t, 3*time.Minute, "the job is done", func() bool {
		if p, known := look(); known {
			is = p
		}
		return is.State == "done"
	})
	e.t.Logf("killed %d times; %v; remains %q", killed, is.Counts, is.Remains)
	if killed < e.kills/2 {
		e.t.Errorf("the job was done after %d kills", killed)
	}
}
