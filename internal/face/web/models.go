package web

import (
	"html/template"
	"time"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/wire"
)

// attemptRow is an attempt that was made.
type attemptRow struct {
	Number  int
	Tone    string
	Result  string
	At      moment
	Took    string
	Phases  []phase
	Trigger string
	Href    string // where it is shown
	Here    bool
}

// phase is a part of an attempt's time, with its share of the whole in percent.
type phase struct {
	Name, Took string
}

// plannedRow is an attempt that is still to come.
type plannedRow struct {
	Number int
	At     moment
	Latest moment
}

// message is a request or a response as it went over the wire.
type message struct {
	First   string // the first line
	Headers []header
	Body    []span
	Raw     string // the bytes that were signed, if Body is a readable form of them
	Note    string // why the body is missing or incomplete
}

type header struct{ Name, Value string }

// span is a part of a body with its class; empty: plain.
type span struct{ Class, Text string }

// linked is a part of a sentence; without address it is no link.
type linked struct{ Text, Href string }

// crumb is a step of the way to a page; the last one is the page itself, without address.
type crumb struct{ Name, Href string }

// savedView is a search with a name.
type savedView struct {
	Name, Href string
	Here       bool
}

// deliveryRow is one delivery in a list.
type deliveryRow struct {
	ID, Href string
	Pill     pill
	Type     string
	Endpoint string
	At       string // where the endpoint's page is
	Whose    whose
	Key      string
	Attempts int
	Result   string // of the last attempt
	Took     string
	Next     moment
	Due      bool // the time of the next attempt has come
	Age      moment
	Why      string
}

// deliveryModel is one delivery: the reason for its state, its attempts, and the plan.
type deliveryModel struct {
	ID, Type string
	Pill     pill
	Endpoint string
	At       string // where the endpoint's page is; empty: there is none here
	Verdict  verdict
	Timeline template.HTML
	Attempts []attemptRow
	Planned  []plannedRow
	Shown    *attemptRow // the attempt whose request and response are shown
	Request  message
	Response message
	Facts    facts
	Behind   []deliveryRow // later deliveries of the key, which wait for this one
	More     bool          // there are more of them
	Ahead    string        // where the first delivery of the key is, which this one waits for
	Key      string
	Others   []deliveryRow // of the same event, at other endpoints
	Before   int           // the number of the attempt before the shown one; 0: none
	Changes  []diffLine    // how the shown attempt differs from the one before
	Sent     client.SentBody
	Curl     string // sends the shown attempt's request again
	Masked   string // headers whose values Curl does not have
	Stale    bool   // receivers refuse the timestamp of Curl by now
	Local    string // the command that brings deliveries of the endpoint to a local server
	Signed   string // which bytes are signed
	CheckAt  string // where the signature is computed again
	Check    *signatureCheck
	Compare  string
	Audit    []auditLine
}

// auditLine is an entry of the audit about one delivery or endpoint.
type auditLine struct {
	At                  moment
	Verb, Actor, Reason string
}

// fact is a name and what it is.
type fact struct {
	Name, Value string
	Href        string
	At          moment
}

// facts are shown as a list.
type facts []fact

// diffLine is a line of a comparison: Tone is same, less (only in the first) or more (only in the
// second). The sign is a word for people who see no colour.
type diffLine struct{ Tone, Sign, Text string }

// endpointRow is one endpoint in a list.
type endpointRow struct {
	ID, Href string
	Name     string
	Whose    whose
	Where    string
	Pill     pill
	Waiting  string
	Why      string
	Heart    template.HTML
}

// form is a form as it is drawn.
type form struct {
	Groups   []formGroup
	Problems []string // faults that no input can show
	Post     string
	Was      string // the values when the form was drawn: only what differs from them is sent
	Button   string
	Danger   bool
	Cancel   string
	Preview  string // the label of a button that shows the effect and changes nothing
}

// formGroup is a part of a form with a heading.
type formGroup struct {
	Title  string
	Fields []field
	Folded bool // rarely needed, and empty
}

// formModel is a page that is mainly a form.
type formModel struct {
	Verdict verdict
	Views   []savedView // other forms for the same purpose
	Picks   []savedView // the forms to choose from, before there is one
	Notes   []string
	Form    form
	Samples []sample // of what may be typed in, below the form
}

// sample is a row of examples.
type sample struct{ Name, Text, Means string }

// onceModel is the page that a login link opens. Its form sends the code; opening the link alone
// does not use it up, so programs that fetch links in advance do no harm.
type onceModel struct {
	Code string
}

// figure is one of the large numbers.
type figure struct {
	Name, Value, Unit string
	Spark             template.HTML
	Note              string // instead of a line, or below it
	Tone              string
}

// chart is a picture with its axis as text, which does not shrink with the picture.
type chart struct {
	Title, Hint string
	Picture     template.HTML
	Axis        []string
	Says        string // the picture as a sentence
	Empty       string // instead of a picture
}

// trial is what the playground asks for: an event, and maybe one endpoint to send it to.
type trial struct {
	wire.NewEvent
	Endpoint string   `json:"endpoint"`
	Twice    bool     `json:"twice"`
	More     []string `json:"more"`
	Order    string   `json:"order" enum:"composed,backwards,first_last" default:"composed"`
	Delay    string   `json:"delay"`
}

// playgroundModel is the playground: the event, who would get it, the request, and the answers to
// tests.
type playgroundModel struct {
	formModel
	Types   []savedView
	Looked  bool
	Rows    []wantRow
	Others  string // those that would not get it and are not shown
	More    bool
	Request *message
	Signed  string
	Covers  string
	Curl    string
	Tampers []ownLine
	Sent    []deliveryRow
	IDs     []string // of the tests that were sent, in the order of sending
	Open    string   // how many have no answer yet; empty: all have
	Command string
	Publish bool // the session may publish
}

// wantRow says whether an endpoint would get the event.
type wantRow struct {
	Name, Href, Why string
	Pill            pill
}

// comparedRow is a figure of the simulation, as the policy does it and as its schedule alone would.
type comparedRow struct{ Name, Here, Schedule, With string }

// secretModel is the answer to an action that made a secret. It is the action's own answer and no
// page: it has no address, browsers do not keep it, and the API will not show the secret again.
type secretModel struct {
	Verdict  verdict
	Label    string
	Secret   string
	Facts    []fact
	Commands []ownLine
	Back     string // where its buttons lead
}

// signatureCheck is what became of computing an attempt's signature again.
type signatureCheck struct {
	Attempt  int
	Sentence string
	Facts    []fact
	Body     string // that was signed, as text
	Note     string // if Body is not all of it
	Command  string
}

// statsModel says how well deliveries go, by one grouping.
type statsModel struct {
	Verdict verdict
	By      []savedView
	Spans   []savedView
	Figures []figure
	Chart   *chart // of hours and days; nil: the rows have bars
	Head    string // of the column of names
	Hint    string // which groups the rows have
	Rows    []statsRow
	Reasons []statsReason
	Empty   string
	Teach   string
}

// statsSpan is a time that the page shows, up to now.
type statsSpan struct {
	since, name string
	width       time.Duration
}

// grouping is one of the API, with the times for which its page stays small. The second is the
// usual one.
type grouping struct {
	by, name, head string
	spans          []statsSpan
}

// statsState is the state of the page, which is in its address.
type statsState struct {
	grouping
	span   statsSpan
	narrow map[string]string // endpoint, type and tenant, as far as given
}

// statsRow is a group with its figures.
type statsRow struct {
	Name, Href                               string
	Bar                                      template.HTML
	Delivered, Dead, First, Each, P95, Fails string
	Bad                                      bool
	Why                                      string // where its reasons are
}

// statsReason is a class of failed attempts, or a reason for which deliveries ended.
type statsReason struct {
	Name, Href, Of, Count, Retried string
	Bar                            template.HTML
}

// piece is a part of a sentence; its tone says whether it is about trouble.
type piece struct{ Text, Tone string }

// verdict is the answer that a page opens with: one sentence, what follows from it, a command to
// copy where there is nothing yet, and at most three things to do about it.
type verdict struct {
	Pieces  []piece
	Next    string
	Command string
	Acts    []act
}

// act is a button: a link, or a form that posts to an action.
type act struct {
	Label string
	Href  string // of a link
	Post  string // of a form
	Main  bool   // the one to press
	Key   string // on the keyboard
	Sure  string // a question before it is done; empty: none
}

// moment is an instant on a page: relative to now in the text, absolute on hover.
type moment struct{ At, Now time.Time }

// pill is a state: its colour, its sign and its word.
type pill struct{ Tone, Word string }

// ownLine is a command with what it does.
type ownLine struct{ Says, Command string }

// whose is the mark of a row that says which customer it belongs to.
type whose struct{ Name, Href string }
