package egress

import (
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/channels"
	"github.com/grapnelhq/grapnel/internal/send/egress/pipenet"
	"github.com/grapnelhq/grapnel/policy"
)

// TestChannelsInCapitals: the host of a channel's URL is the same host in capitals.
func TestChannelsInCapitals(t *testing.T) {
	for raw, asked := range map[string]string{
		"generic+http://Hooks.Example/Alerts?a=B":                        "/Alerts?a=B",
		"ntfy://Hooks.Example/topic?scheme=http":                         "/",
		"gotify://HOOKS.EXAMPLE:8080/AzyoeNS.D4iJLVa?disabletls=yes":     "/message",
		"mattermost://Hooks.Example:8080/tOkEnOfNoBoDy?disabletls=yes":   "/hooks/tOkEnOfNoBoDy",
		"rocketchat://Hooks.Example:8080/a/tOkEnOfNoBoDy?disabletls=yes": "/hooks/a/tOkEnOfNoBoDy",
	} {
		synctest.Test(t, func(t *testing.T) {
			n := pipenet.New()
			defer n.Close()
			got := make(chan string, 1)
			n.Handle("hooks.example", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.RequestURI }))
			s := piped(t, n, Options{})
			defer s.Close()
			e := endpoint("")
			e.Channel, e.Policy = &grapnel.Channel{URL: grapnel.Secret{Text: raw}}, channels.Policy()
			d := delivery(e)
			d.Event.Type = grapnel.EventAlertTest
			r := send(s, d)
			if r.Outcome.Class != policy.ClassNone {
				t.Fatalf("%s: %+v %s", raw, r.Outcome, r.Error)
			}
			if is := <-got; is != asked {
				t.Errorf("%s: the service is asked for %s", raw, is)
			}
		})
	}
	mail, err := channels.Read("smtp://Mail.Example.com/?fromaddress=a@example.com&toaddresses=b@example.com")
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckChannel(mail, URLRules{}); err != nil {
		t.Error("the mail server", err)
	}
	if mail.Mail.Host = "LOCALHOST"; CheckChannel(mail, URLRules{}) == nil {
		t.Error("this machine is allowed in capitals")
	}
}
