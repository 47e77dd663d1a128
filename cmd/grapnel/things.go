package main

import (
	"cmp"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel/internal/face/words"
)

// thing is a kind of object that commands take by its id, and some by its name too.
type thing struct {
	word   string // in usages: "get ENDPOINT"
	what   string // in sentences
	path   string
	prefix string // of its ids; empty: it has only a name
	named  bool   // people give it a name, by which search= finds it
	direct bool   // the server takes the name in the place of the id
	sample string // in examples
}

var things = []thing{
	{"ENDPOINT", "endpoint", "/v1/endpoints", "ep_", true, false, "Warehouse"},
	{"SOURCE", "source", "/v1/sources", "src_", true, false, "stripe-live"},
	{"QUEUE", "queue", "/v1/queues", "que_", true, true, "orders"},
	{"CHANNEL", "channel", "/v1/channels", "chn_", true, false, "'on call'"},
	{"CONTACT", "contact", "/v1/contacts", "chn_", true, false, "ops@acme.example"},
	{"POLICY", "policy", "/v1/policies", "pol_", true, false, "patient"},
	{"KEY", "API key", "/v1/keys", "key_", true, false, "ci"},
	{"TYPE", "event type", "/v1/event-types", "typ_", true, true, "invoice.paid"},
	{"TENANT", "tenant", "/v1/tenants", "", true, true, "acme"},
	{"DELIVERY_ID", "delivery", "/v1/deliveries", "dlv_", false, true, "dlv_…"},
	{"EVENT_ID", "event", "/v1/events", "evt_", false, true, "evt_…"},
	{"REPLAY_ID", "replay", "/v1/replays", "rpl_", false, true, "rpl_…"},
	{"ISSUE_ID", "issue", "/v1/issues", "iss_", false, true, "iss_…"},
	{"ALERT_ID", "alert", "/v1/alerts", "alr_", false, true, "alr_…"},
	{"REQUEST_ID", "request", "/v1/inbox", "req_", false, true, "req_…"},
	{"ERASURE_ID", "erasure", "/v1/erasures", "ers_", false, true, "ers_…"},
	{"INCIDENT_ID", "incident", "/v1/incidents", "inc_", false, true, "inc_…"},
	{"LEASE", "lease", "", "lse_", false, true, "lse_…"},
}

// ofFlags are the kinds of objects that flags name. Each is tried until one has the name.
var ofFlags = map[string][]string{
	"endpoint": {"ENDPOINT", "QUEUE", "CHANNEL"}, "source": {"SOURCE"}, "queue": {"QUEUE"}, "policy": {"POLICY"}, "delivery": {"DELIVERY_ID"},
	"tenant": {"TENANT"}, "type": {"TYPE"}, "types": {"TYPE"},
}

// thingOf is the kind of a word of a usage, such as "[ENDPOINT…]".
func thingOf(word string) (thing, bool) {
	word = strings.Trim(word, "[]…")
	i := slices.IndexFunc(things, func(t thing) bool { return t.word == word })
	if i < 0 {
		return thing{}, false
	}
	return things[i], true
}

// thingWithID is the kind of object that has an id; false: the text is no id.
func thingWithID(text string) (thing, bool) {
	i := slices.IndexFunc(things, func(t thing) bool { return t.prefix != "" && strings.HasPrefix(text, t.prefix) })
	if i < 0 {
		return thing{}, false
	}
	return things[i], true
}

// found is what all kinds of objects have in common in answers.
type found struct {
	ID          string `json:"id"`
	Name        string `json:"name"`
	Description string `json:"description"`
	URL         string `json:"url"`
	Tenant      string `json:"tenant"`
	Type        string `json:"type"`
	Title       string `json:"title"`
	Status      string `json:"status"`
	State       string `json:"state"`
}

// label is how people call an object; empty: they do not.
func (f *found) label() string {
	return cmp.Or(f.Name, f.Description, called(f.URL))
}

// called is a URL as people call an endpoint by it.
func called(url string) string {
	url, _, _ = strings.Cut(url, "?")
	return words.Where(url)
}

// is says whether a text is a name of an object, whole.
func (f *found) is(text string) bool {
	return slices.ContainsFunc([]string{f.ID, f.Name, f.Description, f.URL, called(f.URL)},
		func(name string) bool { return strings.EqualFold(name, text) })
}
