//go:build linux

package browser

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/web"
)

// polyglot runs the canary wherever it stands unescaped: in a text, an attribute with any quotes, a
// URL, a script, a style, a comment, a title or a textarea.
const polyglot = "javascript:/*--></title></style></textarea></script></xmp><svg/onload='+/\"`/+/onmouseover=1/+/[*/[]/+" + canary +
	"(1)//'><img src=x onerror=" + canary + "(2)><script>" + canary + "(3)</script>{{" + canary + "(4)}}${" + canary + "(5)}"

// short is one for fields that take few characters, and no braces.
const short = "\"'></title><svg/onload=" + canary + "(10)><img src=x onerror=" + canary + "(11)>"

// bomb is a document that runs the canary.
const bomb = "<html><script>" + canary + "(6)</script><img src=x onerror=" + canary + "(7)>"

// rawReceiver answers each request with the same bytes.
func rawReceiver(t *testing.T, answer string) string {
	t.Helper()
	l := ok(net.Listen("tcp", "127.0.0.1:0"))(t)
	done := make(chan struct{})
	t.Cleanup(func() { _ = l.Close(); <-done })
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			if rq, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
				_, _ = io.Copy(io.Discard, rq.Body)
				_, _ = io.WriteString(c, answer)
			}
			_ = c.Close()
		}
	}()
	return "http://" + l.Addr().String()
}

// attacker gives a stranger's texts to a server by its API, and counts which were accepted.
type attacker struct {
	*server
	taken, refused int
}

// try sends a request with a hostile user agent. The server may refuse it, which is a defence too.
func (a *attacker) try(method, path, body string, out any) bool {
	a.t.Helper()
	rq, err := http.NewRequestWithContext(a.t.Context(), method, a.url()+path, strings.NewReader(body))
	if err != nil {
		a.t.Fatal(err)
	}
	rq.Header.Set("Authorization", "Bearer "+adminKey)
	rq.Header.Set("Content-Type", "application/json")
	rq.Header.Set("User-Agent", polyglot)
	resp := ok(http.DefaultClient.Do(rq))(a.t)
	text := ok(io.ReadAll(resp.Body))(a.t)
	_ = resp.Body.Close()
	if resp.StatusCode >= 300 {
		a.refused++
		a.t.Logf("%s %s: answered %d: %s", method, path, resp.StatusCode, text)
		return false
	}
	a.taken++
	if out != nil {
		if err := json.Unmarshal(text, out); err != nil {
			a.t.Fatalf("%s: %v", text, err)
		}
	}
	return true
}

// doc writes a value as JSON.
func doc(v any) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err)
	}
	return b.String()
}

// attack puts the polyglot into every field that publishers, providers, receivers and customers
// write, and into those of operators too. It returns one thing of each kind.
func attack(t *testing.T, s *server) *cast {
	t.Helper()
	ctx := t.Context()
	a := &attacker{server: s}
	type fields map[string]any
	var pol, ep, src, named, key, kind, incident, channel struct{ ID, Name, Secret string }
	rules := fields{"classify": fields{"422": "fail"}, "schedule": fields{"mode": "since_previous", "delays": []string{"0s"}, "tail": "stop"}}
	rules["name"] = "evil"
	a.try("POST", "/v1/policies", doc(rules), &pol)
	rules["name"] = polyglot
	a.try("POST", "/v1/policies", doc(rules), &named)
	status := rawReceiver(t, "HTTP/1.1 422 "+polyglot+"\r\nX-Evil: "+polyglot+"\r\nContent-Type: text/html; "+polyglot+"\r\nServer: "+bomb+
		"\r\nConnection: close\r\n\r\n"+bomb+polyglot)
	a.try("POST", "/v1/endpoints", doc(fields{"url": status + "/?q=" + url.QueryEscape(polyglot), "description": polyglot, "policy": "evil",
		"labels": fields{"team": short}, "headers": fields{"X-Own": short}}), &ep)
	a.try("POST", "/v1/endpoints", doc(fields{"url": "javascript:" + canary + "(8)"}), nil)
	a.try("POST", "/v1/endpoints", doc(fields{"url": "http://127.0.0.1:9/\"><script>" + canary + "(9)</script>", "description": bomb}), nil)
	a.try("POST", "/v1/sources", doc(fields{"name": short, "description": polyglot, "on_unverified": "quarantine",
		"verify": fields{"scheme": "github", "secret": "secret of the test"}}), &src)
	a.try("POST", "/v1/queues", doc(fields{"name": "evil", "description": polyglot, "event_types": []string{"a.b"}}), nil)
	a.try("POST", "/v1/channels", doc(fields{"url": "ntfy://ntfy.sh/topic", "description": polyglot}), &channel)
	a.try("POST", "/v1/keys", doc(fields{"name": short, "scopes": []string{"read"}}), &key)
	a.try("POST", "/v1/event-types", doc(fields{"name": "a.b", "description": polyglot}), &kind)
	a.try("POST", "/v1/incidents", doc(fields{"title": short, "text": polyglot}), &incident)
	a.try("POST", "/v1/events", doc(fields{"type": polyglot, "data": 1}), nil)
	for i := range 3 {
		a.try("POST", "/v1/events", doc(fields{"type": "a.b", "key": polyglot, "metadata": fields{"trace": polyglot},
			"data": fields{polyglot: polyglot, "n": i, "list": []any{bomb}}}), nil)
	}
	ok(s.PublishRaw(ctx, client.RawEvent{Type: "a.raw", Data: []byte(bomb + "\xff"), ContentType: "text/html"}))(t)

	hook := s.url() + "/in/" + src.ID + "?" + url.QueryEscape(polyglot) + "=" + url.QueryEscape(polyglot)
	rq, err := http.NewRequestWithContext(ctx, http.MethodPost, hook, strings.NewReader(bomb))
	if err != nil {
		t.Fatal(err)
	}
	rq.Header.Set("Content-Type", "text/html; "+polyglot)
	rq.Header.Set("User-Agent", polyglot)
	rq.Header["X-Github-Event"] = []string{polyglot}
	rq.Header["X-Evil"] = []string{polyglot}
	_ = ok(http.DefaultClient.Do(rq))(t).Body.Close()

	c := &cast{t, map[string]string{"/endpoints": ep.ID, "/sources": src.ID, "/queues": "evil", "/channels": channel.ID, "/policies": pol.ID, "/event-types": kind.ID,
		"/incidents": incident.ID, "/customers": "default",
		"/ordering-keys": ep.ID + "?key=" + url.QueryEscape(polyglot)}}
	s.holds("the events are dead letters", func(ctx context.Context) (bool, error) {
		page, err := s.DeadLetters(ctx, client.DeliveryFilter{Endpoint: ep.ID, Type: "a.b"})
		if err != nil || len(page.Data) < 3 {
			return false, err
		}
		c.ids["/deliveries"], c.ids["/events"] = page.Data[0].ID, page.Data[0].EventID
		return true, nil
	})
	ok(s.Note(ctx, c.ids["/deliveries"], polyglot))(t)
	s.issue(c, ep.ID)
	ok(s.ChangeIssue(ctx, c.ids["/issues"], client.IssueChanges{Owner: short, Note: polyglot}))(t)
	rpl := ok(s.StartReplay(ctx, ep.ID, client.NewReplay{Reason: polyglot, Keys: []string{polyglot},
		Status: []grapnel.Status{grapnel.Failed}}))(t)
	c.ids["/replays"] = rpl.ID
	c.ids["/alerts"], c.ids["/alert-rules"] = s.alertAbout(t, ep.ID), "dead_letters"
	inbox := ok(s.Inbox(ctx, client.InboxFilter{Source: src.ID}))(t)
	if len(inbox.Data) != 1 {
		t.Fatalf("%d requests in quarantine", len(inbox.Data))
	}
	c.ids["/inbox"] = inbox.Data[0].ID
	ok(s.PauseEndpoint(ctx, ep.ID, polyglot))(t) // its reason is in the audit
	ok(s.ResumeEndpoint(ctx, ep.ID, polyglot))(t)
	if a.taken < 10 {
		t.Fatalf("the server took %d hostile requests and refused %d; the attack proves little", a.taken, a.refused)
	}
	return c
}

// TestNoScriptOfAStrangerRuns visits every page when each of its texts is hostile, and with hostile
// searches, filters and ids in its address. The watch of the tab fails the test if a script ran,
// tried to, or opened a dialog.
func TestNoScriptOfAStrangerRuns(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := attack(t, s)
	p := openTab(t, s.url())
	p.do("a hostile browser", call(emulation.SetUserAgentOverride, emulation.SetUserAgentOverrideParams{UserAgent: strings.ReplaceAll(polyglot, "\n", "")}))
	p.signIn(adminKey)
	p.allow("status of 404.*/ordering-keys/") // no delivery waits behind the hostile key
	seen := 0
	look := func(path string) {
		t.Helper()
		p.visit(path)
		p.until("the page is drawn live", `!document.querySelector("#live-main[data-live]") || document.querySelector("#live").dataset.state`)
		if value[bool](p, `document.body.innerText.includes(%s)`, canary) {
			seen++
		}
		for _, fault := range p.take() {
			t.Errorf("%s: %s", path, fault)
		}
	}
	all := patterns(web.Paths())
	for _, pattern := range all {
		look(c.fill(pattern))
	}
	p.enterPortal(s)
	for _, pattern := range patterns(web.PortalPaths()) {
		look(c.fill(pattern))
	}
	if seen < 20 {
		t.Errorf("only %d pages show a hostile text; the test proves little", seen)
	}
	p.allow("status of 4")
	evil := url.QueryEscape(polyglot)
	for _, pattern := range all {
		if strings.Contains(pattern, "{id}") {
			look(strings.ReplaceAll(pattern, "{id}", url.PathEscape(polyglot)))
			continue
		}
		query := ""
		for _, name := range []string{"q", "cursor", "endpoint", "source", "type", "outcome", "id", "tenant"} {
			query += "&" + name + "=" + evil
		}
		look(strings.TrimSuffix(pattern, "{$}") + "?" + query[1:])
		look(strings.TrimSuffix(pattern, "{$}") + "?q=" + url.QueryEscape(`key:"`+strings.ReplaceAll(polyglot, `"`, "")+`"`))
	}
	look("/login?next=" + evil)
	look("/no/such/page/" + url.PathEscape(polyglot))
	p.visit("/deliveries")
	p.fill(".search input", polyglot)
	p.leaves(func() { p.press("\r") })
	look(p.path())

	p.visit("/dead-letters") // a hostile note, written and shown by the page itself
	p.click("tr[data-row] input[type=checkbox]", "")
	p.fill("input[name=note]", polyglot)
	p.leaves(func() { p.click("button", "Set note") })
	look("/dead-letters")
	look("/audit")
}
