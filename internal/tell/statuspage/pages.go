package statuspage

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/wire"
)

// Pages serves the page as of the last Update. It is safe for concurrent use.
type Pages struct {
	ready func() error // why the server refuses events; nil: it accepts them
	say   func(error) string
	home  string // URL of the page in feeds; empty: unknown

	mu   sync.Mutex
	page Page
	made map[string]*Files // by what refuses events; at most one for each sentence of say
}

// File names of a copy. The page is index.html there, and /status on the server.
const (
	HTMLFile = "index.html"
	JSONFile = "status.json"
	RSSFile  = "status.rss"
	SVGFile  = "status.svg"
)

// Files are the bytes of the page in all its forms.
type Files struct {
	HTML, JSON, RSS, SVG []byte
	tags                 [4]string
}

// NewPages makes pages that know nothing but whether events are accepted. say turns the reason of
// ready into one of a few sentences for the public.
func NewPages(ready func() error, say func(error) string, home string) *Pages {
	return &Pages{ready: ready, say: say, home: home, page: Page{Status: "ok", Events: "accepted",
		Version: grapnel.Version, State: Operational,
		Verdict: "Grapnel accepts events and delivers them.", Detail: "All parts work now.",
		Components: []Component{}, Promises: []Promise{}, Latency: []Latency{}, Incidents: []Incident{}, Planned: []Incident{}}}
}

// Update replaces the page.
func (p *Pages) Update(page Page) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.page, p.made = page, nil
}

// Now are the files as they are served at this moment. Rendering happens once for each Update and
// each reason to refuse events, however many ask.
func (p *Pages) Now() (*Files, error) {
	why := p.ready()
	reason := ""
	if why != nil {
		reason = p.say(why)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if f := p.made[reason]; f != nil {
		return f, nil
	}
	page := p.page
	if why != nil {
		page = page.Refusing(reason)
	}
	f, err := render(&page, p.home)
	if err != nil {
		return nil, err
	}
	if p.made == nil {
		p.made = map[string]*Files{}
	}
	p.made[reason] = f
	return f, nil
}

// ServeHTTP answers /status, /status.json, /status.rss and /status.svg.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f, err := p.Now()
	if err != nil { // the templates are tested with all there is; the page must still say something
		http.Error(w, "Grapnel: the status page cannot be drawn.", http.StatusInternalServerError)
		return
	}
	h := w.Header()
	body, tag, kind := f.HTML, f.tags[0], "text/html; charset=utf-8"
	switch {
	case strings.HasSuffix(r.URL.Path, ".json") || r.URL.Path == "/status" && strings.Contains(r.Header.Get("Accept"), grapnel.JSONType):
		body, tag, kind = f.JSON, f.tags[1], grapnel.JSONType
	case strings.HasSuffix(r.URL.Path, ".rss"):
		body, tag, kind = f.RSS, f.tags[2], "application/rss+xml; charset=utf-8"
	case strings.HasSuffix(r.URL.Path, ".svg"):
		body, tag, kind = f.SVG, f.tags[3], "image/svg+xml"
	}
	h.Set("Content-Type", kind)
	h.Set("Content-Security-Policy", policy)
	h.Set("Cache-Control", "public, max-age=15")
	h.Set("ETag", tag)
	h.Set("Vary", "Accept")
	if !strings.HasSuffix(kind, "utf-8") || strings.HasPrefix(kind, "application/rss") {
		h.Set("Access-Control-Allow-Origin", "*") // it is public, and another site's page may show it
	}
	if r.Header.Get("If-None-Match") == tag {
		h.Del("Content-Type")
		w.WriteHeader(http.StatusNotModified)
		return
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // an error means that the reader has left
}

// Write writes the files into a directory, each at once.
func (f *Files) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil { // a web server reads it
		return err
	}
	var all []error
	for name, text := range map[string][]byte{HTMLFile: f.HTML, JSONFile: f.JSON, RSSFile: f.RSS, SVGFile: f.SVG} {
		path := filepath.Join(dir, name)
		err := os.WriteFile(path+".new", text, 0o644) //nolint:gosec // the same
		if err == nil {
			err = os.Rename(path+".new", path)
		}
		all = append(all, err)
	}
	return errors.Join(all...)
}

// Read reads a page back from the directory; false: there is none that can be used.
func Read(dir string) (Page, bool, error) {
	var p Page
	text, err := os.ReadFile(filepath.Join(dir, JSONFile)) // the server's own directory
	if errors.Is(err, fs.ErrNotExist) {
		return p, false, nil
	}
	if err == nil {
		err = json.Unmarshal(text, &p)
	}
	return p, err == nil && p.Version != "", err
}

// render makes all forms of a page.
func render(p *Page, home string) (*Files, error) {
	f := new(Files)
	var err error
	if f.JSON, err = wire.Encode(p); err != nil {
		return nil, err
	}
	f.JSON = append(f.JSON, '\n')
	if f.HTML, err = p.html(); err != nil {
		return nil, err
	}
	if f.RSS, err = p.rss(home); err != nil {
		return nil, err
	}
	f.SVG = p.badge()
	for i, text := range [][]byte{f.HTML, f.JSON, f.RSS, f.SVG} {
		sum := sha256.Sum256(text)
		f.tags[i] = `"` + hex.EncodeToString(sum[:12]) + `"`
	}
	return f, nil
}
