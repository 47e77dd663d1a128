package server

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/tell/alarm"
)

// prompt bounds tell of trouble at once.
func prompt(o *Options) {
	o.AdminKey = testKey
	o.Bounds.Alarm = alarm.Bounds{Every: 10 * time.Millisecond, Hold: 30 * time.Millisecond, Calm: 100 * time.Millisecond,
		Again: time.Millisecond, Retry: 20 * time.Millisecond, Pause: 20 * time.Millisecond}
}

// pager is a service for people that shows what it was told, each event once.
type pager struct {
	mu   sync.Mutex
	seen map[string]bool
	said []string // "rule state"
	last string   // body
}

func newPager(t *testing.T) (*pager, string) {
	p := &pager{seen: map[string]bool{}}
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	return p, "generic://" + strings.TrimPrefix(s.URL, "http://") + "/pOsT?disabletls=yes"
}

func (p *pager) ServeHTTP(_ http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	if id := gjson.GetBytes(body, "event_id").String(); !p.seen[id] {
		p.seen[id] = true
		p.said, p.last = append(p.said, gjson.GetBytes(body, "rule").String()+" "+gjson.GetBytes(body, "state").String()), string(body)
	}
}

// hears waits until the pager was told of something, and checks how often it was.
func (p *pager) hears(t *testing.T, want string, times int) {
	t.Helper()
	poll(t, want, func() bool { return p.count(want) >= times })
	if n := p.count(want); n != times {
		t.Errorf("%q was said %d times, want %d", want, n, times)
	}
}

func (p *pager) count(want string) (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, said := range p.said {
		if strings.HasPrefix(said, want) {
			n++
		}
	}
	return n
}

// TestAlarmsNeedNoStore: people are told of a store that is full, that is away and whose commits
// fail, while it takes no delivery; and of the end.
func TestAlarmsNeedNoStore(t *testing.T) {
	defer http.DefaultClient.CloseIdleConnections()
	o := options(t.TempDir())
	prompt(&o)
	opened, err := Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	p, url := newPager(t)
	db := &refusing{keeper: opened.life.store}
	opened.life.store = db
	s := run(t, opened)
	c := s.client(t, testKey)
	for tenant, severities := range map[string][]string{grapnel.OperatorTenant: nil, "acme": nil, "*": {grapnel.SeverityInfo}} {
		if _, err := c.CreateChannel(t.Context(), client.NewChannel{URL: url, Tenant: tenant, Severities: severities}); err != nil {
			t.Fatal(err)
		}
	}
	for rule, why := range map[string]error{
		alarm.StoreFull: grapnel.Errorf(grapnel.CodeStorageFull, "no space"),
		alarm.StoreAway: &grapnel.Error{Code: grapnel.CodeUnavailable, Detail: "no answer", Err: io.ErrUnexpectedEOF},
	} {
		db.why.Store(&why)
		p.hears(t, rule+" firing", 1)
		if !strings.Contains(p.last, `"severity":"page"`) || strings.Contains(p.last, "EOF") || !json.Valid([]byte(p.last)) {
			t.Errorf("the message is %s", p.last)
		}
		if _, body := page(t, s, "/metrics"); !strings.Contains(body, "\ngrapnel_alarms{rule=\""+rule+"\"} 1\n") {
			t.Errorf("/metrics lacks the alarm %s", rule)
		}
		db.why.Store(nil)
		p.hears(t, rule+" resolved", 1)
	}
	file, err := os.ReadFile(filepath.Join(filepath.Dir(strings.TrimPrefix(o.Store, "sqlite:")), alarmsFile))
	if err != nil || strings.Count(string(file), "pOsT") != 1 {
		t.Errorf("the file is %.2000s, %v", file, err)
	}
	publish := func() int { // without an Idempotency-Key, which is read from the store
		rq, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL()+"/v1/events", strings.NewReader(`{"type":"a.b","data":1}`))
		if err != nil {
			t.Fatal(err)
		}
		rq.Header.Set("Authorization", "Bearer "+testKey)
		rq.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(rq)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		return resp.StatusCode
	}
	if status := publish(); status != http.StatusAccepted {
		t.Fatal(status)
	}
	// From now on no commit succeeds, and the store does not say so.
	if err := db.keeper.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 * s.alarms.Bounds().Commit {
		if status := publish(); status < 500 {
			t.Fatalf("an event without a store is answered %d", status)
		}
	}
	p.hears(t, alarm.CommitsFail+" firing", 1)
	_ = s.stop() // the store is closed already
}
