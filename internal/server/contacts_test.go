package server

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// mailSink is a mail server on loopback that keeps the texts of what it gets.
type mailSink struct {
	net.Listener
	mu    sync.Mutex
	mails []string
}

func newMailSink(t *testing.T) *mailSink {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m := &mailSink{Listener: l}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() { m.talk(c) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		running.Wait()
	})
	return m
}

func (m *mailSink) talk(c net.Conn) {
	defer func() { _ = c.Close() }()
	r := bufio.NewReader(c)
	say := func(line string) { _, _ = io.WriteString(c, line+"\r\n") }
	say("220 mail")
	for {
		line, err := r.ReadString('\n')
		switch {
		case err != nil:
			return
		case strings.HasPrefix(line, "EHLO"):
			say("250-mail\r\n250 AUTH PLAIN")
		case strings.HasPrefix(line, "AUTH"):
			say("235 welcome")
		case strings.HasPrefix(line, "DATA"):
			say("354 go on")
			var text strings.Builder
			for line = ""; line != ".\r\n" && err == nil; line, err = r.ReadString('\n') {
				text.WriteString(line)
			}
			m.mu.Lock()
			m.mails = append(m.mails, strings.NewReplacer("=\r\n", "", "=3D", "=").Replace(text.String()))
			m.mu.Unlock()
			say("250 ok")
		case strings.HasPrefix(line, "QUIT"):
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

// with is the newest mail with a text, and what stands behind that on its line; empty: none has it.
func (m *mailSink) with(text string) (mail, rest string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, mail = range m.mails {
		if _, after, found := strings.Cut(mail, text); found {
			rest, _, _ = strings.Cut(after, "\r\n")
			return mail, rest
		}
	}
	return "", ""
}

// TestACustomerIsToldAndReplays: an address confirms itself by the link of its mail; then it is told
// that an endpoint is disabled, and the link of that mail opens the portal, once, where the missed
// deliveries can be replayed. The password of the mail server and the links are shown nowhere.
func TestACustomerIsToldAndReplays(t *testing.T) {
	sink := newMailSink(t)
	var works atomic.Bool
	shop := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
		if !works.Load() {
			rw.WriteHeader(http.StatusGone)
		}
	}))
	defer shop.Close()
	o := options(t.TempDir())
	o.AdminKey = testKey
	o.PublicURL = &url.URL{Scheme: "http", Host: "hooks.example"}
	o.Bounds.Contacts.Every, o.Bounds.Contacts.Calm = 20*time.Millisecond, time.Millisecond
	s := start(t, o)
	c := s.client(t, testKey)
	if _, err := c.UpdateSender(t.Context(), "", map[string]any{"scopes": []string{"read", "replay", "endpoints:write"},
		"url": "smtp://hooks:s3cretOfTheMailServer@" + sink.Addr().String() + "/?fromaddress=hooks@grapnel.example"}); err != nil {
		t.Fatal(err)
	}
	contact, err := c.CreateContact(t.Context(), client.NewContact{Tenant: "acme", Mail: "ops@acme.example"})
	if err != nil || contact.Confirmed {
		t.Fatal(contact, err)
	}
	link := ""
	poll(t, "the question arrives", func() bool {
		_, link = sink.with("Confirm the address: http://hooks.example")
		return link != ""
	})
	b := newBrowser(t, s.URL())
	post := func(path string, form url.Values) (int, string) { // as from a page at the public address
		rq, err := http.NewRequestWithContext(t.Context(), "POST", s.URL()+path, strings.NewReader(form.Encode()))
		if err != nil {
			t.Fatal(err)
		}
		rq.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		rq.Header.Set("Origin", "http://hooks.example")
		resp, err := b.http.Do(rq)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = resp.Body.Close() }()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	status, _, page := b.ask("GET", link, nil)
	_, token, _ := strings.Cut(page, `name="token" value="`)
	token, _, _ = strings.Cut(token, `"`)
	if status != 200 || !strings.Contains(page, "<button") || strings.Contains(page, "Grapnel") {
		t.Fatalf("%s: answered %d %s", link, status, page)
	}
	if is, err := c.Contact(t.Context(), contact.ID); err != nil || is.Confirmed {
		t.Fatal("opening the link alone confirms the address ", err)
	}
	at, query, _ := strings.Cut(link, "?link=")
	if status, page = post(at, url.Values{"token": {token}, "link": {query}}); status != 200 || !strings.Contains(page, "ops@acme.example") {
		t.Fatalf("confirming answered %d %s", status, page)
	}

	ep, err := c.CreateEndpoint(t.Context(), client.NewEndpoint{Tenant: "acme", URL: shop.URL, Description: "Shop"})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Publish(t.Context(), client.NewEvent{Tenant: "acme", Type: "a.b", Data: []byte(`1`)}); err != nil {
		t.Fatal(err)
	}
	code := ""
	poll(t, "the contact is told", func() bool {
		_, code = sink.with("/portal#")
		return code != ""
	})
	if mail, subject := sink.with("Subject: "); strings.Contains(subject, "Confirm") == strings.Contains(subject, "Shop is disabled") {
		t.Errorf("the mail is %s", mail)
	}
	mail, _ := sink.with("Shop is disabled")
	if !strings.Contains(mail, "status 410") {
		t.Errorf("the mail does not say why: %s", mail)
	}
	status, body := post("/portal/open", url.Values{"code": {code}})
	_, first, _ := strings.Cut(body, `"to":"`)
	first, _, _ = strings.Cut(first, `"`)
	first = strings.ReplaceAll(first, `\u0026`, "&")
	if status != 200 || !strings.HasPrefix(first, "/portal/") {
		t.Fatalf("the link answered %d %s", status, body)
	}
	if status, _, page = b.ask("GET", first, nil); status != 200 || !strings.Contains(page, "Shop") {
		t.Errorf("%s: answered %d %s", first, status, page)
	}
	if again, _ := post("/portal/open", url.Values{"code": {code}}); again != 401 {
		t.Errorf("the link opens twice: %d", again)
	}
	if status, _, _ = b.ask("GET", "/portal/contacts", nil); status != 403 && status != 404 {
		t.Errorf("a link for one endpoint shows contacts: %d", status)
	}
	found, err := c.Deliveries(t.Context(), client.DeliveryFilter{Endpoint: contact.ID})
	if err != nil || len(found.Data) != 2 {
		t.Fatal(found, err)
	}
	for i := range found.Data {
		d, err := c.Delivery(t.Context(), found.Data[i].ID)
		if err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"s3cretOfTheMailServer", code, query} {
			if strings.Contains(string(d.JSON()), secret) {
				t.Errorf("%q is shown in %s", secret, d.JSON())
			}
		}
	}

	works.Store(true)
	if _, err := c.EnableEndpoint(t.Context(), ep.ID, "repaired"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Publish(t.Context(), client.NewEvent{Tenant: "acme", Type: "a.b", Data: []byte(`2`)}); err != nil {
		t.Fatal(err)
	}
	poll(t, "the recovery is told", func() bool {
		mail, _ := sink.with("Shop works again")
		return mail != ""
	})
	if is, err := c.Endpoint(t.Context(), ep.ID); err != nil || is.Status != grapnel.EndpointEnabled {
		t.Error(is, err)
	}
}
