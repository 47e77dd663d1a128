package server

import (
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/send/issue"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
	"github.com/grapnelhq/grapnel/policy"
)

// browser is one with cookies, which does not follow redirects.
type browser struct {
	t    *testing.T
	base string
	http *http.Client
}

func newBrowser(t *testing.T, base string) *browser {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &browser{t, base, &http.Client{Jar: jar, Transport: transport, CheckRedirect: stay}}
}

func (b *browser) ask(method, path string, form url.Values) (status int, header http.Header, body string) {
	b.t.Helper()
	rq, err := http.NewRequestWithContext(b.t.Context(), method, b.base+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	if form != nil {
		rq.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		origin, _ := url.Parse(b.base)
		rq.Header.Set("Origin", origin.Scheme+"://"+origin.Host)
	}
	resp, err := b.http.Do(rq)
	if err != nil {
		b.t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

var formToken = regexp.MustCompile(`name="token" value="([^"]+)"`)

func (b *browser) token(path string) string {
	b.t.Helper()
	status, _, body := b.ask("GET", path, nil)
	found := formToken.FindStringSubmatch(body)
	if found == nil {
		b.t.Fatalf("%s: answered %d without a form token: %s", path, status, body)
	}
	return found[1]
}

func (b *browser) signIn(key string) {
	b.t.Helper()
	status, header, body := b.ask("POST", "/login", url.Values{"token": {b.token("/login")}, "key": {key}})
	if status != 303 {
		b.t.Fatalf("signing in: answered %d %v %s", status, header, body)
	}
}

// owned is what a tenant has: a paused endpoint, so that nothing about it changes by itself.
type owned struct {
	name  string
	key   string
	ids   []string // of everything
	ep    string
	dlv   string
	src   string // a source, which has quarantined a request
	req   string // this request
	que   string
	chn   string
	pol   string
	keyID string
	typ   string
	alr   string
	rule  string // one that concerns it
	evt   string
	rpl   string
	inc   string // an incident, which is the operator's
	iss   string
	texts []string // that only its own pages may show
	state func() string
}

// incident is the operator's, of which a server needs one.
func incident(t *testing.T, admin *client.Client) string {
	t.Helper()
	found, err := admin.Incidents(t.Context(), 1, "")
	if err != nil {
		t.Fatal(err)
	}
	if len(found.Data) > 0 {
		return found.Data[0].ID
	}
	in, err := admin.OpenIncident(t.Context(), client.NewIncident{Title: "Publishing is slow", Text: "We look into it."})
	if err != nil {
		t.Fatal(err)
	}
	return in.ID
}

// still are options of a server on which nothing that own creates changes by itself. A round of the
// alert rules would resolve the stored alert, because its endpoint is not disabled, and send a
// message to the tenant's channel: a new delivery, after the ten seconds between two rounds.
func still(t *testing.T) Options {
	o := options(t.TempDir())
	o.AdminKey = testKey
	o.Bounds.Alerting.Every = time.Hour
	return o
}

func own(t *testing.T, s running, tenant string) owned {
	t.Helper()
	ctx := t.Context()
	admin, err := client.New(client.Options{Server: s.URL(), Key: testKey})
	if err != nil {
		t.Fatal(err)
	}
	key, err := admin.CreateKey(ctx, client.NewKey{Name: "key of " + tenant, Tenant: tenant, Scopes: []grapnel.Scope{"read", "manage", "replay", "publish"}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(client.Options{Server: s.URL(), Key: key.Secret})
	if err != nil {
		t.Fatal(err)
	}
	ep, err := c.CreateEndpoint(ctx, client.NewEndpoint{
		URL: "http://127.0.0.1:9/" + tenant, Description: "endpoint-of-" + tenant, Status: grapnel.EndpointPaused,
	})
	if err != nil {
		t.Fatal(err)
	}
	o := owned{name: tenant, key: key.Secret, ep: ep.ID, ids: []string{ep.ID, key.ID}, texts: []string{"endpoint-of-" + tenant, "key-" + tenant, "secret-" + tenant, "127.0.0.1:9/" + tenant}}
	o.inc = incident(t, admin)
	for i := range 3 {
		data := fmt.Appendf(nil, `{"n":%d,"text":"secret-%s"}`, i, tenant)
		if _, err := c.Publish(ctx, client.NewEvent{Type: "a.b", Key: "key-" + tenant, Data: data}); err != nil {
			t.Fatal(err)
		}
	}
	page, err := c.Deliveries(ctx, client.DeliveryFilter{})
	if err != nil || len(page.Data) != 3 {
		t.Fatal(len(page.Data), err)
	}
	for _, d := range page.Data {
		o.ids, o.dlv, o.evt = append(o.ids, d.ID, d.EventID), d.ID, d.EventID
	}
	if _, err := c.Skip(ctx, o.dlv, "for a replay"); err != nil {
		t.Fatal(err)
	}
	rpl, err := c.StartReplay(ctx, ep.ID, client.NewReplay{Status: []grapnel.Status{grapnel.Skipped}, Rate: 0.001})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.CancelReplay(ctx, rpl.ID, ""); err != nil { // after which nothing changes by itself
		t.Fatal(err)
	}
	o.rpl, o.ids = rpl.ID, append(o.ids, rpl.ID)
	o.iss = s.issue(t, tenant, ep.ID)
	o.ids = append(o.ids, o.iss)
	o.more(t, s, c, tenant)
	o.state = func() string {
		page, err := c.Deliveries(ctx, client.DeliveryFilter{})
		if err != nil {
			t.Fatal(err)
		}
		now, err := c.Endpoint(ctx, ep.ID)
		if err != nil {
			t.Fatal(err)
		}
		src, err := c.Source(ctx, o.src)
		if err != nil {
			t.Fatal(err)
		}
		que, err := c.Queue(ctx, o.que)
		if err != nil {
			t.Fatal(err)
		}
		who, err := c.WhoAmI(ctx)
		if err != nil {
			t.Fatal(err)
		}
		iss, err := c.Issue(ctx, o.iss)
		if err != nil {
			t.Fatal(err)
		}
		que.QueueCounts = nil // ages grow
		return string(page.JSON()) + string(now.JSON()) + string(src.JSON()) + fmt.Sprint(que.Status, que.Revision) + string(who.JSON()) +
			fmt.Sprint(iss.State, iss.Owner, iss.Note)
	}
	return o
}

// issue stores an issue of an endpoint, as its node would, and returns its id.
func (r running) issue(t *testing.T, tenant, endpoint string) string {
	t.Helper()
	g := issue.Group{Tenant: tenant, Endpoint: endpoint, Class: policy.ClassStatus5xx, Status: 503, Answer: "secret-" + tenant}
	tally := issue.NewTally(issue.Bounds{})
	tally.Failed(&issue.Failure{Group: g, At: time.Now(), Delivery: "dlv_purged", Created: time.Now()})
	k := issue.NewKeeper(issue.Options{Documents: r.life.store, Tally: tally, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Gone: func(string) bool { return false }, Leads: func() bool { return false }})
	if err := k.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	return g.ID()
}

// more gives the tenant a source, a request to it, a queue with a message, and a policy.
func (o *owned) more(t *testing.T, s running, c *client.Client, tenant string) {
	t.Helper()
	ctx := t.Context()
	src, err := c.CreateSource(ctx, client.NewSource{Name: "source-of-" + tenant, OnUnverified: "quarantine",
		Verify: client.NewVerify{Scheme: "github", Secret: "secret of the test"}})
	if err != nil {
		t.Fatal(err)
	}
	rq, err := http.NewRequestWithContext(ctx, "POST", s.URL()+"/in/"+src.ID, strings.NewReader("request-of-"+tenant))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(rq)
	if err != nil || resp.StatusCode != 202 {
		t.Fatal(resp, err)
	}
	_ = resp.Body.Close()
	inbox, err := c.Inbox(ctx, client.InboxFilter{Source: src.ID})
	if err != nil || len(inbox.Data) != 1 {
		t.Fatal(inbox, err)
	}
	que, err := c.CreateQueue(ctx, client.NewQueue{Name: "queue-of-" + tenant, EventTypes: []string{"only.queues"}})
	if err != nil {
		t.Fatal(err)
	}
	channel, err := c.CreateChannel(ctx, client.NewChannel{URL: "ntfy://ntfy.sh/topic-of-" + tenant, Description: "channel-of-" + tenant})
	if err != nil {
		t.Fatal(err)
	}
	o.chn, o.ids, o.texts = channel.ID, append(o.ids, channel.ID), append(o.texts, channel.Description)
	pol, err := c.CreatePolicy(ctx, []byte(`{"name":"policy-of-`+tenant+`"}`))
	if err != nil {
		t.Fatal(err)
	}
	typ, err := c.CreateEventType(ctx, client.NewEventType{Name: "type.of." + tenant, Schema: []byte(`{"title":"schema-of-` + tenant + `"}`), Example: []byte(`1`)})
	if err != nil {
		t.Fatal(err)
	}
	who, err := c.WhoAmI(ctx)
	if err != nil {
		t.Fatal(err)
	}
	o.typ, o.ids, o.texts = typ.ID, append(o.ids, typ.ID), append(o.texts, "type.of."+tenant, "schema-of-"+tenant)
	o.alr = alertOf(t, s, tenant, o.ep)
	o.rule = map[bool]string{true: "dead_letters", false: "disk_full"}[tenant == "acme"] // tenants have no disk
	o.src, o.req, o.que, o.pol, o.keyID = src.ID, inbox.Data[0].ID, que.ID, pol.ID, who.ID
	o.ids = append(o.ids, o.src, o.req, o.que, o.pol)
	o.texts = append(o.texts, "source-of-"+tenant, "request-of-"+tenant, "queue-of-"+tenant, "policy-of-"+tenant)
}

// alertOf stores an alert about an endpoint of a tenant.
func alertOf(t *testing.T, s running, tenant, endpoint string) string {
	t.Helper()
	a := alert.Alert{ID: "alr_of_" + endpoint, Rule: alert.EndpointDisabled, Tenant: tenant, Severity: grapnel.SeverityPage,
		State: alert.Firing, Title: "alert of " + tenant, Subject: alert.Subject{Kind: "endpoint", ID: endpoint, Name: "shop"}, Since: time.Now()}
	if _, err := s.life.store.PutDocuments(t.Context(), store.Everyone(), []store.DocumentWrite{{Document: store.Document{
		Tenant: tenant, Kind: alert.KindOpen, ID: a.ID, At: a.Since, Body: a.Encode()}}}, store.With{}); err != nil {
		t.Fatal(err)
	}
	return a.ID
}

// forAdmins are pages that a key of a tenant may not see at all.
var forAdmins = []string{"/keys", "/keys/new", "/nodes", "/settings", "/contacts/sender", "/incidents/new", "/incidents/{id}/update"}

// fill puts what a tenant has into the pattern of a page.
func (o *owned) fill(pattern string) string {
	path := strings.TrimSuffix(pattern, "{$}")
	id := o.ep
	for prefix, of := range map[string]string{
		"/deliveries": o.dlv, "/sources": o.src, "/inbox": o.req, "/queues": o.que, "/channels": o.chn, "/policies": o.pol, "/keys": o.keyID,
		"/events": o.evt, "/replays": o.rpl, "/issues": o.iss, "/event-types": o.typ, "/incidents": o.inc,
		"/alerts": o.alr, "/alert-rules": o.rule, "/customers": o.name,
	} {
		if strings.HasPrefix(path, prefix) {
			id = of
		}
	}
	return strings.ReplaceAll(path, "{id}", id)
}
