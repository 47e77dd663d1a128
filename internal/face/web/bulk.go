package web

import (
	"net/http"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/base/say"
	grammar "github.com/grapnelhq/grapnel/internal/base/search"
)

// bulk is what can be done to the rows of a list together.
type bulk struct {
	Retry, Discard, Replay string // where selected ones go; empty: the session may not
	Letters                bool   // the list is of dead letters, which are replayed first of all
	Compare                string // before the ids of two to compare
	Search                 string
	All                    string // words for all that match
	More                   bool   // there are more than this page has
	JSONL, CSV             string // where all that match are downloaded
}

// Any says whether rows can be selected.
func (b bulk) Any() bool { return b.Retry != "" || b.Compare != "" }

func (v *visit) bulk(path string, s *search, rows int, more bool) bulk {
	b := bulk{Letters: path == "/dead-letters", Search: s.Text, More: more, All: "all " + say.Count(rows) + " that match"}
	if more {
		b.All = "all that match, " + say.Count(rows) + "+"
	}
	if v.web.home == "" { // a portal has none of these pages
		b.JSONL = v.link(path + "/export" + withQuery("q", s.Text, "format", client.JSONLines))
		b.CSV = v.link(path + "/export" + withQuery("q", s.Text, "format", client.CSV))
		b.Compare = v.link("/deliveries/")
	}
	for at, to := range map[string]*string{"/deliveries/retry": &b.Retry, "/dead-letters/discard": &b.Discard,
		"/dead-letters/replay": &b.Replay} {
		if v.mayDo(at) {
			*to = v.link(at)
		}
	}
	return b
}

// picked are the deliveries that were selected: the ticked ones, or the newest of all that match.
// more says that others match too.
func (v *visit) picked() (ids []string, more bool, err error) {
	if v.PostForm.Get("all") == "" {
		if ids = v.PostForm["id"]; len(ids) > v.web.Bounds.Page {
			err = refused(http.StatusRequestEntityTooLarge, "Too many deliveries are selected.", "Select at most one page of them.")
		}
		return ids, false, err
	}
	s, err := v.parsed(v.PostForm.Get("q"))
	if err != nil {
		return nil, false, err
	}
	if len(s.Faults) > 0 {
		return nil, false, refused(http.StatusBadRequest, "The search cannot be read.", s.Faults[0])
	}
	found, more, err := v.finished(s.Filter, v.PostForm.Get("letters") != "", v.web.Bounds.Named)
	for i := range found {
		ids = append(ids, found[i].ID)
	}
	return ids, more, err
}

// eachPicked does something to each selected delivery. It goes on after one that is refused, and
// says how many those were.
func (v *visit) eachPicked(one, several, done string, do func(id string) error) (string, error) {
	ids, more, err := v.picked()
	if err != nil || len(ids) == 0 {
		return nothingSelected, err
	}
	n := 0
	var first error
	for _, id := range ids {
		if err := v.Context().Err(); err != nil {
			return "", err
		}
		if err := do(id); err == nil {
			n++
		} else if first == nil {
			first = err
		}
	}
	if n == 0 {
		return "", first
	}
	said := say.Many(n, one, several) + " " + done + "."
	if rest := len(ids) - n; rest > 0 {
		said += " " + say.Many(rest, "other was", "others were") + " refused: " + first.Error()
	}
	if more {
		said += " These were the newest " + say.Count(len(ids)) + " that match; older ones are unchanged."
	}
	return said, nil
}

// export hands on the API's export of all that match, as it is sent: neither its length nor a slow
// browser costs memory here. The API makes it an attachment.
func (v *visit) export() error {
	if v.session == nil {
		v.toLogin()
		return nil
	}
	q := v.URL.Query()
	rq, err := v.asking("/v1"+v.URL.Path, given("filter", q.Get("q"), "format", q.Get("format")))
	if err == nil {
		v.web.API.ServeHTTP(v.rw, rq)
	}
	return err
}

// tooLong refuses a search that is.
func (v *visit) tooLong(text string) error {
	if len(text) <= v.web.Bounds.Search {
		return nil
	}
	return refused(http.StatusRequestURITooLong, "The search is too long.", "Use at most "+say.Count(v.web.Bounds.Search)+" characters.")
}

// parsed reads a search, in which an endpoint's name becomes its id.
func (v *visit) parsed(text string) (s search, err error) {
	if err = v.tooLong(text); err != nil {
		return s, err
	}
	s = parseSearch(text, v.now)
	if err = v.understood(&s); err != nil {
		return s, err
	}
	if typed := s.Filter.Endpoint; typed != "" && jump(typed) == "" && !isChannel(typed) {
		if s.Filter.Endpoint, err = v.one(&s, "endpoint", typed); err != nil {
			return s, err
		}
	}
	if s.Source != "" && jump(s.Source) == "" {
		if s.Source, err = v.one(&s, "source", s.Source); err != nil {
			return s, err
		}
		s.Filter.Filter = grammar.With(s.Filter.Filter, "source", s.Source)
	}
	v.tenant = s.Filter.Tenant
	return s, nil
}

// one is the id of the endpoint or source with a typed name; if there is not exactly one, the
// search gets a fault.
func (v *visit) one(s *search, kind, typed string) (string, error) {
	found, err := v.client.Meant(v.Context(), typed, s.Filter.Tenant)
	if err != nil {
		return "", err
	}
	var all []grammar.Named
	for _, t := range found.Things {
		if t.Kind == kind || kind == "endpoint" && t.Kind == "queue" {
			all = append(all, grammar.Named{ID: t.ID, Name: t.Name})
		}
	}
	id, says := grammar.One(kind, typed, all)
	if says != "" {
		s.Faults = append(s.Faults, token{kind, typed}.String()+": "+says+".")
	}
	return id, nil
}

const nothingSelected = "Nothing was selected."

// search reads the search of the page's address.
func (v *visit) search() (search, error) { return v.parsed(v.URL.Query().Get("q")) }

// listSearch is the search of a list. That for an id leads to the page of the thing.
func (v *visit) listSearch() (search, error) {
	s, err := v.search()
	if err == nil && s.Jump != "" {
		err = jumped(s.Jump)
	}
	return s, err
}

// jumped leads to the page of the thing whose id was searched for.
func jumped(path string) error { return &failure{Status: http.StatusSeeOther, Title: path} }

// namedSearch is a search that a list offers.
type namedSearch struct{ name, q string }

// searches are those that the list at a path offers; here is its present one.
func (v *visit) searches(path string, all []namedSearch, here string) (views []savedView) {
	for _, s := range all {
		views = append(views, savedView{s.name, v.link(path + withQuery("q", s.q)), s.q == here})
	}
	return views
}
