package statuspage

import (
	"bytes"
	"encoding/xml"
	"errors"
	"html"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/promise"
	"github.com/grapnelhq/grapnel/wire"
)

var now = time.Date(2026, 11, 23, 14, 30, 0, 0, time.UTC)

// report is of 28 days; on some of them things went wrong.
func report(days int) promise.Report {
	h := promise.NewHistory()
	for at := now.Add(-time.Duration(days) * 24 * time.Hour).Truncate(time.Hour); at.Before(now); at = at.Add(time.Hour) {
		var hour promise.Hour
		day := int(now.Sub(at).Hours() / 24)
		if day == 17 {
			continue
		}
		for i := range 36 {
			t := at.Add(time.Duration(i) * 100 * time.Second)
			if t.After(now) {
				break
			}
			for n := range 12 {
				took := time.Duration(1+3*n) * time.Millisecond
				hour.Add(t, promise.Accept, day != 9 || at.Hour() != 7 || i > 4 || n < 10, took)
				hour.Add(t, promise.Dispatch, day != 9 || at.Hour() != 7 || i > 20, took*2)
				hour.Add(t, promise.Arrive, true, took*6)
				if day != 4 {
					hour.Add(t, promise.Receive, true, took)
				} else {
					hour.Add(t, promise.Receive, at.Hour() > 2, took)
				}
			}
			hour.Add(t, promise.Ready, true, -1)
			hour.Add(t, promise.Serve, true, -1)
		}
		hour.Add(at, promise.Loss, true, -1)
		h.Set(at, hour)
	}
	return promise.Make(h, now)
}

func ptr(t time.Time) *time.Time { return &t }

// incidents are one of each kind, with long and foreign text.
func incidents() []wire.Incident {
	up := func(ago time.Duration, status, text string) wire.IncidentUpdate {
		return wire.IncidentUpdate{At: now.Add(-ago), Status: status, Text: text}
	}
	return []wire.Incident{
		{ID: "inc_past", Kind: "incident", Title: "Webhooks of providers were answered late", Impact: "outage", Status: "resolved", Components: []string{"receiving"},
			StartsAt: now.Add(-4 * 24 * time.Hour), EndsAt: ptr(now.Add(-4*24*time.Hour + 3*time.Hour)), Updates: []wire.IncidentUpdate{
				up(93*time.Hour, "resolved", "The disk was replaced. No request was lost: providers repeated those that were refused."),
				up(95*time.Hour, "identified", "A disk is slow. We move the database to another one."), up(96*time.Hour, "investigating", "We look into it.")}},
		{ID: "inc_old", Kind: "incident", Title: "Deliveries began late", Impact: "degraded", Status: "resolved", Components: []string{"delivering"},
			StartsAt: now.Add(-9 * 24 * time.Hour), EndsAt: ptr(now.Add(-9*24*time.Hour + 40*time.Minute)),
			Updates: []wire.IncidentUpdate{up(215*time.Hour, "resolved", "It is over.")}},
		{ID: "inc_ancient", Kind: "incident", Title: "Too long ago", Status: "resolved",
			StartsAt: now.Add(-40 * 24 * time.Hour), EndsAt: ptr(now.Add(-39 * 24 * time.Hour))},
		{ID: "inc_plan", Kind: "maintenance", Title: "Upgrade of the database", Impact: "none", Status: "planned", Components: []string{"accepting", "dashboard"},
			StartsAt: now.Add(40 * time.Hour), EndsAt: ptr(now.Add(41 * time.Hour)), Updates: []wire.IncidentUpdate{up(time.Hour, "planned", "Publishing pauses for seconds. Clients of ours repeat by themselves.")}},
	}
}

func open(title, impact string) wire.Incident {
	return wire.Incident{ID: "inc_open", Kind: "incident", Title: title, Impact: impact, Status: "identified", Components: []string{"accepting", "delivering"},
		StartsAt: now.Add(-20 * time.Minute), Updates: []wire.IncidentUpdate{
			{At: now.Add(-5 * time.Minute), Status: "identified", Text: "One of two database servers does not answer. We move to the other one.\n\nEvents that were accepted are stored and will be delivered in order."},
			{At: now.Add(-18 * time.Minute), Status: "investigating", Text: "Some publishes are answered with 503. We look into it."}}}
}

func blame(error) string {
	return "New events are refused because the storage is full. Those accepted before are stored and delivered."
}

// made are the files of a page.
func made(t *testing.T, p *Pages) *Files {
	t.Helper()
	f, err := p.Now()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func accepts() error { return nil }

func TestThePageSaysHowThingsAre(t *testing.T) {
	for _, c := range []struct {
		more    []wire.Incident
		state   State
		verdict string
		has     []string
	}{
		{incidents(), Operational, "Grapnel accepts events and delivers them.", []string{"Maintenance is planned for 25 November, 06:30 UTC.",
			"Upgrade of the database", "Webhooks of providers were answered late", "The disk was replaced."}},
		{[]wire.Incident{open("Publishing fails", "outage")}, Outage, "We are working on an incident: Publishing fails", []string{"One of two database servers"}},
		{[]wire.Incident{open("Publishing is slow", "degraded"), open("Publishing fails", "outage")}, Outage,
			"We are working on an incident: Publishing is slow", nil},
		{[]wire.Incident{open("Publishing is slow", "degraded")}, Degraded, "We are working on an incident: Publishing is slow", nil},
		{[]wire.Incident{{ID: "inc_m", Kind: "maintenance", Title: "Upgrade", Impact: "none", Status: "planned", StartsAt: now.Add(-time.Minute),
			EndsAt: ptr(now.Add(time.Hour)), Components: []string{"dashboard"}}}, Maintenance, "Maintenance is under way: Upgrade", nil},
	} {
		p := New(report(28), c.more)
		if p.State != c.state || p.Verdict != c.verdict {
			t.Errorf("the page says %s, %q; want %s, %q", p.State, p.Verdict, c.state, c.verdict)
		}
		pages := NewPages(accepts, blame, "")
		pages.Update(p)
		text := string(made(t, pages).HTML)
		for _, part := range append(c.has, c.verdict, "Accepting events", "Answering a publish") {
			if !strings.Contains(text, part) {
				t.Errorf("%s: the page lacks %q", c.verdict, part)
			}
		}
		if strings.Contains(text, "Too long ago") || len(text) > 60<<10 {
			t.Errorf("the page has what is over, or %d bytes", len(text))
		}
	}
	days := New(report(28), nil).Components
	states := map[string]State{}
	for _, c := range days {
		for _, d := range c.Days {
			states[c.ID+" "+d.Date] = d.State
		}
	}
	for day, want := range map[string]State{"accepting 2026-11-14": Degraded, "receiving 2026-11-19": Outage,
		"delivering 2026-11-20": Operational} {
		if states[day] != want {
			t.Errorf("%s is %q and not %q", day, states[day], want)
		}
	}
	for _, d := range New(report(1), nil).Components[0].Days[:26] {
		if d.State != Unknown {
			t.Errorf("before anything was measured, %s is %s", d.Date, d.State)
		}
	}
}

// The page follows readiness at once, and is drawn once for each reason.
func TestThePageFollowsReadiness(t *testing.T) {
	var why error
	pages := NewPages(func() error { return why }, blame, "https://hooks.example.com/status")
	pages.Update(New(report(1), nil))
	good := made(t, pages)
	if made(t, pages) != good {
		t.Error("the page was drawn twice")
	}
	why = errors.New("no room at /secret")
	bad := made(t, pages)
	for _, text := range [][]byte{bad.HTML, bad.JSON} {
		if !bytes.Contains(text, []byte("storage is full")) || !bytes.Contains(text, []byte("Grapnel refuses new events right now.")) ||
			bytes.Contains(text, []byte("/secret")) {
			t.Errorf("the page says %s", text)
		}
	}
	if !bytes.Contains(bad.SVG, []byte(">outage<")) || !bytes.Contains(good.SVG, []byte(">operational<")) {
		t.Errorf("the badges are %s and %s", bad.SVG, good.SVG)
	}
	if why = nil; made(t, pages) != good {
		t.Error("the page does not come back")
	}
}

// A copy has the bytes that are served, and a page is read back from it as it was.
func TestACopyIsWhatIsServed(t *testing.T) {
	pages := NewPages(accepts, blame, "")
	pages.Update(New(report(28), append(incidents(), open("Now", "degraded"))))
	dir := filepath.Join(t.TempDir(), "status")
	files := made(t, pages)
	if _, found, err := Read(dir); found || err != nil {
		t.Errorf("nothing is found: %v %v", found, err)
	}
	if err := files.Write(dir); err != nil {
		t.Fatal(err)
	}
	for path, name := range map[string]string{"/status": HTMLFile, "/status.json": JSONFile, "/status.rss": RSSFile, "/status.svg": SVGFile} {
		w := httptest.NewRecorder()
		pages.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !bytes.Equal(text, w.Body.Bytes()) || w.Code != http.StatusOK || w.Header().Get("Cache-Control") == "" {
			t.Errorf("%s: %v, or %s differs from the answer", path, err, name)
		}
	}
	again := NewPages(accepts, blame, "")
	page, found, err := Read(dir)
	if again.Update(page); !found || err != nil || !bytes.Equal(made(t, again).HTML, files.HTML) {
		t.Errorf("the page read back is another one: %v %v", found, err)
	}
	if err := os.WriteFile(filepath.Join(dir, JSONFile), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, found, err := Read(dir); found || err == nil {
		t.Error("a broken file is a page")
	}
}

func TestHostileTextIsEscaped(t *testing.T) {
	const evil = "</style><script>alert(1)</script>]]>\"'&\x01\u202e"
	in := open(evil, "outage")
	in.Updates[0].Text = evil
	pages := NewPages(accepts, blame, "")
	pages.Update(New(report(1), []wire.Incident{in}))
	f := made(t, pages)
	for _, text := range [][]byte{f.HTML, f.RSS, f.SVG} {
		if bytes.Contains(text, []byte("<script")) || bytes.Contains(text, []byte("]]>")) || bytes.Count(text, []byte("</style>")) > 1 {
			t.Errorf("not escaped: %s", text)
		}
	}
	var doc feed
	if err := xml.Unmarshal(f.RSS, &doc); err != nil || len(doc.Channel.Items) != 2 || !strings.Contains(doc.Channel.Items[0].Title, "<script>alert(1)") {
		t.Errorf("the feed is %v %+v", err, doc)
	}
	if is := doc.Channel.Items[0].Description; strings.Contains(is, "<") || html.UnescapeString(is) != strings.ReplaceAll(evil, "\x01", "\ufffd") {
		t.Errorf("readers show %q as HTML, of %q", is, in.Updates[0].Text)
	}
	for _, text := range [][]byte{f.HTML, f.JSON, f.SVG} {
		for _, bad := range []string{"<script src", "http://127", "javascript:", " style=", "<link", "<img"} {
			if bytes.Contains(text, []byte(bad)) {
				t.Errorf("the page has %s", bad)
			}
		}
	}
}

// The size of a page has a bound, however much was published.
func TestThePageIsBounded(t *testing.T) {
	var all []wire.Incident
	for range 200 {
		in := open(strings.Repeat("x", 120), "outage")
		for len(in.Updates) < 50 {
			in.Updates = append(in.Updates, in.Updates[0])
			in.Updates[0].Text = strings.Repeat("y", 2000)
		}
		all = append(all, in)
	}
	pages := NewPages(accepts, blame, "")
	pages.Update(New(report(1), all))
	if n := len(made(t, pages).HTML); n > 500<<10 {
		t.Errorf("the page has %d bytes", n)
	}
}
