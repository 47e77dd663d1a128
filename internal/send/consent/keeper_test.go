package consent_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/consent"
	"github.com/grapnelhq/grapnel/internal/store"
)

var byPerson = grapnel.By{Actor: "key_1", Reason: "they answer now"}

func bubble(t *testing.T, bounds consent.Bounds, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, bounds)
		defer b.close()
		test(t, b)
	})
}

// TestNothingIsDeliveredBeforeConsent: events wait, in order, until the address answers the
// challenge; then all of them arrive. The challenge is signed like a delivery.
func TestNothingIsDeliveredBeforeConsent(t *testing.T) {
	bubble(t, consent.Bounds{}, func(t *testing.T, b *bench) {
		var r receiver
		b.create("ep", "acme", b.host("a.test", &r))
		for range 5 {
			b.publish("acme", "k")
		}
		time.Sleep(30 * time.Second)
		if challenges, deliveries, _ := r.counts(); challenges != 1 || deliveries != 0 {
			t.Fatalf("%d challenges and %d deliveries", challenges, deliveries)
		}
		for _, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
			if r.last.Header.Get(name) == "" {
				t.Errorf("no %s", name)
			}
		}
		ep := b.at("ep")
		if ep.Status != grapnel.EndpointPaused || ep.DisabledReason != grapnel.ConsentReason+": it answered 200 without the challenge" {
			t.Errorf("%s, %q", ep.Status, ep.DisabledReason)
		}
		r.mu.Lock()
		r.agrees()
		r.mu.Unlock()
		time.Sleep(2 * time.Minute)
		if challenges, deliveries, early := r.counts(); challenges != 2 || deliveries != 5 || early != 0 {
			t.Errorf("%d challenges and %d deliveries, %d of them early", challenges, deliveries, early)
		}
		if ep := b.at("ep"); ep.Status != grapnel.EndpointEnabled || ep.DisabledReason != "" || ep.Consent.GivenAt.IsZero() {
			t.Errorf("%s, %q, %+v", ep.Status, ep.DisabledReason, ep.Consent)
		}
	})
}

// TestWhatIsNoConsent: an answer consents with a 2xx and the token, alone or as the member
// challenge. A server that returns each request as it came does not.
func TestWhatIsNoConsent(t *testing.T) {
	say := func(code int, text string) func(http.ResponseWriter, string) {
		return func(w http.ResponseWriter, token string) {
			w.WriteHeader(code)
			_, _ = io.WriteString(w, strings.ReplaceAll(text, "TOKEN", token))
		}
	}
	for _, c := range []struct {
		answer func(http.ResponseWriter, string)
		given  bool
		cause  string
	}{
		{say(200, "TOKEN"), true, ""},
		{say(202, " TOKEN\n"), true, ""},
		{say(200, `{"challenge":"TOKEN","more":1}`), true, ""},
		{say(200, `{"data":{"challenge":"TOKEN"}}`), false, "it answered 200 without the challenge"},
		{say(200, "TOKENx"), false, "it answered 200 without the challenge"},
		{say(200, ""), false, "it answered 200 without the challenge"},
		{say(200, `{"challenge":["TOKEN"]}`), false, "it answered 200 without the challenge"},
		{say(404, "TOKEN"), false, "404"},
		{say(500, "TOKEN"), false, "500"},
	} {
		bubble(t, consent.Bounds{}, func(t *testing.T, b *bench) {
			r := receiver{answer: c.answer}
			b.create("ep", "acme", b.host("a.test", &r))
			time.Sleep(time.Second)
			ep := b.at("ep")
			if ep.Consent.GivenAt.IsZero() == c.given || !strings.Contains(ep.Consent.Cause, c.cause) || (ep.Consent.Cause == "") != c.given {
				t.Errorf("%q: %+v", c.cause, ep.Consent)
			}
		})
	}
}

// TestChallengesAreFew: an address that does not consent is asked Bounds.Tries times, with growing
// pauses, across restarts, and then by people only.
func TestChallengesAreFew(t *testing.T) {
	bubble(t, consent.Bounds{}, func(t *testing.T, b *bench) {
		var r receiver
		b.create("ep", "acme", b.host("a.test", &r))
		for range 100 {
			time.Sleep(6 * time.Minute)
			b.halt()
			b.start()
		}
		if n, _, _ := r.counts(); n != 8 {
			t.Fatalf("%d challenges", n)
		}
		if ep := b.at("ep"); !ep.Consent.Next.IsZero() || ep.Consent.Asked != 8 {
			t.Errorf("%+v", ep.Consent)
		}
		ep, err := b.keeper.Ask(t.Context(), "ep", byPerson)
		if n, _, _ := r.counts(); n != 9 || err != nil || ep.Consent.Cause == "" {
			t.Errorf("%d challenges, %v", n, err)
		}
		r.mu.Lock()
		r.agrees()
		r.mu.Unlock()
		if ep, err = b.keeper.Ask(t.Context(), "ep", byPerson); err != nil || ep.Status != grapnel.EndpointEnabled {
			t.Errorf("%s, %v", ep.Status, err)
		}
		if _, err = b.keeper.Ask(t.Context(), "ep", byPerson); grapnel.CodeOf(err) != grapnel.CodeConflict {
			t.Errorf("an endpoint that waits for nothing was asked: %v", err)
		}
	})
}

// TestTheBudgetOfChallenges: whatever a tenant does, it sends PerTenant challenges at once, and all
// tenants together send PerHost to one host; as many again within an hour.
func TestTheBudgetOfChallenges(t *testing.T) {
	bubble(t, consent.Bounds{PerTenant: 10, PerHost: 25, Tries: 1}, func(t *testing.T, b *bench) {
		var r receiver
		url := b.host("victim.test", &r)
		b.create("ep_1", "t1", url)
		var last error
		for i := range 100 {
			b.change("ep_1", func(ep *grapnel.Endpoint) { ep.URL = url + strings.Repeat("x", i+1) })
			_, last = b.keeper.Ask(t.Context(), "ep_1", byPerson)
		}
		refused := (*grapnel.Error)(nil)
		if e, ok := last.(*grapnel.Error); ok { //nolint:errorlint // it is returned as it is
			refused = e
		}
		if n, _, _ := r.counts(); n != 10 || refused == nil || refused.Code != grapnel.CodeRateLimited || refused.RetryAfter <= 0 {
			t.Fatalf("%d challenges of one tenant, %v", n, last)
		}
		for _, tenant := range []string{"t2", "t3", "t4"} {
			b.create("ep_"+tenant, tenant, url)
			for range 20 {
				_, _ = b.keeper.Ask(t.Context(), "ep_"+tenant, byPerson)
			}
		}
		if n, _, _ := r.counts(); n != 25 {
			t.Fatalf("%d challenges to one host", n)
		}
		elsewhere := (&receiver{}).agrees()
		b.create("ep_5", "t5", b.host("other.test", elsewhere))
		time.Sleep(time.Second)
		if n, _, _ := elsewhere.counts(); n != 1 {
			t.Errorf("another tenant's address was asked %d times", n)
		}
		for range 60 {
			time.Sleep(time.Minute)
			_, _ = b.keeper.Ask(t.Context(), "ep_1", byPerson)
		}
		if n, _, _ := r.counts(); n > 25+25 {
			t.Errorf("%d challenges after an hour", n)
		}
	})
}

// TestTheLeaderCountsForAllNodes: challenges of another node use the same budgets, so two nodes
// send no more than one. A challenge that is not sent is given back, and none is sent while no node
// counts.
func TestTheLeaderCountsForAllNodes(t *testing.T) {
	bubble(t, consent.Bounds{Every: time.Hour, PerHost: 10, Tries: 1}, func(t *testing.T, b *bench) {
		var r receiver
		b.create("ep", "acme", b.host("victim.test", &r))
		time.Sleep(time.Second)
		counted, away := 0, error(nil)
		other := b.follower(func(_ context.Context, tenant string, hosts []string, back bool) error {
			if away != nil {
				return away
			}
			if counted++; back {
				counted -= 2
			}
			return b.keeper.Spend(tenant, hosts, back)
		})
		away = grapnel.Errorf(grapnel.CodeUnavailable, "away")
		if _, err := other.Ask(t.Context(), "ep", byPerson); err != away { //nolint:errorlint // it is returned as it is
			t.Errorf("without a node that counts: %v", err)
		}
		away = nil
		if err := other.Spend("acme", nil, false); grapnel.CodeOf(err) != grapnel.CodeUnavailable {
			t.Errorf("a node that does not lead counts: %v", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := other.Ask(ended, "ep", byPerson); err == nil || counted != 0 {
			t.Errorf("a challenge that could not begin: %v; counted %d", err, counted)
		}
		for range 20 {
			_, _ = other.Ask(t.Context(), "ep", byPerson)
			_, _ = b.keeper.Ask(t.Context(), "ep", byPerson)
		}
		if n, _, _ := r.counts(); n != 10 {
			t.Errorf("two nodes sent %d challenges to one host", n)
		}
	})
}

// TestProxyAndTokenServerAreAddresses: requests go there, too.
func TestProxyAndTokenServerAreAddresses(t *testing.T) {
	for what, edit := range map[string]func(*grapnel.Endpoint){
		"a proxy":        func(ep *grapnel.Endpoint) { ep.Proxy = grapnel.Secret{Text: "http://victim.test:3128"} },
		"a token server": func(ep *grapnel.Endpoint) { ep.OAuth2 = &grapnel.OAuth2{TokenURL: "http://victim.test/token"} },
		"a query":        func(ep *grapnel.Endpoint) { ep.URL += "?to=victim" },
	} {
		ep := grapnel.Endpoint{URL: "http://a.test", Status: grapnel.EndpointEnabled, Consent: &grapnel.Consent{GivenAt: time.Now()}}
		before := ep
		edit(&ep)
		if ep.AskConsent(&before, grapnel.ConsentRequired, time.Now()); !ep.HeldForConsent() {
			t.Errorf("%s was added without consent", what)
		}
		if before.Consent.GivenAt.IsZero() {
			t.Error("the endpoint before was changed")
		}
	}
	for what, ep := range map[string]grapnel.Endpoint{"a queue": {Queue: &grapnel.Queue{}}, "a channel": {Channel: &grapnel.Channel{}},
		"a broker": {Target: &grapnel.Target{}}} {
		ep.Status = grapnel.EndpointEnabled
		if ep.AskConsent(nil, grapnel.ConsentRequired, time.Now()); ep.Status != grapnel.EndpointEnabled || ep.Consent != nil {
			t.Errorf("%s waits for consent", what)
		}
	}
}

// TestPeoplesWishesAndConsent: a person's pause and disabling outlast consent, and no status that a
// person sets stands for consent.
func TestPeoplesWishesAndConsent(t *testing.T) {
	bubble(t, consent.Bounds{}, func(t *testing.T, b *bench) {
		var r receiver
		b.create("ep", "acme", b.host("a.test", &r))
		b.publish("acme", "k")
		set := func(status grapnel.EndpointStatus) {
			b.change("ep", func(ep *grapnel.Endpoint) { ep.Status, ep.DisabledReason = status, "" })
			time.Sleep(time.Second)
		}
		for _, status := range []grapnel.EndpointStatus{grapnel.EndpointEnabled, grapnel.EndpointPaused, grapnel.EndpointDisabled, grapnel.EndpointEnabled} {
			if set(status); b.at("ep").Status == grapnel.EndpointEnabled {
				t.Fatalf("%s made it enabled", status)
			}
		}
		set(grapnel.EndpointPaused)
		r.mu.Lock()
		r.agrees()
		r.mu.Unlock()
		if ep, err := b.keeper.Ask(t.Context(), "ep", byPerson); err != nil || ep.AwaitsConsent() || ep.Status != grapnel.EndpointPaused {
			t.Errorf("%s, %v", ep.Status, err)
		}
		set(grapnel.EndpointEnabled)
		if _, deliveries, early := r.counts(); deliveries != 1 || early != 0 {
			t.Errorf("%d deliveries, %d early", deliveries, early)
		}
	})
}

// TestTheRuleChanges: endpoints from before keep their deliveries, and those that wait are released
// when their tenant requires consent no more.
func TestTheRuleChanges(t *testing.T) {
	bubble(t, consent.Bounds{}, func(t *testing.T, b *bench) {
		var old, fresh receiver
		b.terms("acme", grapnel.ConsentOff)
		b.create("ep_old", "acme", b.host("a.test", &old))
		b.terms("acme", "")
		b.create("ep_new", "acme", b.host("b.test", &fresh))
		b.publish("acme", "k")
		time.Sleep(5 * time.Second)
		if c, d, _ := old.counts(); c != 0 || d != 1 {
			t.Errorf("an endpoint from before: %d challenges, %d deliveries", c, d)
		}
		if c, d, _ := fresh.counts(); c != 1 || d != 0 {
			t.Errorf("a new endpoint: %d challenges, %d deliveries", c, d)
		}
		b.terms("acme", grapnel.ConsentOff)
		time.Sleep(time.Minute)
		if c, d, _ := fresh.counts(); c != 1 || d != 1 || b.at("ep_new").Consent != nil {
			t.Errorf("a released endpoint: %d challenges, %d deliveries", c, d)
		}
	})
}

// TestAnAnswerOfTheFormerAddress: it changes nothing for the address that the endpoint has by then.
func TestAnAnswerOfTheFormerAddress(t *testing.T) {
	bubble(t, consent.Bounds{}, func(t *testing.T, b *bench) {
		slow, victim := (&receiver{}).agrees(), &receiver{}
		answer := slow.answer
		slow.answer = func(w http.ResponseWriter, token string) {
			time.Sleep(5 * time.Second)
			answer(w, token)
		}
		b.create("ep", "acme", b.host("a.test", slow))
		b.publish("acme", "k")
		time.Sleep(time.Second)
		b.change("ep", func(ep *grapnel.Endpoint) { ep.URL = b.host("b.test", victim) })
		time.Sleep(20 * time.Second)
		if _, d, _ := victim.counts(); d != 0 || !b.at("ep").HeldForConsent() {
			t.Errorf("%d deliveries, %+v", d, b.at("ep").Consent)
		}
	})
}

// TestTwoNodesSendOneChallenge: of two that begin it from the same revision, one does.
func TestTwoNodesSendOneChallenge(t *testing.T) {
	bubble(t, consent.Bounds{Every: time.Hour}, func(t *testing.T, b *bench) {
		var r receiver
		url := b.host("a.test", &r)
		b.halt() // its keeper would be a third
		b.start()
		ep := grapnel.Endpoint{ID: "ep", Tenant: "acme", URL: url, PolicyName: "standard", Status: grapnel.EndpointEnabled,
			Secrets: []grapnel.Secret{{Text: "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="}}, CreatedAt: time.Now(), UpdatedAt: time.Now()}
		ep.AskConsent(nil, grapnel.ConsentRequired, time.Now())
		if _, err := b.engine.PutEndpoint(t.Context(), store.Everyone(), ep, store.With{}); err != nil {
			t.Fatal(err)
		}
		still := &lagging{Engine: b.engine, ep: *b.at("ep")}
		conflicts := 0
		for range 2 {
			k := b.another(still)
			if _, err := k.Ask(context.Background(), "ep", byPerson); grapnel.CodeOf(err) == grapnel.CodeConflict {
				conflicts++
			}
		}
		if n, _, _ := r.counts(); n != 1 || conflicts != 1 {
			t.Errorf("%d challenges, %d conflicts", n, conflicts)
		}
	})
}
