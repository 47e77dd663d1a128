package web

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel/client"
)

// A form that a browser sends becomes a request to the API: the texts of its inputs, as JSON of the
// inputs' kinds. form.go draws it. If a text has not its input's form, the request is sent without
// it and with the member unread, so that the API refuses it and names the faults of the rest.

// unread is a member of no request. The API refuses every body that has it, whatever else it has.
const unread = "texts of the form that cannot be read"

// joined are a form's own faults and those that the API found in the rest of the form.
func joined(own, told error) error {
	var mine, theirs *client.Error
	if !errors.As(own, &mine) {
		return told
	}
	if !errors.As(told, &theirs) {
		return own
	}
	all := mine.Fields
	for _, fault := range theirs.Fields {
		twice := slices.ContainsFunc(mine.Fields, func(is client.Field) bool { return is.Pointer == fault.Pointer })
		if !twice && fault.Pointer != "/"+unread {
			all = append(all, fault)
		}
	}
	return invalid(all...)
}

// creation reads the form of an object that does not exist yet. An empty input is left to the API's
// default. The error has the texts that cannot be read; the request has the others.
func (v *visit) creation(b *blank) (map[string]any, error) {
	return v.request(b, "create", nil)
}

// changes reads the form of an object that exists, as a merge patch: what differs from the values
// when the form was drawn. So two people who change different settings do not undo each other's.
func (v *visit) changes(b *blank) (map[string]any, error) {
	was := map[string]string{}
	if err := json.Unmarshal([]byte(v.PostForm.Get("was")), &was); err != nil {
		return nil, refused(http.StatusBadRequest, "The form cannot be read.", "Open it again.")
	}
	return v.request(b, "update", was)
}

func (v *visit) request(b *blank, when string, was map[string]string) (map[string]any, error) {
	out := map[string]any{}
	var faults []client.Field
	given := map[string]bool{} // objects inside the request of which a part is given
	rows := v.inputs(b, when)
	for _, in := range rows {
		parent, _, nested := strings.Cut(in.at, "/")
		at := in.field(b.of, "", nil)
		given[parent] = given[parent] || nested && !nothing(&at, v.typed(&at))
	}
	for _, in := range rows {
		at := in.field(b.of, "", nil)
		old, known := was[in.at]
		text := v.typed(&at)
		if in.pauses != "" && (in.pauses == pausesExponential) != (v.PostForm.Get("schedule/mode") == pausesExponential) {
			text = "" // the page does not show the input
		}
		if at.Kind == kindTicks {
			text = inOrder(text, old)
		}
		unchanged := was != nil && (text == trimmed(old) || !known)
		if at.Kind == kindSecret || was == nil {
			unchanged = nothing(&at, text)
		}
		if unchanged {
			continue
		}
		value, err := valueOf(&at, text, old)
		if err != nil {
			faults = append(faults, client.Field{Pointer: "/" + in.at, Detail: err.Error()})
			continue
		}
		parent, name, nested := strings.Cut(in.at, "/")
		whole, _ := member(b.of, parent)
		switch {
		case !nested:
			out[in.at] = value
		case !given[parent] && whole.Type.Kind() == reflect.Pointer: // a thing can be without it
			out[parent] = nil
		default:
			inside, _ := out[parent].(map[string]any)
			if inside == nil {
				inside = map[string]any{}
			}
			inside[name] = value
			out[parent] = inside
		}
	}
	if len(faults) > 0 {
		out[unread] = true
		return out, invalid(faults...)
	}
	return out, nil
}

// inOrder has the words that were there before in their order, and then the others: boxes have no
// order, but the list that they set may have one, as the ways to recognise a duplicate.
func inOrder(text, old string) string {
	words, before := strings.Fields(text), strings.Fields(old)
	slices.SortStableFunc(words, func(a, b string) int {
		return cmp.Compare(uint(slices.Index(before, a)), uint(slices.Index(before, b)))
	})
	return strings.Join(words, " ")
}

// nothing says whether an input was left as an empty form has it.
func nothing(at *field, text string) bool {
	return text == "" || at.Kind == kindTick && text == "false"
}

// valueOf is the JSON for a text that was typed in; old is the text before, for members that a
// merge patch has to remove.
func valueOf(at *field, text, old string) (any, error) {
	switch at.Kind {
	case kindTick:
		return text == "true", nil
	case kindTicks:
		return strings.Fields(text), nil
	case kindLines:
		if text == "" {
			return nil, nil // an empty list may be refused, where none may not
		}
		return splitLines(text), nil
	case kindPairs:
		return pairsOf(text, old)
	}
	if text == "" {
		return nil, nil
	}
	switch at.Kind {
	case kindChoice:
		if strings.HasPrefix(text, "{") { // a whole policy
			return checkedJSON(text)
		}
	case kindNumber:
		var n json.Number
		if err := json.Unmarshal([]byte(text), &n); err != nil || strings.HasPrefix(text, `"`) {
			return nil, fmt.Errorf("%q is no number", text)
		}
		return n, nil
	case kindJSON:
		return checkedJSON(text)
	case kindValue:
		if json.Valid([]byte(text)) {
			return json.RawMessage(text), nil
		}
	}
	return text, nil
}

func splitLines(text string) []string {
	all := []string{}
	for line := range strings.SplitSeq(text, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			all = append(all, line)
		}
	}
	return all
}

// pairsOf reads "name: value" on each line. Names that were there before and are left out become
// null, which removes them.
func pairsOf(text, old string) (map[string]any, error) {
	out := map[string]any{}
	for _, line := range splitLines(old) {
		if name, _, ok := strings.Cut(line, ":"); ok {
			out[strings.TrimSpace(name)] = nil
		}
	}
	for i, line := range splitLines(text) {
		name, value, ok := strings.Cut(line, ":")
		if !ok {
			return nil, fmt.Errorf("line %d has no colon; write name: value", i+1)
		}
		name = strings.TrimSpace(name)
		if out[name] != nil {
			return nil, fmt.Errorf("line %d gives %s again; give it once", i+1, name)
		}
		out[name] = strings.TrimSpace(value)
	}
	return out, nil
}

// checkedJSON is a JSON document, or an error that says where it is wrong.
func checkedJSON(text string) (json.RawMessage, error) {
	var document json.RawMessage
	err := json.Unmarshal([]byte(text), &document)
	if err == nil {
		return json.RawMessage(text), nil
	}
	at := len(text)
	if wrong, ok := err.(*json.SyntaxError); ok { //nolint:errorlint // encoding/json returns it as it is
		at = min(max(int(wrong.Offset)-1, 0), len(text))
	}
	line := strings.Count(text[:at], "\n") + 1
	column := at - strings.LastIndex(text[:at], "\n")
	return nil, fmt.Errorf("line %d, column %d: this is not JSON: %w", line, column, err)
}

// saves makes the action of a form that changes the thing whose id is in the path, at this path of
// the API, and leads to a page.
func saves(b *blank, api, to, notice string) func(*visit) (string, error) {
	return func(v *visit) (string, error) {
		return v.save(b, to, notice, func(changes map[string]any) error { return v.patch(api, changes) })
	}
}

// patch has the API change the thing whose id is in the path.
func (v *visit) patch(api string, changes map[string]any) error {
	return v.client.Do(v.Context(), http.MethodPatch, v.ofThis(api), nil, changes, nil)
}

// save sends the changes in the form of the thing whose id is in the path, and leads to a page.
func (v *visit) save(b *blank, to, notice string, update func(changes map[string]any) error) (string, error) {
	changes, own := v.changes(b)
	if changes == nil {
		return "", own
	}
	v.goTo(v.ofThis(to))
	if len(changes) == 0 {
		return "Nothing was changed.", nil
	}
	return notice, joined(own, update(changes))
}

// deletes makes the action of a form that deletes the thing whose id is in the path.
func deletes(call func(*client.Client, context.Context, string, string) error, to, notice string) func(*visit) (string, error) {
	return func(v *visit) (string, error) {
		reason, err := v.consented(deleteWord)
		if err != nil {
			return "", err
		}
		v.goTo(to)
		return notice, call(v.client, v.Context(), v.PathValue("id"), reason)
	}
}

// unaudited is a call that takes no reason.
func unaudited(call func(*client.Client, context.Context, string) error) func(*client.Client, context.Context, string, string) error {
	return func(c *client.Client, ctx context.Context, id, _ string) error { return call(c, ctx, id) }
}

// create sends the form of an object that does not exist yet, once; made is the API's answer.
func (v *visit) create(b *blank, path string, made any) error {
	in, own := v.creation(b)
	return joined(own, v.postOnce(path, in, made))
}

// adds makes the action of a form that creates something at this path of the API, once. then gets
// the created thing, and returns the next page and the sentence on it.
func adds[T any](b *blank, api string, then func(made *T) (to, notice string)) func(*visit) (string, error) {
	return func(v *visit) (string, error) {
		var made T
		if err := v.create(b, v.ofThis(api), &made); err != nil {
			return "", err
		}
		to, notice := then(&made)
		v.goTo(v.ofThis(to))
		return notice, nil
	}
}

// postOnce creates something with the form's idempotency key, so that a form that the browser sends
// twice creates it once.
func (v *visit) postOnce(path string, in, out any) error {
	once := v.PostForm.Get("once")
	if len(once) > 100 {
		return refused(http.StatusBadRequest, "The form cannot be read.", "Open it again.")
	}
	return v.client.PostOnce(v.Context(), path, once, in, out)
}

// consent is what a person gives before something is deleted: a word that shows that the page was
// read, and a reason for the audit.
type consent struct {
	Confirm string `json:"confirm" required:"true" maxLength:"100"`
	Reason  string `json:"reason" maxLength:"500"`
}

// consentBlank asks for the word, and for a reason.
func consentBlank(word, help string) *blank {
	return &blank{of: reflect.TypeFor[consent](), rows: []input{
		{at: "confirm", label: "Type " + word + " to confirm", help: help},
		{at: "reason", label: "Reason", help: "for the audit"},
	}}
}

// consentForm is the form of a page that deletes something.
func (v *visit) consentForm(word, help string) form {
	f := v.form(consentBlank(word, help), nil, nil)
	f.Danger = true
	return f
}

// consented returns the reason if the word was typed in.
func (v *visit) consented(word string) (reason string, err error) {
	in, err := v.creation(consentBlank(word, ""))
	if err != nil {
		return "", err
	}
	if in["confirm"] != word {
		return "", wrong("confirm", "type "+word+" to confirm; nothing was changed")
	}
	reason, _ = in["reason"].(string)
	return reason, nil
}

// deleteWord confirms that something may be deleted.
const deleteWord = "delete"
