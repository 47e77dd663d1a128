package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
)

// TestWhatAChannelWasSent: the delivery of an alert shows the request that the service got, without
// the channel's credentials: in the API, and on its page.
func TestWhatAChannelWasSent(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey = testKey
	s := start(t, o)
	service := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer service.Close()
	c := s.client(t, testKey)
	ch, err := c.CreateChannel(t.Context(), client.NewChannel{URL: "gotify://" + strings.TrimPrefix(service.URL, "http://") + "/tOkEnOfNoBoDy?disabletls=yes"})
	if err != nil {
		t.Fatal(err)
	}
	d, err := c.TestChannel(t.Context(), ch.ID)
	if err != nil {
		t.Fatal(err)
	}
	poll(t, "the alert arrives", func() bool {
		if d, err = c.Delivery(t.Context(), d.ID); err != nil {
			t.Fatal(err)
		}
		return d.Status == grapnel.Delivered
	})
	if m := d.Message; m == nil || m.Method != "POST" || !strings.HasPrefix(m.URL, service.URL+"/message") ||
		!strings.Contains(m.Body, `"title":"🔔 Test of this channel"`) {
		t.Errorf("the message is %+v", m)
	}
	b := newBrowser(t, s.URL())
	b.signIn(testKey)
	_, _, page := b.ask("GET", "/deliveries/"+d.ID, nil)
	if !strings.Contains(page, "POST "+service.URL+"/message") || !strings.Contains(page, "priority") || strings.Contains(page, "tOkEn") ||
		strings.Contains(string(d.JSON()), "tOkEn") {
		t.Errorf("the page is %s\nthe answer is %s", page, d.JSON())
	}
}

// TestRequestsThatFailVerification: the alert about them counts these requests and no others that
// the source refuses.
func TestRequestsThatFailVerification(t *testing.T) {
	o := options(t.TempDir())
	o.AdminKey = testKey
	s := start(t, o)
	c := s.client(t, testKey)
	src, err := c.CreateSource(t.Context(), client.NewSource{Name: "hub", MaxBody: 16, Verify: client.NewVerify{Scheme: "github", Secret: "the-first-one"}})
	if err != nil {
		t.Fatal(err)
	}
	refused := func(secret, body string, status, times int) {
		h := s.hub(t, src, secret)
		for range times {
			if got := h.send("1", body); got.status != status {
				t.Fatalf("answered %d, want %d", got.status, status)
			}
		}
	}
	fired := func() int {
		if err := s.life.alerts.Evaluate(t.Context()); err != nil {
			t.Fatal(err)
		}
		all, err := c.Alerts(t.Context(), client.AlertFilter{Rule: alert.SignatureFails})
		if err != nil {
			t.Fatal(err)
		}
		return len(all.Data)
	}
	long := strings.Repeat("x", 17)
	refused("the-first-one", long, http.StatusRequestEntityTooLarge, 9)
	refused("another-one", "{}", http.StatusUnauthorized, 1)
	if fired() != 0 {
		t.Error("requests that are too long count as not verified")
	}
	refused("another-one", "{}", http.StatusUnauthorized, 9)
	refused("the-first-one", long, http.StatusRequestEntityTooLarge, 1)
	if fired() != 1 {
		t.Error("one that is too long hides those that are not verified")
	}
}
