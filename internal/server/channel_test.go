package server

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
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
