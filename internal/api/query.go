package api

import (
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
)

// param is a query parameter that a route takes.
type param struct {
	name     string
	doc      string
	format   string // date-time, integer, or empty: any text
	required bool
	repeat   bool     // several times, or comma separated
	one      []string // the values it may have; empty: any
}

// query are the parameters of a request, each known to its route.
type query struct {
	values url.Values
	faults faults
	bounds *Bounds
}

// readQuery refuses what the route does not know: a filter that is misspelt must not select everything. What is asked by probes
// and scrapers selects nothing, and they add parameters of their own.
func (c *call) readQuery() error {
	if c.route.tag == serviceTag || c.route.tag == "" || c.URL.RawQuery == "" && !slices.ContainsFunc(c.route.query, func(p param) bool { return p.required }) {
		return nil
	}
	values, err := url.ParseQuery(c.URL.RawQuery)
	if err != nil {
		return grapnel.Errorf(grapnel.CodeMalformed, "The query cannot be parsed.")
	}
	c.query.values = values
	f := &c.query.faults
	names := make([]string, 0, len(values))
	for name := range values {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		i := slices.IndexFunc(c.route.query, func(p param) bool { return p.name == name })
		if i < 0 {
			f.add("?"+name, "is not known here")
			continue
		}
		p := c.route.query[i]
		if len(values[name]) > 1 && !p.repeat {
			f.add("?"+name, "is given twice")
		}
		for _, text := range c.query.all(name) {
			switch {
			case text == "":
				f.add("?"+name, "must not be empty")
			case !printable(text) || !utf8Text(text):
				f.add("?"+name, "must be text without control characters")
			case len(p.one) > 0 && !slices.Contains(p.one, text):
				f.add("?"+name, "must be one of %s", strings.Join(p.one, ", "))
			}
		}
	}
	for _, p := range c.route.query {
		if p.required && len(values[p.name]) == 0 {
			f.add("?"+p.name, "is required")
		}
	}
	return f.err()
}

func utf8Text(s string) bool { return strings.ToValidUTF8(s, "") == s }

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

// pattern is an event type in which a segment may be a star.
func (q *query) pattern(name string) string {
	text := q.text(name)
	if text != "" && !grapnel.ValidPattern(text) {
		q.faults.add("?"+name, "must be an event type; a whole segment may be *")
	}
	return text
}

// time is an instant; zero when it is not given.
func (q *query) time(name string) time.Time {
	text := q.text(name)
	if text == "" {
		return time.Time{}
	}
	// A plus sign that somebody forgot to escape arrives as a space.
	t, err := time.Parse(time.RFC3339, strings.Replace(text, " ", "+", 1))
	if err != nil {
		q.faults.add("?"+name, "must be a time as in 2026-01-31T12:00:00Z")
	}
	return t.UTC()
}

// span is the time from from to to.
func (q *query) span() (from, to time.Time) {
	from, to = q.time("from"), q.time("to")
	if !from.IsZero() && !to.IsZero() && to.Before(from) {
		q.faults.add("?to", "must not be before from")
	}
	return from, to
}

// limit is the length of a page.
func (q *query) limit() int { return q.number("limit", 1, q.bounds.PageMost, q.bounds.PageDefault) }

// number is a whole number within bounds, or what stands for none.
func (q *query) number(name string, least, most, otherwise int) int {
	text := q.text(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		q.faults.add("?"+name, "must be a whole number from %d to %d", least, most)
	}
	return n
}

// Parameters that several lists have.
var (
	typeParam   = param{name: "type", doc: "an event type; a whole segment may be *"}
	keyParam    = param{name: "key", doc: "an ordering key"}
	tenantParam = param{name: "tenant", doc: "a tenant, for keys that are bound to none"}
	sourceParam = param{name: "source", doc: "the id of a source: only what came in through it"}
	fromParam   = param{name: "from", format: "date-time", doc: "accepted then or later"}
	toParam     = param{name: "to", format: "date-time", doc: "accepted before then"}
)

// pageOf adds the parameters of every list to those of one.
func pageOf(own ...param) []param {
	return append(own,
		param{name: "limit", format: "integer", doc: "how many to return at most: 1 to 500, 50 if not given"},
		param{name: "cursor", doc: "the next of the page before"})
}
