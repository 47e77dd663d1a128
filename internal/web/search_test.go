package web

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

func TestSearch(t *testing.T) {
	for text, want := range map[string]client.DeliveryFilter{
		"":                               {},
		"status:failed":                  {Status: []grapnel.Status{grapnel.Failed}},
		"status:failed,held":             {Status: []grapnel.Status{grapnel.Failed, grapnel.Held}},
		"status:waiting":                 {Status: []grapnel.Status{grapnel.Pending, grapnel.Held}},
		"status:dead endpoint:ep_1":      {Status: []grapnel.Status{grapnel.Failed}, Endpoint: "ep_1"},
		"type:invoice.* key:inv_1":       {Type: "invoice.*", Key: "inv_1"},
		`key:"with space" tenant:acme`:   {Key: "with space", Tenant: "acme"},
		"key:urn:inv:1":                  {Key: "urn:inv:1"},
		"code:503":                       {StatusCode: 503},
		"code:5XX":                       {ErrorClass: "status_5xx"},
		"error:timeout reason:exhausted": {ErrorClass: "timeout", ReasonCode: "exhausted"},
		"since:6h":                       {From: then.Add(-6 * time.Hour).Truncate(time.Minute)},
		"from:2026-05-06T08:00:00Z to:2026-05-06T14:00:00Z": {
			From: time.Date(2026, 5, 6, 8, 0, 0, 0, time.UTC), To: time.Date(2026, 5, 6, 14, 0, 0, 0, time.UTC),
		},
		`"status:failed"`:            {Text: "status:failed"},
		`paid "in full" status:held`: {Text: "paid in full", Status: []grapnel.Status{grapnel.Held}},
		"http://a.example":           {Text: "http://a.example"},
	} {
		s := parseSearch(text, then)
		if d := cmp.Diff(want, s.Filter); d != "" || len(s.Faults) > 0 {
			t.Errorf("%s: %v %s", text, s.Faults, d)
		}
	}
	for _, text := range []string{"status:nope", "code:99", "code:x", "since:-1h", "since:x", "from:yesterday", "status:", "type:..", "to:"} {
		if s := parseSearch(text, then); len(s.Faults) != 1 {
			t.Errorf("%s: faults are %v", text, s.Faults)
		}
	}
	for text, want := range map[string]string{"dlv_01m83vb": "/deliveries/dlv_01m83vb", " ep_1 ": "/endpoints/ep_1", "ep_1 x": "", "dlv_../x": "", `"dlv_1"`: ""} {
		if s := parseSearch(text, then); s.Jump != want {
			t.Errorf("%s leads to %q, want %q", text, s.Jump, want)
		}
	}
}

// TestSavedViewsCanBeRead: each of them is a search without faults.
func TestSavedViewsCanBeRead(t *testing.T) {
	for _, v := range savedViews {
		if s := parseSearch(v.q, then); len(s.Faults) > 0 || s.Filter.Text != "" {
			t.Errorf("%s: %v, text %q", v.name, s.Faults, s.Filter.Text)
		}
	}
	for _, name := range searchNames {
		if s := parseSearch(name+":"+examples[name], then); name != "endpoint" && len(s.Faults) > 0 {
			t.Errorf("the example of %s: %v", name, s.Faults)
		}
	}
}

// FuzzSearch: any text can be read; the words written back are read as the same words.
func FuzzSearch(f *testing.F) {
	for _, seed := range []string{"", "status:failed type:a.*", `key:"a b" "text: here" x`, `"`, `a"b:c"d`, "key:", "::", polyglot} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := parseSearch(text, then)
		var words []string
		for _, token := range tokens(s.Text) {
			if strings.Contains(token.value, `"`) {
				t.Fatalf("%q: the word %q has a quotation mark", text, token)
			}
			words = append(words, token.String())
		}
		if again := tokens(strings.Join(words, " ")); !slices.Equal(again, tokens(s.Text)) {
			t.Fatalf("%q: %q became %q", text, tokens(s.Text), again)
		}
	})
}
