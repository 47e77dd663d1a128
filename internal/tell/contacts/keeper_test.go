package contacts_test

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/pass"
	"github.com/grapnelhq/grapnel/internal/send/channels"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/send/egress/pipenet"
	"github.com/grapnelhq/grapnel/internal/send/engine"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
	"github.com/grapnelhq/grapnel/internal/tell/contacts"
	"github.com/grapnelhq/grapnel/policy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

// world is a store, a network, and the process between them, which can be killed and started again.
type world struct {
	t      *testing.T
	store  store.Store
	net    *pipenet.Network
	down   atomic.Bool // the endpoint answers 503
	mails  mailbox
	bounds contacts.Bounds
	sender *egress.Sender
	engine *engine.Engine
	keeper *contacts.Keeper
	also   *contacts.Keeper // of another node that believes to lead
	sealer *pass.Sealer
	stop   context.CancelFunc
	done   sync.WaitGroup
}

// mailbox is a mail server that keeps what it gets.
type mailbox struct {
	mu   sync.Mutex
	to   []string
	text []string
}

func (m *mailbox) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go m.talk(c)
	}
}

func (m *mailbox) talk(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	say := func(line string) { _, _ = io.WriteString(c, line+"\r\n") }
	say("220 mail")
	for to := ""; ; {
		line, err := r.ReadString('\n')
		if err != nil {
			return
		}
		switch line = strings.TrimRight(line, "\r\n"); {
		case strings.HasPrefix(line, "RCPT TO:"):
			to = strings.Trim(strings.TrimPrefix(line, "RCPT TO:"), "<>")
		case line == "DATA":
			say("354 go on")
			var text strings.Builder
			for line := ""; line != ".\r\n"; {
				if line, err = r.ReadString('\n'); err != nil {
					return
				}
				text.WriteString(line)
			}
			m.mu.Lock()
			m.to, m.text = append(m.to, to), append(m.text, strings.ReplaceAll(strings.ReplaceAll(text.String(), "=\r\n", ""), "=3D", "="))
			m.mu.Unlock()
		case line == "QUIT":
			say("221 bye")
			return
		}
		say("250 ok")
	}
}

// subjects are those of the mails to an address.
func (m *mailbox) subjects(address string) (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, text := range m.text {
		if m.to[i] == address {
			_, rest, _ := strings.Cut(text, "Subject: ")
			subject, _, _ := strings.Cut(rest, "\r\n")
			all = append(all, subject)
		}
	}
	return all
}

func (m *mailbox) last() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.text[len(m.text)-1]
}

func within(t *testing.T, b contacts.Bounds, test func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b.Every = time.Minute // so that a day has few rounds
		w := &world{t: t, store: memory.New(), net: pipenet.New(), bounds: b}
		go w.mails.serve(w.net.Listen("mail.test"))
		w.net.Handle("shop.test", http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) {
			if w.down.Load() {
				rw.WriteHeader(http.StatusServiceUnavailable)
			}
		}))
		w.start()
		defer func() {
			w.end()
			w.net.Close()
		}()
		_, err := w.engine.ChangeSender(ctx, func(s *grapnel.Sender) (*grapnel.AuditEntry, error) {
			s.URL.Text = "smtp://mail.test/?fromaddress=hooks@grapnel.example&fromname=Acme"
			return nil, nil
		})
		w.must(err)
		w.endpoint("shop", "acme", nil)
		w.contact("chn_1", "acme", "ops@acme.example", true)
		test(w)
	})
}

func (w *world) start() {
	w.t.Helper()
	w.sender = egress.New(egress.Options{Dial: w.net.Dial, Node: "n1"})
	log := slog.New(slog.DiscardHandler)
	var err error
	w.engine, err = engine.New(ctx, engine.Options{Store: w.store, Sender: w.sender, Log: log, DrainTimeout: time.Second,
		ContactLink: func(to *grapnel.Endpoint, message *grapnel.Event) string { return w.keeper.Link(to, message) }})
	w.must(err)
	base, _ := url.Parse("https://hooks.example/base")
	w.sealer = pass.NewSealer(w.engine.IDs().Subkey, nil, noise{})
	o := contacts.Options{Bounds: w.bounds, Engine: w.engine, Store: w.store, Log: log, PublicURL: base, Sealer: w.sealer}
	w.keeper, w.also = contacts.New(o), contacts.New(o)
	running, stop := context.WithCancel(ctx)
	w.stop = stop
	w.done.Go(func() { w.engine.Run(running) })
	w.done.Go(func() { w.keeper.Run(running) })
	w.done.Go(func() { w.also.Run(running) })
}

// noise is enough for nonces in tests.
type noise struct{}

func (noise) Read(p []byte) (int, error) { return len(p), nil }

func (w *world) end() {
	w.stop()
	w.done.Wait()
	w.sender.Close()
}

func (w *world) restart() {
	w.end()
	w.start()
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// endpoint makes one that is disabled after 36 hours of failures.
func (w *world) endpoint(id, tenant string, change func(*grapnel.Endpoint)) {
	w.t.Helper()
	p, _ := policy.Preset("standard")
	p.MaxAttempts, p.Disable = 3, policy.Disable{After: policy.Duration(36 * time.Hour), Pending: policy.PendingHold}
	ep := grapnel.Endpoint{ID: id, Tenant: tenant, URL: "http://shop.test/", Policy: p, Ordering: grapnel.Unordered, MaxConcurrency: 10,
		Format: grapnel.FormatStandard, Status: grapnel.EndpointEnabled, CreatedAt: time.Now(), UpdatedAt: time.Now(), Description: "Shop",
		Secrets: []grapnel.Secret{{Text: "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}}}
	if change != nil {
		change(&ep)
	}
	_, err := w.engine.PutEndpoint(ctx, store.Everyone(), ep, store.With{})
	w.must(err)
}

func (w *world) contact(id, tenant, mail string, confirmed bool) {
	w.t.Helper()
	w.endpoint(id, tenant, func(ep *grapnel.Endpoint) {
		ep.EventTypes, ep.Policy, ep.Ordering = []string{grapnel.EventAlertContact}, channels.Policy(), grapnel.OrderByKey
		ep.Channel = &grapnel.Channel{Service: "smtp", Contact: &grapnel.Contact{Mail: mail}}
		if confirmed {
			ep.Channel.Contact.ConfirmedAt = time.Now()
		}
	})
}

// pass lets time pass with an event each 20 minutes.
func (w *world) pass(d time.Duration) {
	w.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(min(20*time.Minute, time.Until(end))) {
		_, err := w.engine.Publish(ctx, []store.Incoming{{Event: &grapnel.Event{ID: grapnel.NewID(grapnel.EventPrefix, time.Now(), noise{}), Tenant: "acme",
			Type: "a.b", Data: []byte(`{}`), ContentType: grapnel.JSONType, OccurredAt: time.Now(), AcceptedAt: time.Now()}}}, nil)
		w.must(err)
	}
	synctest.Wait()
}

// told fails unless the subjects of the mails to the contact are these.
func (w *world) told(want ...string) {
	w.t.Helper()
	if got := w.mails.subjects("ops@acme.example"); strings.Join(got, "|") != strings.Join(want, "|") {
		w.t.Fatalf("after %s told %q, want %q", time.Now().UTC().Format(time.DateTime), got, want)
	}
}

const (
	failing   = "Shop does not accept webhooks"
	day       = "Shop has failed for a day"
	soon      = "Shop will be disabled soon"
	disabled  = "Shop is disabled"
	recovered = "Shop works again"
)

// TestStagesAreToldOnce: through days of failures, with restarts, and with two nodes that both
// believe to lead, a contact gets one mail for each stage, in their order.
func TestStagesAreToldOnce(t *testing.T) {
	within(t, contacts.Bounds{}, func(w *world) {
		w.pass(time.Hour)
		w.told()
		w.down.Store(true)
		w.pass(5 * time.Minute)
		w.told()
		w.pass(time.Hour)
		w.told(failing)
		w.restart()
		w.pass(10 * time.Hour)
		w.told(failing)
		w.pass(14 * time.Hour)
		w.told(failing, day)
		w.restart()
		w.pass(4 * time.Hour)
		w.told(failing, day, soon)
		w.pass(8 * time.Hour)
		w.told(failing, day, soon, disabled)
		text := w.mails.last()
		for _, want := range []string{"From: \"Acme\" <hooks@grapnel.example>", "To: <ops@acme.example>", "with the status 503", "can be replayed",
			"Replay missed deliveries: https://hooks.example/base/portal#grpass_"} {
			if !strings.Contains(text, want) {
				t.Errorf("the mail lacks %q:\n%s", want, text)
			}
		}
		w.restart()
		w.pass(3 * time.Hour)
		w.told(failing, day, soon, disabled)
		w.down.Store(false)
		ep, _ := w.engine.Endpoint(store.Of("acme"), "shop")
		ep.Status, ep.DisabledReason, ep.DisabledAt = grapnel.EndpointEnabled, "", time.Time{}
		_, err := w.engine.PutEndpoint(ctx, store.Everyone(), ep, store.With{})
		w.must(err)
		w.pass(5 * time.Minute)
		w.restart()
		w.pass(2 * time.Hour)
		w.told(failing, day, soon, disabled, recovered)
		w.pass(3 * time.Hour)
		w.down.Store(true) // another episode begins with the first stage
		w.pass(time.Hour)
		w.told(failing, day, soon, disabled, recovered, failing)
	})
}

// TestAFlappingEndpointHasABudget: the messages of a day are limited, the questions to confirm among
// them, and the next message says how many were held back.
func TestAFlappingEndpointHasABudget(t *testing.T) {
	within(t, contacts.Bounds{PerDay: 4}, func(w *world) {
		w.contact("chn_2", "acme", "new@acme.example", false)
		ep, _ := w.engine.Endpoint(store.Of("acme"), "chn_2")
		w.must(w.keeper.Ask(ctx, &ep))
		for range 6 { // the clock of synctest begins at midnight
			w.down.Store(true)
			w.pass(time.Hour)
			w.down.Store(false)
			w.pass(time.Hour)
		}
		w.told(failing, recovered, failing)
		if err := w.keeper.Ask(ctx, &ep); grapnel.CodeOf(err) != grapnel.CodeQuota {
			t.Errorf("a fifth message: %v", err)
		}
		w.pass(13 * time.Hour)
		w.told(failing, recovered, failing, recovered)
		if text := w.mails.last(); !strings.Contains(text, "1 message was before this one not sent") {
			t.Errorf("the mail does not say what was held back:\n%s", text)
		}
		if got := w.mails.subjects("new@acme.example"); len(got) != 1 || !strings.HasPrefix(got[0], "Confirm this address") {
			t.Errorf("an address that was not confirmed got %q", got)
		}
	})
}

// TestOnlyContactsOfTheTenant: contacts of other tenants, unconfirmed ones, deleted ones, and those of
// a server without a sender get nothing; a stage that was reached before is told to the first contact
// that comes.
func TestOnlyContactsOfTheTenant(t *testing.T) {
	within(t, contacts.Bounds{}, func(w *world) {
		w.contact("chn_2", "globex", "ops@globex.example", true)
		w.contact("chn_3", "acme", "open@acme.example", false)
		w.must(w.engine.DeleteEndpoint(ctx, store.Everyone(), "chn_1", grapnel.By{Actor: "x"}))
		w.down.Store(true)
		w.pass(25 * time.Hour)
		w.told()
		w.contact("chn_4", "acme", "ops@acme.example", true)
		ep, _ := w.engine.Endpoint(store.Of("acme"), "shop")
		ep.Description = "Shop\r\nBcc: x@y.z\r\n"
		_, err := w.engine.PutEndpoint(ctx, store.Everyone(), ep, store.With{})
		w.must(err)
		w.pass(time.Hour)
		w.told("Shop Bcc: x@y.z has failed for a day")
		if text := w.mails.last(); strings.Contains(text, "\nBcc") {
			t.Errorf("a name begins a header:\n%s", text)
		}
		w.mails.mu.Lock()
		defer w.mails.mu.Unlock()
		for _, to := range w.mails.to {
			if to != "ops@acme.example" {
				t.Errorf("%s got a mail", to)
			}
		}
	})
}

// TestLinksOfMessages: a confirmation is read with its address until it ends, and by nobody else's
// seal; a portal link opens only the endpoint of its message, with the rights of the sender.
func TestLinksOfMessages(t *testing.T) {
	within(t, contacts.Bounds{LinkFor: time.Hour}, func(w *world) {
		w.contact("chn_2", "acme", "new@acme.example", false)
		ep, _ := w.engine.Endpoint(store.Of("acme"), "chn_2")
		w.must(w.keeper.Ask(ctx, &ep))
		time.Sleep(time.Minute)
		synctest.Wait()
		_, link, _ := strings.Cut(w.mails.last(), "Confirm the address: https://hooks.example/base/portal/contacts/confirm?link=")
		link, _, _ = strings.Cut(link, "\r\n")
		if c, valid := w.keeper.Follow(link); !valid || c.Contact != "chn_2" || c.Tenant != "acme" || c.Mail != "new@acme.example" {
			t.Errorf("%t %+v by %q in\n%s", valid, c, link, w.mails.last())
		}
		if _, valid := w.keeper.Follow(link[1:]); valid {
			t.Error("a changed link is followed")
		}
		events, err := w.store.EventList(ctx, store.Everyone(), store.EventQuery{Type: grapnel.EventAlertContact, Limit: 10})
		w.must(err)
		for _, ev := range events {
			if strings.Contains(string(ev.Data), link) || strings.Contains(string(ev.Data), "grpass_") {
				t.Errorf("a link is stored: %s", ev.Data)
			}
		}
		time.Sleep(2 * time.Hour)
		if _, valid := w.keeper.Follow(link); valid {
			t.Error("an old link is followed")
		}
		w.down.Store(true)
		w.pass(time.Hour)
		_, code, _ := strings.Cut(w.mails.last(), "/portal#")
		code, _, _ = strings.Cut(code, "\r\n")
		p, ok := w.sealer.Open(code, time.Now())
		if !ok || p.Tenant != "acme" || p.Link != "chn_1" || len(p.Opens.Endpoints) != 1 || p.Opens.Endpoints[0] != "shop" || len(p.Opens.Scopes) != 2 {
			t.Errorf("%t %+v by %q", ok, p, code)
		}
	})
}
