package web

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/words"
)

// A page with a form and the action that the form posts to have the same path. If the API refuses
// the request, the action draws the page again: with each fault at its input, and the inputs as
// they were sent. So the builder of the page is the only one, and nothing is typed twice.

// blank is the form of one kind of object: its rows, and the type of its requests.
type blank struct {
	of   reflect.Type
	rows []input
}

// formPage is a page with a form, which leads back to the page above it.
func (v *visit) formPage(title string, f form, button string, steps ...crumb) formModel {
	v.title, v.steps = title, steps
	way := v.way(v.entries(v.page.nav))
	f.Button, f.Cancel = button, way[len(way)-2].Href
	return formModel{Form: f}
}

// adding makes the page of a form that adds something: its button, the question above it, and what
// follows from the answer.
func adding(b *blank, button, question, next string) func(*visit) (formModel, error) {
	return func(v *visit) (formModel, error) {
		m := v.formPage(v.page.title, v.form(b, nil, nil), button)
		m.Verdict.say(question, "", next)
		return m, nil
	}
}

// below are the steps to a page below the page of one thing.
func (v *visit) below(path, name, id, page string) []crumb {
	return []crumb{{name, v.link(path + "/" + url.PathEscape(id))}, {page, ""}}
}

// again says whether a visit draws the form again because it was refused, or because a preview was
// asked for.
func (v *visit) again() bool { return v.Method == http.MethodPost }

// inputs are the rows that a visit has: those for creating or for updating, and those that its
// session may set.
func (v *visit) inputs(b *blank, when string) []input {
	return slices.DeleteFunc(slices.Clone(b.rows), func(in input) bool {
		return in.when != "" && in.when != when || in.owner && v.session.Tenant != ""
	})
}

// form makes a form to fill in. is is the object as the API shows it; nil: there is none yet.
func (v *visit) form(b *blank, is json.RawMessage, choices map[string][]option, folded ...string) form {
	when := "create"
	if is != nil {
		when = "update"
	}
	f := form{Post: v.link(v.here())}
	was := map[string]string{}
	for _, in := range v.inputs(b, when) {
		shown := in.field(b.of, "", choices[in.at])
		value := ""
		if is != nil && shown.Kind != kindSecret {
			value = textOf(shown.Kind, descend(is, in.at))
			was[in.at] = value
		}
		if v.again() {
			value = v.typed(&shown)
		}
		offered := choices[in.at]
		if values := []string{value}; offered != nil {
			if shown.Kind == kindTicks {
				values = strings.Fields(value)
			}
			for _, one := range values {
				offered = chosenToo(offered, one)
			}
		}
		shown = in.field(b.of, value, offered)
		if in.group != "" || len(f.Groups) == 0 {
			f.Groups = append(f.Groups, formGroup{Title: in.group, Folded: slices.Contains(folded, in.group)})
		}
		g := &f.Groups[len(f.Groups)-1]
		g.Fields = append(g.Fields, shown)
		if value != "" && is != nil && shown.Kind != kindChoice && shown.Kind != kindTick && shown.Kind != kindNumber {
			g.Folded = false
		}
	}
	if is != nil {
		text, _ := json.Marshal(was) // a map of texts
		f.Was = string(text)
	}
	if v.again() {
		if is != nil {
			f.Was = v.PostForm.Get("was")
		}
		f.place(v.refusal)
	}
	return f
}

// chosenToo adds the present value to the options of a choice that does not list it, such as a
// policy that an endpoint has of its own.
func chosenToo(options []option, value string) []option {
	if options == nil || value == "" || slices.ContainsFunc(options, func(o option) bool { return o.Value == value }) {
		return options
	}
	return append(slices.Clone(options), option{Value: value, Word: value})
}

// place puts the faults of a refused request at their inputs.
func (f *form) place(told *client.Error) {
	if told == nil {
		return
	}
	if len(told.Fields) == 0 {
		f.Problems = append(f.Problems, sentence(told.Error()))
		if told.Status >= http.StatusInternalServerError && told.RequestID != "" {
			f.Problems = append(f.Problems, "The server's log has the request as "+told.RequestID+".")
		}
	}
	for _, fault := range told.Fields {
		if name, query := strings.CutPrefix(fault.Pointer, "?"); query {
			fault.Pointer = "/" + name
		}
		if at := f.find(fault.Pointer); at == nil {
			f.Problems = append(f.Problems, sentence(strings.TrimPrefix(fault.Pointer+": "+fault.Detail, ": ")))
		} else {
			at.Problem = strings.TrimSpace(at.Problem + " " + words.Literal(strings.TrimPrefix(at.part(fault.Pointer)+": "+fault.Detail, ": ")))
		}
	}
	for i := range f.Groups {
		if slices.ContainsFunc(f.Groups[i].Fields, func(at field) bool { return at.Problem != "" }) {
			f.Groups[i].Folded = false
		}
	}
}

// part names the part of an input's value that a pointer of the API is about: a line of a list, a
// member; empty: all of it.
func (at *field) part(pointer string) string {
	rest, below := strings.CutPrefix(pointer, "/"+at.Name+"/")
	if !below {
		return ""
	}
	n, err := strconv.Atoi(rest)
	if at.Kind != kindLines || err != nil {
		return rest
	}
	for i, line := range strings.Split(at.Value, "\n") { // an empty line is no entry
		if strings.TrimSpace(line) != "" {
			n--
		}
		if n < 0 {
			return fmt.Sprintf("line %d", i+1)
		}
	}
	return rest
}

// find is the input that a pointer of the API is about: the one with the longest name that leads to
// it, or the first one below it.
func (f *form) find(pointer string) (found *field) {
	for i := range f.Groups {
		for j := range f.Groups[i].Fields {
			at := &f.Groups[i].Fields[j]
			if to := "/" + at.Name; pointer == to || strings.HasPrefix(pointer, to+"/") {
				if found == nil || len(found.Name) < len(at.Name) {
					found = at
				}
			}
		}
	}
	if found != nil || pointer == "" {
		return found
	}
	for i := range f.Groups {
		for j := range f.Groups[i].Fields {
			if at := &f.Groups[i].Fields[j]; strings.HasPrefix("/"+at.Name, pointer+"/") {
				return at
			}
		}
	}
	return nil
}

// descend finds a member in JSON; nil: there is none.
func descend(doc json.RawMessage, pointer string) json.RawMessage {
	for name := range strings.SplitSeq(pointer, "/") {
		var members map[string]json.RawMessage
		if json.Unmarshal(doc, &members) != nil {
			return nil
		}
		doc = members[name]
	}
	return doc
}

// itsOwn stands for a value that a choice cannot show: choosing it changes nothing.
const itsOwn = "(its own)"

// textOf is the text of a member's value in an input of a kind.
func textOf(kind string, raw json.RawMessage) string {
	if len(raw) == 0 || string(raw) == "null" {
		return ""
	}
	switch kind {
	case kindJSON:
		var b bytes.Buffer
		if json.Indent(&b, raw, "", "  ") == nil {
			return b.String()
		}
	case kindLines, kindTicks:
		var all []string
		if json.Unmarshal(raw, &all) == nil {
			return strings.Join(all, map[string]string{kindLines: "\n", kindTicks: " "}[kind])
		}
	case kindPairs:
		var all map[string]string
		if json.Unmarshal(raw, &all) == nil {
			var b strings.Builder
			for _, name := range slices.Sorted(maps.Keys(all)) {
				fmt.Fprintf(&b, "%s: %s\n", name, all[name])
			}
			return strings.TrimSpace(b.String())
		}
	}
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	if kind == kindChoice {
		return itsOwn
	}
	return string(raw)
}

var trialBlank = blank{of: reflect.TypeFor[trial](), rows: []input{
	{group: "The event", at: "type", label: "Event type", sample: "invoice.paid"},
	{at: "key", label: "Key", sample: "inv_123", help: "events of one key arrive in order. Empty: no order"},
	{at: "data", label: "Data", help: "JSON. It is sent byte for byte: digits and the order of members stay"},
	{at: "metadata", label: "Metadata", sample: "request: req_1", help: "one on each line"},
	{at: "deliver_at", label: "Deliver at", sample: "2030-01-31T12:00:00Z", help: "with Publish: when its deliveries begin. Later events of its key wait behind it. Empty: at once"},
	{at: "tenant", label: "Tenant", owner: true, sample: "default"},
	{group: "One endpoint", at: "endpoint", label: "Endpoint", kind: kindChoice, help: "shows the request that it would get; Send to this endpoint sends it there alone, marked as a test"},
	{at: "twice", label: "Send it twice", help: "with Send to this endpoint: the same event again, as after a lost answer. Does the receiver do the work once?"},
	{group: "Faults to try on this endpoint", at: "more", label: "Events after it", sample: `{"amount":200}`,
		help: "with Send to this endpoint: data of further events of the type, JSON, one on each line, at most 9"},
	{at: "order", label: "In which order", kind: kindChoice, help: "each is sent a second after the one before. Does an old event overwrite a newer one?"},
	{at: "delay", label: "Delay", sample: "0s", help: "before the first is sent, such as 10s; at most 1h. Does the receiver refuse late events?"},
}}
