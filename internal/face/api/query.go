package api

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/policy"
)

// param is a query parameter that a route takes.
type param struct {
	name     string
	doc      string
	form     string                    // of forms; empty: any text without control characters
	bound    func(*Bounds) strict.Form // instead, where it depends on the server's settings
	required bool
	repeat   bool     // several times, or comma separated
	one      []string // the values it may have; empty: any
}

// looks is the form of a parameter's values.
func (p *param) looks(b *Bounds) strict.Form {
	switch {
	case p.bound != nil:
		return p.bound(b)
	case len(p.one) > 0:
		return strict.Form{Must: "must be one of " + strings.Join(p.one, ", "), One: p.one}
	case p.form == "":
		return forms["line"]
	}
	return forms[p.form]
}

// query are the parameters of a request, each known to its route.
type query struct {
	values url.Values
	faults strict.Faults
	bounds *Bounds
}

// read reads the text of a query and refuses parameters that are not known: a filter that is
// misspelt must not select everything.
func (q *query) read(text string, known []param) error {
	values, err := url.ParseQuery(text)
	if err != nil {
		return grapnel.Errorf(grapnel.CodeMalformed, "The query cannot be parsed.")
	}
	q.values = values
	f := &q.faults
	for _, name := range slices.Sorted(maps.Keys(values)) {
		i := slices.IndexFunc(known, func(p param) bool { return p.name == name })
		if i < 0 {
			f.Add("?"+name, "is unknown")
			continue
		}
		p := &known[i]
		looks := p.looks(q.bounds)
		texts := values[name]
		if p.repeat {
			texts = q.all(name)
		} else if len(texts) > 1 {
			f.Add("?"+name, "is given twice")
		}
		for _, text := range texts {
			switch {
			case text == "":
				f.Add("?"+name, "must not be empty")
			case !strict.Printable(text) || !utf8.ValidString(text):
				f.Add("?"+name, "must be text without control characters")
			case !looks.Fits(text):
				f.Add("?"+name, "%s", looks.Must)
			}
		}
	}
	for _, p := range known {
		if p.required && len(values[p.name]) == 0 {
			f.Add("?"+p.name, "is required")
		}
	}
	return f.Err()
}

// text is a parameter's value; empty when it is not given.
func (q *query) text(name string) string { return q.values.Get(name) }

// all are a repeatable parameter's values.
func (q *query) all(name string) []string {
	var out []string
	for _, v := range q.values[name] {
		out = append(out, strings.Split(v, ",")...)
	}
	return out
}

// time is an instant; zero when it is not given.
func (q *query) time(name string) time.Time {
	if !q.values.Has(name) {
		return time.Time{}
	}
	t, _ := strict.ParseTime(q.text(name)) // it has the form
	return t
}

// duration is one that has the form of its parameter; 0 when it is not given.
func (q *query) duration(name string) time.Duration {
	d, _ := policy.ParseDuration(q.text(name))
	return d
}

// span is the time from from to to.
func (q *query) span() (from, to time.Time) {
	from, to = q.time("from"), q.time("to")
	if !from.IsZero() && !to.IsZero() && to.Before(from) {
		q.faults.Add("?to", "must not be before from")
	}
	return from, to
}

// limit is the length of a page.
func (q *query) limit() int { return q.number("limit", q.bounds.PageDefault) }

// number is a whole number, or what stands for none.
func (q *query) number(name string, otherwise int) int {
	if !q.values.Has(name) {
		return otherwise
	}
	n, _ := strconv.Atoi(q.text(name)) // it has the form
	return n
}

// Parameters that several lists have.
var (
	typeParam   = param{name: "type", form: "pattern", doc: "an event type; a whole segment may be *"}
	keyParam    = param{name: "key", form: "key", doc: "an ordering key"}
	tenantParam = param{name: "tenant", form: "tenant", doc: "a tenant, for keys that are bound to none"}
	sourceParam = param{name: "source", form: "id", doc: "the id of a source: only events that it received"}
	fromParam   = param{name: "from", form: "time", doc: "accepted then or later"}
	toParam     = param{name: "to", form: "time", doc: "accepted before then"}
)
