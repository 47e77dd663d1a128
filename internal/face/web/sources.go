package web

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/face/words"
	"github.com/grapnelhq/grapnel/internal/inbound/byhand"
)

// sourcesModel is the list of sources.
type sourcesModel struct {
	pager
	Verdict verdict
	Rows    []sourceRow
	Inbox   string // where the requests to all sources are
}

// sourceRow is one source in a list.
type sourceRow struct {
	Whose      whose
	Href, Name string
	Pill       pill
	Provider   string
	Address    string // where the provider sends, or where the outbox is
	Why        string
	Refused    string // in the last hour
	Last       moment // of the last refusal
}

func sources(v *visit) (sourcesModel, error) {
	m := sourcesModel{Inbox: v.link("/inbox"), Verdict: verdict{Acts: v.formLinks("/sources/", "new", "Add a source")}}
	f := v.listed()
	found, err := v.client.Sources(v.Context(), f)
	if err != nil || len(found.Data) == 0 && v.unfound(&m.Verdict, "source") {
		return m, err
	}
	if len(found.Data) == 0 && f.Cursor == "" {
		m.Verdict.Command = createSourceCommand
		m.Verdict.say("There is no source yet.", "",
			"A source is an address that takes the webhooks of a provider, verifies them, and turns each into one event.")
		return m, nil
	}
	refused, unwell, waiting := 0, 0, 0
	for i := range found.Data {
		r := v.sourceRow(&found.Data[i])
		if n := found.Data[i].Refusals; n != nil {
			refused += n.LastHour
		}
		if r.Pill.Tone == toneBad {
			unwell++
		}
		if found.Data[i].Waits {
			waiting++
		}
		m.Rows = append(m.Rows, r)
	}
	switch {
	case refused > 0:
		m.Verdict.say(say.Many(refused, "request was", "requests were")+" refused in the last hour.", "",
			"A refused request is not stored. Its reason is on the page of its source.")
	case unwell > 0:
		m.Verdict.say(say.Many(unwell, "source needs", "sources need")+" attention.", "", "")
	case waiting > 0:
		m.Verdict.say(say.Many(waiting, "source waits for its secret", "sources wait for their secrets")+".", toneWait,
			"Requests are quarantined meanwhile. The page of the source has the next step.")
	default:
		m.Verdict.say(say.Many(len(m.Rows), "source accepts", "sources accept")+" all requests.", "", "No request was refused in the last hour.")
	}
	if m.pager = v.pager("/sources", f.Cursor, found.Next, "q", f.Search); m.here() != "" {
		m.Verdict.Next += " These are not all sources; the list has further pages."
	}
	return m, nil
}

func (v *visit) sourceRow(s *client.Source) sourceRow {
	r := sourceRow{Whose: v.whose(s.Tenant), Href: v.link("/sources/" + s.ID), Name: s.Name, Pill: sourcePill(s), Provider: s.Provider.Title, Address: v.ingest(s)}
	if s.Verify.Scheme == "none" {
		r.Provider = "not verified"
	}
	if s.Outbox != nil {
		r.Provider, r.Address, r.Why = "outbox", s.Outbox.Place, s.Outbox.Detail
	}
	if o := consumer(s); s.Broker != nil {
		r.Provider, r.Address, r.Why = s.Broker.Kind, o.Place, o.Detail
	}
	if s.Refusals != nil {
		r.Why, r.Last = words.Instants(s.Refusals.LastReason), v.at(s.Refusals.LastAt)
		if s.Refusals.LastHour > 0 {
			r.Refused = say.Count(s.Refusals.LastHour)
		}
	}
	return r
}

// ingest is the whole address where the provider sends its requests; empty with an outbox.
func (v *visit) ingest(s *client.Source) string {
	if strings.HasPrefix(s.IngestURL, "/") {
		return v.place.scheme + "://" + v.place.host + s.IngestURL // which has the base
	}
	return s.IngestURL
}

// outboxPills are the states of a relay.
var outboxPills = map[string]pill{
	"paused": {toneHold, "paused"}, "connecting": {toneWait, "connecting"}, "relaying": {toneOK, "relaying"},
	"standby": {toneNone, "standby"}, "held": {toneWait, "held"}, "away": {toneBad, "away"},
}

// consumer is how the broker of a source is read; nil: the source has none.
func consumer(s *client.Source) *client.Outbox {
	if s.Broker == nil && s.TLS == nil {
		return nil
	}
	return cmp.Or(s.Consumer, &client.Outbox{})
}

func sourcePill(s *client.Source) pill {
	switch {
	case s.Status == grapnel.EndpointPaused:
		return pill{toneHold, "paused"}
	case s.Outbox != nil:
		return pillIn(outboxPills, s.Outbox.State)
	case s.Broker != nil:
		return pillIn(outboxPills, consumer(s).State)
	case s.Waits:
		return pill{toneWait, "waits for its secret"}
	case s.Refusals != nil && s.Refusals.LastHour > 0:
		return pill{toneBad, "refusing"}
	}
	return pill{toneOK, "accepting"}
}

// sourceModel is one source: what it refuses and why, its address, its last requests.
type sourceModel struct {
	ID, Name string
	Pill     pill
	Verdict  verdict
	Address  string
	Warning  string // why the provider cannot reach the address
	Try      string // command that sends a request like the provider's
	Provider facts
	Settings facts
	Requests []requestRow
	All      string
	Links    []act // forms about it
}

const mostRequests = 8

func source(v *visit, s *client.Source) (sourceModel, error) {
	v.title = s.Name
	m := sourceModel{ID: s.ID, Name: s.Name, Pill: sourcePill(s), Address: v.ingest(s), All: v.link("/inbox" + withQuery("source", s.ID))}
	inbox, err := v.client.Inbox(v.Context(), client.InboxFilter{Source: s.ID, Tenant: s.Tenant, Limit: mostRequests})
	if err != nil {
		return m, err
	}
	for i := range inbox.Data {
		m.Requests = append(m.Requests, v.requestRow(&inbox.Data[i]))
	}
	m.Verdict = v.sourceVerdict(s, m.Requests)
	m.describe(v, s)
	if s.PublicURL == "" && strings.HasPrefix(s.IngestURL, "/") { // else the operator has said it
		m.Warning = words.Unreachable(m.Address)
	}
	if s.Outbox == nil && s.Broker == nil {
		m.Try = triggerCommand(s.Verify.Scheme, s.ID)
	}
	m.Links = v.formLinks("/sources/{id}/", "edit", "Change", "delete", "Delete")
	if len(s.Verify.Secrets) > 0 {
		m.Links = slices.Insert(m.Links, min(1, len(m.Links)), v.formLinks("/sources/{id}/", "rotate", "Rotate the secret")...)
	}
	return m, nil
}

// triggerCommand sends a request of a scheme's first type to a source.
func triggerCommand(scheme, source string) string {
	fixtures, err := byhand.Fixtures(scheme)
	if err != nil || len(fixtures) == 0 {
		return ""
	}
	command := "grapnel trigger " + scheme + " " + shellQuote(fixtures[0].Type) + " --source " + shellQuote(source)
	if scheme != "none" {
		command += " --secret @secret.txt"
	}
	return command
}

func (v *visit) sourceVerdict(s *client.Source, requests []requestRow) (out verdict) {
	switch {
	case s.Status == grapnel.EndpointPaused && s.Outbox != nil:
		out.say("It is paused. Events wait in the producer's database.", toneHold, "")
	case s.Status == grapnel.EndpointPaused && s.Broker != nil:
		out.say("It is paused. Messages wait in the broker.", toneHold, "")
	case s.Status == grapnel.EndpointPaused:
		out.say("It is paused. Requests get 503, so that the provider repeats them.", toneHold, sentence(s.Provider.Retries))
	case s.Outbox != nil:
		out.relaying("Its outbox is ", sourcePill(s), s.Outbox)
	case s.Broker != nil:
		out.relaying("Its consumer is ", sourcePill(s), consumer(s))
	case s.Waits:
		out.say("It waits for its secret.", toneWait, "Give its address to "+s.Provider.Title+", then set the secret that it shows. Requests that "+
			"come before are quarantined; those that the secret verifies become events, in the order of their arrival.")
		out.Acts = append(out.Acts, v.formLinks("/sources/{id}/", "edit", "Set the secret")...)
	case s.Refusals != nil && s.Refusals.LastHour > 0:
		out.say("It refused "+say.Many(s.Refusals.LastHour, "request", "requests")+" in the last hour.", toneBad,
			fmt.Sprintf("The last was answered with %d %s: %s", s.Refusals.LastStatus, v.at(s.Refusals.LastAt).Relative(),
				sentence(s.Refusals.LastReason)))
		if s.Provider.RetriesFor != nil {
			out.Next += " The provider repeats a refused request for " + say.Spoken(time.Duration(*s.Provider.RetriesFor)) + "."
		} else {
			out.Next += " Repeated requests: " + sentence(s.Provider.Retries)
		}
		v.offerQuarantine(&out, s)
	case len(requests) == 0:
		out.say("It has accepted no request yet.", "", "Give its address to the provider.")
	default:
		out.say("It accepts its requests.", "", "The last one came "+requests[0].At.Relative()+". None was refused in the last hour.")
	}
	v.offerPause(&out, "/sources/{id}", s.ID, s.Status == grapnel.EndpointPaused)
	return out
}

// relaying says how a relay is doing.
func (v *verdict) relaying(what string, p pill, o *client.Outbox) {
	v.say(what+p.Word+".", map[bool]string{true: p.Tone}[p.Tone != toneOK && p.Tone != toneNone], sentence(o.Detail))
	if o.Lag > 0 {
		v.Next += " The oldest event waits for " + say.Spoken(time.Duration(o.Lag)) + "."
	}
}

func (m *sourceModel) describe(v *visit, s *client.Source) {
	if o := cmp.Or(s.Outbox, consumer(s)); o != nil {
		if b := s.Broker; b != nil {
			m.Provider.add("Broker", b.Kind, "Address", b.Address, "Stream, queue, topic or subscription", b.Name, "User", b.Username, "Options", pairs(b.Options))
		}
		if s.Outbox != nil {
			m.Provider.add("Outbox", o.Place)
		} else {
			m.Settings.add("Event type", s.Type, "Ordering key", s.Key, "Event id", s.EventID)
			if t := s.TLS; t != nil && t.CA != "" {
				m.Settings.add("Trusted authorities", "its own")
			}
			if t := s.TLS; t != nil && t.ClientCert != "" {
				m.Settings.add("Client certificate", "its own")
			}
		}
		m.Provider.add("Events since the start", say.Count(o.Events), "Set aside", say.Count(o.SetAside))
		m.Provider.at("Last event", v.atOr(o.LastEventAt))
		m.Provider.at("Looked at", v.atOr(o.SeenAt))
	} else {
		m.Provider.add("Provider", s.Provider.Title, "Signature", s.Provider.Signature, "Retries", s.Provider.Retries,
			"Set it up", s.Provider.Docs)
		m.Provider.verification(&s.Verify)
		for _, secret := range s.Verify.Secrets {
			f := fact{Name: "Secret", Value: "created", At: v.at(secret.CreatedAt)}
			if secret.ExpiresAt != nil {
				f.Value, f.At = "expires", v.at(*secret.ExpiresAt)
			}
			m.Provider = append(m.Provider, f)
		}
		m.Settings.add("Unverified requests", map[grapnel.Unverified]string{
			"reject": "are refused", "quarantine": "are quarantined: stored and not delivered"}[s.OnUnverified])
		m.Settings.add("Duplicates", say.List(texts(s.Dedupe.By)), "Remembered for", say.Spoken(time.Duration(s.Dedupe.Window)), "Event type", s.Type)
		m.Settings.add("Left out of the content", say.List(s.Dedupe.Ignore), "Ordering key", s.Key, "Event id", s.EventID)
		m.Settings.add("Rate", rate(s.RateLimit), "URL that the provider calls", s.PublicURL)
		if s.MaxBody != 0 {
			m.Settings.add("Largest body", say.Count(s.MaxBody)+" bytes")
		}
	}
	m.Settings.add("Description", s.Description, "Tenant", s.Tenant)
	m.Settings.at("Created", v.at(s.CreatedAt))
	m.Settings.at("Changed", v.at(s.UpdatedAt))
}

// verification adds how the requests are verified, as far as the source says it.
func (f *facts) verification(is *client.Verify) {
	f.add("Header", is.Header, "Prefix", is.Prefix, "Algorithm", is.Algorithm, "Encoding", is.Encoding, "Signed text", is.Signed)
	f.add("Header of the timestamp", is.TimestampHeader, "Header of the id", is.IDHeader, "Header of the type", is.TypeHeader)
	f.add("User name", is.Username)
	if is.Tolerance != nil {
		f.add("Tolerance", say.Spoken(time.Duration(*is.Tolerance)))
	}
}

// setSource makes the action that changes one field of a source.
func setSource(field string, value any, notice string) func(*visit) (string, error) {
	return func(v *visit) (string, error) {
		return notice, v.patch("/v1/sources/{id}", map[string]any{field: value})
	}
}

// cursored is the twin of a list, with these parameters of the page.
func cursored(path string, names ...string) func(*visit) (string, url.Values) {
	return func(v *visit) (string, url.Values) {
		page := v.URL.Query()
		q := given("limit", fmt.Sprint(v.web.Bounds.Page), "cursor", page.Get("cursor"))
		for _, name := range names {
			if value := page.Get(name); value != "" {
				q.Set(name, value)
			}
		}
		return path, q
	}
}

// flagged is a command with these parameters of the page as flags.
func flagged(command string, names ...string) func(*visit) string {
	return func(v *visit) string {
		words := []string{command}
		for _, name := range names {
			if value := v.URL.Query().Get(name); value != "" {
				words = append(words, "--"+name+" "+shellQuote(value))
			}
		}
		return strings.Join(words, " ")
	}
}
