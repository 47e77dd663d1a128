package web

import (
	"html/template"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/pass"
	"github.com/grapnelhq/grapnel/internal/face/oidc"
	"github.com/grapnelhq/grapnel/internal/face/reference"
)

// Options say what the dashboard stands on. API, Passes and Secret are needed.
type Options struct {
	Bounds   Bounds
	API      http.Handler               // answers the requests of pages; all requests that are for no page
	Origin   func(*http.Request) string // base URL of this server as the caller reaches it; nil: from Host
	Known    func(*http.Request) bool   // whether Origin is more than the caller's word; nil: always
	Passes   *pass.Sealer               // makes and reads passes
	Secret   func(use string) [32]byte  // secrets of all nodes that serve the same sessions, by their use
	Stopping func() bool                // the server drains: live pages end; nil: never
	Clock    func() time.Time           // nil: time.Now
	Random   io.Reader                  // nil: crypto/rand
	Log      *slog.Logger               // nil: nothing is logged
	People   People                     // how people sign in
	Dev      Dev                        // what `grapnel dev` adds
}

// Bounds limit what browsers can make grow.
type Bounds struct {
	Session  time.Duration `bound:"12h" tiny:"1h"`        // life of a session
	Flow     time.Duration `bound:"10m" tiny:"10m"`       // for a sign-in at the issuer
	Flows    int           `bound:"4096"`                 // finished sign-ins that are remembered
	SignIns  time.Duration `bound:"1s" tiny:"1ms"`        // least time between two log lines about failed sign-ins
	FormBody int64         `bound:"256KiB" tiny:"256KiB"` // bytes of a form
	FormTime time.Duration `bound:"10s"`                  // for a form to arrive
	Key      int           `bound:"512" tiny:"512"`       // bytes of a key that is typed in
	Next     int           `bound:"2048" tiny:"2048"`     // bytes of the address to go to after signing in
	Search   int           `bound:"1024" tiny:"256"`      // bytes of a search

	LiveEvery  time.Duration `bound:"500ms" tiny:"20ms"` // between two looks of a live page
	LiveRest   int           `bound:"20" tiny:"1"`       // a reader rests this many times the duration of its last look, for each reader
	LiveRedraw time.Duration `bound:"15s" tiny:"100ms"`  // a live page is drawn again without changes
	LiveSlow   time.Duration `bound:"10s"`               // for which a browser may take nothing in
	LiveTenant int           `bound:"64"`                // live pages of one tenant
	LiveAll    int           `bound:"512"`               // live pages of all tenants; sessions whose trouble is remembered
	Trouble    time.Duration `bound:"3s" tiny:"20ms"`    // between two looks at the issues and alerts of a session
	Open       int           `bound:"50" tiny:"2"`       // open issues, and firing alerts, that such a look counts

	Page      int           `bound:"32" tiny:"5"`    // rows of a list: with more, a page of long names has over 60 KB
	Times     int           `bound:"28" tiny:"5"`    // hours or days beneath a chart of statistics, which takes half of the 60 KB
	Endpoints int           `bound:"500" tiny:"500"` // endpoints that the overview and the list look at
	Letters   int           `bound:"200" tiny:"10"`  // dead letters that are counted by endpoint and reason; items of a replay that are read
	Found     int           `bound:"60" tiny:"10"`   // newest deliveries that match, whose endpoints a preview shows
	Named     int           `bound:"1000" tiny:"10"` // deliveries that a replay names
	Plans     int           `bound:"20" tiny:"5"`    // endpoints of one preview
	Sample    int           `bound:"100" tiny:"100"` // named deliveries that the plans of one preview look at, likewise
	Counting  time.Duration `bound:"5ms" tiny:"10s"` // for the plans of one preview, unless all is to be counted

	Body   int           `bound:"16384"`           // bytes of a body that a page shows
	Answer time.Duration `bound:"3s" tiny:"500ms"` // for which a page waits for the answer to a test
}

// web is what all pages share. Nothing in it changes after New but the live readers.
type web struct {
	Options
	home      string // the path below which its pages are: of the portal; else empty
	alone     bool   // the server has no dashboard, only the reference of the API
	made      atomic.Pointer[reference.Reference]
	seals     *seals
	flows     *flows
	pages     []page
	actions   []action
	nav       []entry
	layout    string // the template that pages are put in
	templates *template.Template
	assets    *assets
	live      *readers
	troubles  troubles
	cross     *http.CrossOriginProtection
}

// place is where the caller reaches this server.
type place struct {
	scheme, host string
	base         string // path before every link; empty or /prefix
}

// visit is one request of a browser on its way to a page.
type visit struct {
	*http.Request
	web     *web
	rw      http.ResponseWriter
	page    *page // nil: an action
	session *session
	client  *client.Client // calls the API with the session's key
	answers *inProcess
	place   place
	now     time.Time
	title   string          // of the browser's tab, if a builder knows a better one than its row
	steps   []crumb         // the way to the page below the navigation; empty: its title
	refusal *client.Error   // why the API refused the form that is drawn again
	said    string          // what the next page says, in a frame
	meant   *client.Meaning // of the bare word of the page's search
	tenant  string          // that the page's search is limited to; empty: none
	secret  *secretModel    // an action made a secret, which is shown in place of the next page
}

// page is one page: a row, a builder of its view model, a template. The multiplexer, the
// navigation, live updates, JSON twins and the tests of tenants are all made from the same rows.
type page struct {
	path     string                            // a pattern of http.ServeMux
	title    string                            // of the browser's tab; a builder may set a better one
	nav      string                            // the entry of the navigation that is lit
	scope    grapnel.Scope                     // the key must have
	build    func(*visit) (any, error)         // asks the API for the view model
	template string                            // a file of templates/
	twin     func(*visit) (string, url.Values) // the request to the public API that answers with the same in JSON
	command  func(*visit) string               // the same on the command line
	do       func(*visit) (string, error)      // what the page's form does, as an action of the same path; nil: it has none
	finds    bool                              // the search box looks here, not in the list of deliveries
	plain    bool                              // it looks for a word in names, see byName
	still    bool                              // a form to fill in, which does not change by itself
}

// address is the path as links have it.
func (p *page) address() string { return strings.TrimSuffix(p.path, "{$}") }

// action is something that a form does. It returns a sentence about the result, for the next
// page.
type action struct {
	path  string
	scope grapnel.Scope // which keys are offered it
	do    func(*visit) (notice string, err error)
}

// entry is one of the navigation, or one of its tabs.
type entry struct {
	Name    string
	Path    string
	Key     string  // after g on the keyboard
	Sign    string  // its picture
	Deep    bool    // the bar of a phone has no space for it: it is behind More there
	Counted bool    // the number of open issues and firing alerts is beside it
	Tabs    []entry // pages about the same; Path and Key are those of the first
	Current string  // aria-current: page or true; empty: it does not lead here
}

// session is what the cookie says. The name and scopes are for the layout; the API reads the key.
type session struct {
	ID     string          `json:"i"` // random, so that each session has its own form token
	Pass   string          `json:"k"` // ends with the session
	KeyID  string          `json:"n"` // of a person: the subject of passes
	Role   grapnel.Role    `json:"r,omitempty"`
	Name   string          `json:"m"`
	Tenant string          `json:"t"`           // empty: all tenants
	Only   string          `json:"w,omitempty"` // the one tenant that a session of all tenants looks at; see narrowed
	Scopes []grapnel.Scope `json:"s"`
	Ends   time.Time       `json:"e"`

	portal  bool // it is a portal's
	framed  bool // its script sends the pass; it has no cookie
	limited bool // to some endpoints of the tenant
	look    pass.Look
}

// seals encrypts cookies and makes form tokens. The use of a cookie is bound into its seal, so that
// no cookie passes for another.
type seals struct {
	*pass.Sealer
	tokens [32]byte
}

// sheet is what the layout draws around a page.
type sheet struct {
	Title   string
	Base    string // before every path
	Home    string // address of the first page
	Leave   string // address that ends the session of a portal
	Portal  string // address of the style sheet of portals
	Brand   brand  // of a portal
	Style   string // address of the style sheet
	Fields  string // address of the style sheet for forms
	Script  string // address of the script
	Forms   string // address of the script for forms; empty: the page has none to fill in
	Lists   listFiles
	Theme   string // auto, light or dark
	Times   string // local or utc
	Locale  string // of dates and times; empty: en-GB
	Token   string // of the session's forms
	Here    string // this page, below the base
	Once    string // the idempotency key of the page's forms
	Session *session
	Nav     []entry
	Open    string  // the number beside a counted entry; empty: unknown
	Section entry   // whose tabs the page shows
	Crumbs  []crumb // the way to the page; none: the navigation leads to it
	Notice  string
	Search  string
	Plain   bool   // it is a word, without conditions
	Finds   string // the list that the search box looks in
	Asks    string // what it finds there
	Share   share
	Live    bool
	Version string
	Model   any
	Main    template.HTML // the page itself, drawn; the layout puts it in its place
}

// share is how else a page can be had.
type share struct{ Link, JSON, Curl, Command string }

// listFiles are the addresses of what lists load besides.
type listFiles struct{ Style, Script, Search string }

// assets are the files that pages load. The address of each has a part of its hash in it, so
// browsers keep it until it changes.
type assets struct {
	files map[string][]byte
	marks map[string]string
}

// inProcess sends a client's requests to the API's handler as calls, without a connection. They
// carry the address of the browser, so that the API's limits for wrong keys count browsers.
type inProcess struct {
	api     http.Handler
	tenant  string        // that the requests are narrowed to; empty: none
	browser *http.Request // whose request it is

	mu    sync.Mutex
	heard []string // a sum of each answer, in any order; nil: not summed up
}

// readers are those of all live pages.
type readers struct {
	mu      sync.Mutex
	by      map[string]*reader
	tenants map[string]int // live pages by the key's tenant
	all     int
	stand   string // stands in shared pages for the form token of each session
}

// reader looks at one page for all who watch it.
type reader struct {
	watchers int // guarded by readers.mu

	mu      sync.Mutex
	next    time.Time // it does not look before this
	drawn   time.Time
	sum     [32]byte // of the API's answers that the page was drawn from
	version int      // of main; 0: not drawn yet
	main    []byte
}

// count is how many readers there are.
func (rs *readers) count() int {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return len(rs.by)
}

// trouble is what the entry of that name counts: open issues and firing alerts.
type trouble struct {
	Alerts, Issues         int
	MoreAlerts, MoreIssues bool          // the counts are lower bounds
	Alert                  *client.Alert // the gravest; nil: none fires
	Issue                  *client.Issue // the one with most failures; nil: none is open
}

// troubles remembers the trouble of each session, so that many pages and live pages ask the API
// once. An answer is used for Bounds.Trouble, and for LiveRest times its duration as often as there
// are live pages: reading it takes no more of a processor than they may.
type troubles struct {
	mu sync.Mutex
	by map[[32]byte]*lastTrouble // by the session's pass; all are forgotten if there are too many
}

type lastTrouble struct {
	mu   sync.Mutex
	next time.Time
	is   trouble
	ok   bool
}

// People says how people sign in without an API key.
type People struct {
	Issuer  *oidc.Provider // nil: they do not
	Name    string         // of the issuer, on the button
	Only    bool           // there is no form for API keys
	Session time.Duration  // life of a session; 0: as that of a key
}

// flows remembers the sign-ins that were finished on this node, until their cookies end. If there
// are too many, all are forgotten: the issuer, too, takes each code once.
type flows struct {
	most int
	rest time.Duration // between two log lines

	mu     sync.Mutex
	used   map[[32]byte]time.Time
	logged time.Time
	failed int // since then
}

// Dev is what `grapnel dev` adds to the dashboard; `grapnel serve` has none of it.
type Dev struct {
	Coach    Coach  // nil: no page about the story
	Codes    *Codes // nil: no links that sign in
	Receiver string // URL of a receiver that accepts everything; empty: there is none
}

// Codes exchanges one-time codes for keys. A code signs in one browser once, within codeLife, and
// only on this machine. Only hashes of codes are stored.
type Codes struct {
	clock  func() time.Time
	random io.Reader

	mu    sync.Mutex
	known map[[32]byte]grant
}

type grant struct {
	key  string
	ends time.Time
}

// Coach is the story that `grapnel dev` plays. Only that command has one.
type Coach interface {
	// Scene is the story as it is.
	Scene() Scene
	// Fix repairs the receiver that refuses events.
	Fix()
}

// Scene is the story as it is. A step is ticked by the server's answers, not by clicks.
type Scene struct {
	Steps   []Step
	Asked   bool   // the viewer has to act: repair the receiver, then replay
	Fixed   bool   // the receiver is repaired
	Refuser string // id of the endpoint that leads to this receiver
	KeyFile string // path of the file with the key, for the lines to paste
	Program string // the command as it was called
}

// Step is one step of the story.
type Step struct {
	Title  string
	Detail string // the observation; may be empty
	Done   bool
}

// brand is how the portal of a tenant looks.
type brand struct {
	Name   string
	Logo   template.URL // a data: URL that the API has checked
	Accent string       // address of a style sheet; empty: Grapnel's own colour
	Return string       // where the link back leads
	Ends   moment       // the end of the session
}

// portalCookie has the pass of a portal that fills a page of its own. A portal in a frame has no
// cookie, because browsers keep those of framed sites from them: its script sends the pass.
const portalCookie = "grapnel_portal"

// portalPages and portalActions are the rows of the dashboard that the portal has.
var portalPages = []string{"/endpoints", "/endpoints/new", "/endpoints/{id}", "/endpoints/{id}/edit", "/endpoints/{id}/rotate",
	"/endpoints/{id}/delete", "/endpoints/{id}/why", "/deliveries", "/deliveries/{id}", "/dead-letters", "/issues", "/issues/{id}", "/replays", "/replays/new",
	"/replays/{id}", "/events", "/events/{id}", "/ordering-keys", "/ordering-keys/{id}",
	"/event-types", "/event-types/{id}", "/contacts", "/contacts/new", "/alerts", "/alerts/{id}", "/audit"}

var (
	logo   = regexp.MustCompile(`^data:image/(png|jpeg|webp);base64,[A-Za-z0-9+/]+={0,2}$`)
	accent = regexp.MustCompile(`^#[0-9a-f]{6}$`)
)

// given are pairs of names and values as a query, without those that are empty.
func given(pairs ...string) url.Values {
	q := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] != "" {
			q.Set(pairs[i], pairs[i+1])
		}
	}
	return q
}

// trimmed is a text without what a browser changes about its lines and ends.
func trimmed(text string) string { return strings.TrimSpace(strings.ReplaceAll(text, "\r\n", "\n")) }
