package contacts

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/say"
	"github.com/grapnelhq/grapnel/internal/tell/alert"
	"github.com/grapnelhq/grapnel/policy"
)

// Data is the data of a message's event. The channels' services read it as they read an alert's
// (package channels), so its members have the names of alert.Data.
type Data struct {
	AlertID  string        `json:"alert_id"` // of the episode: its messages are one thread
	Stage    Stage         `json:"stage"`    // empty: it asks to confirm the address
	State    string        `json:"state"`
	Severity string        `json:"severity"`
	Tenant   string        `json:"tenant"`
	Subject  alert.Subject `json:"subject"`
	Title    string        `json:"title"`
	Text     string        `json:"text"`
	Since    time.Time     `json:"since"`
	Count    int64         `json:"count"`     // attempts that failed since
	Waiting  int64         `json:"waiting"`   // pending deliveries
	Dead     int64         `json:"dead"`      // dead letters
	LinkName string        `json:"link_name"` // what the link of the message is for
	Plain    bool          `json:"plain"`     // the title stands alone, without a mark
}

// Templates of grapnel.Sender, and what stands for none.
const (
	DefaultSubject = "{subject}"
	DefaultText    = "{text}"
)

// The longest title and text of a message, in bytes: a link follows, and some services take no more
// than 2000 characters.
const (
	mostTitle = 160
	mostText  = 1000
)

// placeholder is a word in braces.
var placeholder = regexp.MustCompile(`\{[^{}]*\}`)

// names are the placeholders of templates.
var names = []string{"{subject}", "{text}", "{endpoint}", "{stage}", "{cause}", "{since}", "{failed}", "{waiting}", "{dead}", "{tenant}"}

// CheckTemplate returns the fault of a template: a placeholder that is none.
func CheckTemplate(text string) error {
	for _, found := range placeholder.FindAllString(text, -1) {
		if !slices.Contains(names, found) {
			return fmt.Errorf("has the unknown placeholder %s; there are %s", say.Cut(found, 40), strings.Join(names, " "))
		}
	}
	return nil
}

// Facts are what a message says of an endpoint.
type Facts struct {
	Class   policy.Class // of the last failed attempt; empty: unknown
	Status  int          // of its answer; 0: it had none
	Failed  int64        // attempts that failed since the trouble began
	Waiting int64        // pending deliveries
	Dead    int64        // dead letters
	More    bool         // Dead is a lower bound
	Unsent  int          // stages that the budget has held back
}

// causes say what an endpoint does, by the class of its last failed attempt.
var causes = map[policy.Class]string{
	policy.ClassDNS:       "its name cannot be found",
	policy.ClassConnect:   "it refuses connections",
	policy.ClassTLS:       "its certificate or its TLS is not accepted",
	policy.ClassTimeout:   "it does not answer in time",
	policy.ClassReset:     "it breaks connections off",
	policy.ClassProtocol:  "its answers are not HTTP",
	policy.ClassRedirect:  "it answers with a redirect, which is not followed",
	policy.ClassBlocked:   "its address is not allowed",
	policy.ClassStatus429: "it answers that it gets too many requests (429)",
	policy.ClassProxy:     "the proxy on the way to it fails",
	policy.ClassToken:     "its token server gives no token that it accepts",
}

// cause says why the endpoint fails; empty: unknown.
func (f *Facts) cause() string {
	if is := causes[f.Class]; is != "" {
		return is
	}
	if f.Status != 0 {
		return "it answers with the status " + strconv.Itoa(f.Status)
	}
	return ""
}

// message is the data of the message about a stage.
func message(ep *grapnel.Endpoint, t *Trouble, f *Facts, sender *grapnel.Sender) Data {
	name, since := strings.Join(strings.Fields(alert.Name(ep)), " "), t.Began.UTC().Format("2 Jan 2006 15:04")+" UTC"
	d := Data{AlertID: alert.NewID(alert.Key{Rule: "contact", Tenant: ep.Tenant, Kind: "endpoint", ID: ep.ID}, t.Began), Stage: t.Stage,
		State: "firing", Severity: grapnel.SeverityWarning, Tenant: ep.Tenant, Subject: alert.Subject{Kind: "endpoint", ID: ep.ID, Name: name},
		Since: t.Began, Count: f.Failed, Waiting: f.Waiting, Dead: f.Dead, LinkName: "Look at the endpoint", Plain: true}
	if f.Dead > 0 {
		d.LinkName = "Replay missed deliveries"
	}
	because := ""
	if is := f.cause(); is != "" {
		because = ": " + is
	}
	var all []string
	tell := func(format string, args ...any) { all = append(all, fmt.Sprintf(format, args...)) }
	switch t.Stage {
	case Failing:
		d.Title = name + " does not accept webhooks"
		tell("Since %s every delivery to %s has failed%s.", since, name, because)
	case Day:
		d.Title = name + " has failed for a day"
		tell("Since %s every delivery to %s has failed%s.", since, name, because)
	case Soon:
		d.Title, d.Severity = name+" will be disabled soon", grapnel.SeverityPage
		tell("Deliveries to %s have failed since %s%s. If this goes on, it will be disabled, and nothing is sent to it.", name, since, because)
	case Disabled:
		d.Title, d.Severity = name+" is disabled", grapnel.SeverityPage
		tell("Deliveries to %s have failed since %s%s. It is disabled now: nothing is sent to it until it is enabled again.", name, since, because)
	case Recovered:
		d.Title, d.State = name+" works again", "resolved"
		tell("Deliveries to %s succeed again. They had failed since %s.", name, since)
	}
	if f.Failed > 0 {
		tell("%s failed since then.", say.Many(f.Failed, "attempt", "attempts"))
	}
	if f.Waiting > 0 {
		what := map[Stage]string{Recovered: " to be sent", Disabled: " for the endpoint to be enabled"}[t.Stage]
		tell("%s%s.", say.Many(f.Waiting, "delivery waits", "deliveries wait"), what)
	}
	if f.Dead > 0 {
		tell("%s failed for good and can be replayed.", say.AtLeast(f.Dead, f.More, "delivery has", "deliveries have"))
	}
	if t.Stage == Failing || t.Stage == Day {
		tell("Waiting deliveries are tried again without further action; failed ones can be replayed once the endpoint works.")
	}
	if f.Unsent > 0 {
		tell("%s before this one not sent: the messages of a day are limited.", say.Many(f.Unsent, "message was", "messages were"))
	}
	d.Text = strings.Join(all, "\n")
	d.fill(sender, f, since)
	return d
}

// fill puts the title and the text into the operator's templates. Each placeholder is replaced once:
// a value that looks like one stays as it is.
func (d *Data) fill(sender *grapnel.Sender, f *Facts, since string) {
	values := []string{d.Title, d.Text, d.Subject.Name, string(d.Stage), f.cause(), since, say.Count(f.Failed), say.Count(f.Waiting),
		say.Count(f.Dead), d.Tenant}
	pairs := make([]string, 0, 2*len(names))
	for i, name := range names {
		pairs = append(pairs, name, values[i])
	}
	r := strings.NewReplacer(pairs...)
	if sender.Subject != "" {
		d.Title = r.Replace(sender.Subject)
	}
	text := d.Text
	if sender.Text != "" {
		text = r.Replace(sender.Text)
	}
	d.Title, d.Text = say.Cut(d.Title, mostTitle), say.Cut(text, mostText)
}

// question is the data of the message that asks to confirm an address.
func question(tenant string) Data {
	return Data{State: "test", Severity: grapnel.SeverityInfo, Tenant: tenant, Subject: alert.Subject{Kind: "tenant", ID: tenant, Name: tenant},
		Title: "Confirm this address for messages about webhooks",
		Text: "This address was entered to be told when webhooks cannot be delivered. Confirm it, and such messages come here. " +
			"If you do not know of this, do nothing: no more is sent.",
		LinkName: "Confirm the address", Plain: true}
}
