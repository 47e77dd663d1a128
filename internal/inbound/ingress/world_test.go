package ingress

import (
	"context"
	"encoding/json"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/store"
)

// world is a receiver with an engine and a shelf in memory.
type world struct {
	*testing.T
	receiver *Receiver
	now      time.Time

	mu      sync.Mutex
	sources map[string]grapnel.Source
	known   map[string]*store.Known
	firsts  map[string]string // id of the first event with the key
	answers map[string]store.Answer
	expires map[string]time.Time // of answers
	events  []*grapnel.Event
	asides  []grapnel.Aside
	refused []Refusal
	err     error // returned by Publish and SetAside
	ends    error // returned by Accepts
}

// ample are a server's bounds; under are those of receivers created from now on. See
// TestTinyBounds.
var (
	ample = bounds.Fill(Bounds{})
	under = ample
)

func newWorld(t *testing.T, options ...func(*Options)) *world {
	t.Helper()
	w := &world{T: t, now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), sources: map[string]grapnel.Source{},
		known: map[string]*store.Known{}, firsts: map[string]string{},
		answers: map[string]store.Answer{}, expires: map[string]time.Time{}}
	seed := rand.NewChaCha8([32]byte{1})
	o := Options{Bounds: under, Engine: w, Store: w, Now: func() time.Time { return w.now }, Random: locked{&w.mu, seed},
		Problem: func(rw http.ResponseWriter, r *http.Request, refused Refusal) {
			w.mu.Lock()
			w.refused = append(w.refused, refused)
			w.mu.Unlock()
			problem(rw, r, refused)
		}}
	for _, change := range options {
		change(&o)
	}
	w.receiver = New(o)
	return w
}

// locked is randomness for several goroutines.
type locked struct {
	mu *sync.Mutex
	r  io.Reader
}

func (l locked) Read(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.r.Read(b)
}

func (w *world) Source(_ store.Scope, id string) (grapnel.Source, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s, ok := w.sources[id]
	return s, ok
}

func (w *world) Sources(store.Scope) []grapnel.Source {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Values(w.sources))
}

// The world's requests that are set aside are only stored; TestRelease… use real stores.
func (w *world) ChangeAside(context.Context, grapnel.Aside, bool) error { return w.err }

func (w *world) Aside(context.Context, store.Scope, string) (grapnel.Aside, error) {
	return grapnel.Aside{}, store.ErrNotFound("request")
}

func (w *world) AsideList(context.Context, store.Scope, store.AsideQuery) ([]grapnel.Aside, error) {
	return nil, w.err
}

func (w *world) Accepts(string) error { return w.ends }

// Publish keeps the promises of store.Known and store.Once.
func (w *world) Publish(_ context.Context, events []store.Incoming, once *store.Once) (store.Accepted, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return store.Accepted{}, w.err
	}
	var done store.Accepted
	if once != nil {
		if then, there := w.answers[once.Key]; there && w.expires[once.Key].After(once.Now) {
			done.Answer = &then
			return done, nil
		}
		defer func() { w.answers[once.Key], w.expires[once.Key] = once.Answer(done), once.Expires }()
	}
	for _, in := range events {
		placed := store.Placed{ID: in.Event.ID, AcceptedAt: in.Event.AcceptedAt}
		if k := in.Known; k != nil {
			by := string(k.By)
			if before := w.known[by]; before != nil && before.Until.After(in.Event.AcceptedAt) {
				placed.ID, placed.Duplicate, placed.Differs = w.firsts[by], true, before.Sum != k.Sum
				done.Events = append(done.Events, placed)
				continue
			}
			w.known[by], w.firsts[by] = k, in.Event.ID
		}
		w.events = append(w.events, in.Event)
		done.Events = append(done.Events, placed)
	}
	return done, nil
}

func (w *world) SetAside(_ context.Context, a grapnel.Aside) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	w.asides = append(w.asides, a)
	return nil
}

// everyKind is the default chain.
var everyKind = []grapnel.DedupeBy{grapnel.ByEventID, grapnel.ByDeliveryID, grapnel.ByContent}

// source creates a source, or the next revision of one.
func (w *world) source(v grapnel.Verify, change ...func(*grapnel.Source)) string {
	w.Helper()
	s := grapnel.Source{ID: "src_1", Tenant: "acme", Name: "test", Verify: v, Dedupe: grapnel.Dedupe{By: everyKind}}
	for _, c := range change {
		c(&s)
	}
	if faults := CheckSource(&s); len(faults) > 0 {
		w.Fatalf("the source cannot be used: %v", faults)
	}
	s.Revision = w.sources[s.ID].Revision + 1
	w.sources[s.ID] = s
	return s.ID
}

func secrets(texts ...string) []grapnel.Secret {
	var all []grapnel.Secret
	for _, text := range texts {
		all = append(all, grapnel.Secret{Text: text})
	}
	return all
}

// answered is the answer to a provider.
type answered struct {
	status int
	body   string
	header http.Header

	ID          string `json:"id"`
	Duplicate   bool   `json:"duplicate"`
	Conflict    bool   `json:"conflict"`
	Quarantined bool   `json:"quarantined"`
	Detail      string `json:"detail"`
}

func (w *world) send(r *http.Request) answered {
	w.Helper()
	rec := httptest.NewRecorder()
	w.receiver.Take(rec, r, "src_1")
	a := answered{status: rec.Code, body: rec.Body.String(), header: rec.Header()}
	if strings.Contains(a.header.Get("Content-Type"), "json") && a.body != "" {
		if err := json.Unmarshal([]byte(a.body), &a); err != nil {
			w.Fatalf("%q is no JSON: %v", a.body, err)
		}
	}
	return a
}

func (w *world) post(body string, headers ...string) answered {
	w.Helper()
	return w.send(request(http.MethodPost, "https://hooks.example.com/in/src_1", body, headers...))
}

func request(method, url, body string, headers ...string) *http.Request {
	r := httptest.NewRequest(method, url, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// vector is a request of a provider, from testdata.
type vector struct {
	Name      string            `json:"name"`
	Origin    string            `json:"origin"`
	Now       int64             `json:"now"`
	URL       string            `json:"url"`
	PublicURL string            `json:"public_url"`
	Headers   map[string]string `json:"headers"`
	Body      string            `json:"body"`
	Verify    struct {
		Secrets         []string `json:"secrets"`
		Header          string   `json:"header"`
		Algorithm       string   `json:"algorithm"`
		Encoding        string   `json:"encoding"`
		Prefix          string   `json:"prefix"`
		Signed          string   `json:"signed"`
		TimestampHeader string   `json:"timestamp_header"`
		IDHeader        string   `json:"id_header"`
		TypeHeader      string   `json:"type_header"`
		Username        string   `json:"username"`
	} `json:"verify"`
	Want struct {
		ID       string           `json:"id"`
		Delivery string           `json:"delivery"`
		Type     string           `json:"type"`
		Key      string           `json:"key"`
		By       grapnel.DedupeBy `json:"by"`
	} `json:"want"`
	BodyUnsigned  bool `json:"body_unsigned"`
	StampedInBody bool `json:"stamped_in_body"`
	ProvesNothing bool `json:"proves_nothing"`

	scheme string
}

// vectors are all vectors: those written down, and those that interop/libraries recorded with
// -record.
func vectors(t testing.TB) []vector {
	t.Helper()
	names, err := filepath.Glob("testdata/*.json")
	if err != nil {
		t.Fatal(err)
	}
	recorded, err := filepath.Glob("testdata/recorded/*.json")
	if err != nil || len(recorded) < 10 {
		t.Fatalf("requests of providers' libraries are recorded for %d schemes only (%v)", len(recorded), err)
	}
	names = append(names, recorded...)
	var all []vector
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var file struct {
			Scheme  string   `json:"scheme"`
			Docs    string   `json:"docs"`
			Vectors []vector `json:"vectors"`
		}
		d := json.NewDecoder(strings.NewReader(string(text)))
		d.DisallowUnknownFields()
		if err := d.Decode(&file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if want := strings.TrimSuffix(filepath.Base(name), ".json"); file.Scheme != want || len(file.Vectors) == 0 {
			t.Fatalf("%s: is about %q and has %d vectors", name, file.Scheme, len(file.Vectors))
		}
		for _, v := range file.Vectors {
			v.scheme = file.Scheme
			all = append(all, v)
		}
	}
	return all
}

// success is the status of the answer to a new request of a provider. These four say that any other
// status than 200 (Zoom: or 204) is a failure, after which they send the request again.
func success(scheme string) int {
	switch scheme {
	case "linear", "mailgun", "paddle", "zoom":
		return http.StatusOK
	}
	return http.StatusAccepted
}

func (v *vector) verify(texts ...string) grapnel.Verify {
	return grapnel.Verify{
		Scheme: v.scheme, Secrets: secrets(texts...), Header: v.Verify.Header, Algorithm: v.Verify.Algorithm, Encoding: v.Verify.Encoding,
		Prefix: v.Verify.Prefix, Signed: v.Verify.Signed, TimestampHeader: v.Verify.TimestampHeader, IDHeader: v.Verify.IDHeader,
		TypeHeader: v.Verify.TypeHeader, Username: v.Verify.Username,
	}
}

func (v *vector) request() *http.Request {
	r := httptest.NewRequest(http.MethodPost, v.URL, strings.NewReader(v.Body))
	for name, value := range v.Headers {
		r.Header.Set(name, value)
	}
	return r
}

// world is a world in which the vector is sent now, to a source with these secrets.
func (v *vector) world(t *testing.T, texts ...string) *world {
	t.Helper()
	w := newWorld(t)
	w.now = time.Unix(v.Now, 0).UTC()
	w.source(v.verify(texts...), func(s *grapnel.Source) { s.PublicURL = v.PublicURL })
	return w
}
