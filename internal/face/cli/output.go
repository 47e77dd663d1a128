package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/itchyny/gojq"

	"github.com/grapnelhq/grapnel/client"
)

// The forms of output.
const (
	Table = "table"
	JSON  = "json"
	Lines = "jsonl"
	Names = "name"
)

// View is an answer in every form of output.
type View struct {
	JSON  json.RawMessage // the whole answer
	Items []Item          // the object, or those of a list
	Parts []Part          // for people
	Next  string          // cursor of the next page of a list; empty: this is the last
	More  string          // said on stderr, as "more follows", unless the whole JSON is printed
}

// empty says whether a view is the empty last page of a list.
func (v *View) empty() bool {
	return v.More == "" && len(v.Items) == 0 && len(v.Parts) == 1 &&
		v.Parts[0].Head != nil && v.Parts[0].Title == "" && len(v.Parts[0].Rows) == 0
}

// Item is one object of an answer.
type Item struct {
	Name string
	JSON json.RawMessage
}

// Printer prints views in the form that the user asked for.
type Printer struct {
	world *World
	form  string
	query *gojq.Code
}

// NewPrinter checks the form and compiles the --jq expression, which may be empty.
func (w *World) NewPrinter(form, jq string) (*Printer, error) {
	p := &Printer{world: w, form: form}
	if !slices.Contains([]string{Table, JSON, Lines, Names}, form) {
		return nil, Usagef("-o %s: the forms of output are table, json, jsonl and name", form)
	}
	if jq == "" {
		return p, nil
	}
	var err error
	if p.query, err = compile(jq); err != nil {
		return nil, Usagef("--jq: %v", err)
	}
	return p, nil
}

// Machine says whether a program reads the output.
func (p *Printer) Machine() bool { return p.form == JSON || p.form == Lines || p.query != nil }

// Print prints a view.
func (p *Printer) Print(v View) error {
	out := &bytes.Buffer{}
	if p.form == Table && p.query == nil && v.empty() {
		p.world.Note("nothing here")
		return nil
	}
	switch {
	case p.query != nil:
		if err := p.filter(out, v.JSON); err != nil {
			return err
		}
	case p.form == JSON:
		if err := json.Indent(out, v.JSON, "", "  "); err != nil {
			return fmt.Errorf("the answer is not JSON: %w", err)
		}
		out.WriteByte('\n')
	case p.form == Lines:
		for _, item := range v.Items {
			if err := json.Compact(out, item.JSON); err != nil {
				return fmt.Errorf("the answer is not JSON: %w", err)
			}
			out.WriteByte('\n')
		}
	case p.form == Names:
		for _, item := range v.Items {
			fmt.Fprintln(out, item.Name)
		}
	default:
		layout{colour: p.world.Colour(p.world.Stdout), width: p.world.Columns(p.world.Stdout)}.write(out, v.Parts)
	}
	if _, err := p.world.Stdout.Write(out.Bytes()); err != nil {
		return fmt.Errorf("the answer cannot be written: %w", err)
	}
	if v.More != "" && (p.form != JSON || p.query != nil) { // the whole JSON has the cursor
		_, _ = fmt.Fprintln(p.world.Stderr, v.More)
	}
	return nil
}

// filter runs the --jq expression. Like jq -r, it prints strings without quotes.
func (p *Printer) filter(out io.Writer, doc json.RawMessage) error {
	in, err := decode(doc)
	if err != nil {
		return err
	}
	results := p.query.Run(in)
	for {
		v, more := results.Next()
		if !more {
			return nil
		}
		if err, failed := v.(error); failed {
			return Usagef("--jq: %v", err)
		}
		if text, ok := v.(string); ok {
			_, _ = fmt.Fprintln(out, text)
			continue
		}
		line, err := gojq.Marshal(v)
		if err != nil {
			return fmt.Errorf("--jq: the result cannot be printed: %w", err)
		}
		_, _ = fmt.Fprintln(out, string(line))
	}
}

// Time is a time for a table: relative on a terminal, in RFC 3339 elsewhere.
func (p *Printer) Time(at *time.Time) string {
	if at == nil || at.IsZero() {
		return ""
	}
	if _, ok := terminal(p.world.Stdout); !ok {
		return at.UTC().Format("2006-01-02T15:04:05.000000Z")
	}
	return relative(at.Sub(p.world.Now()))
}

func relative(away time.Duration) string {
	text := func(d time.Duration) string {
		switch {
		case d < time.Minute:
			return fmt.Sprintf("%ds", d/time.Second)
		case d < time.Hour:
			return fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)
		case d < 48*time.Hour:
			return fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)
		}
		return fmt.Sprintf("%dd", d/(24*time.Hour))
	}
	switch {
	case away >= time.Second:
		return "in " + text(away)
	case away <= -time.Second:
		return text(-away) + " ago"
	}
	return "now"
}

// Encode writes a value as JSON, without escapes for HTML.
func Encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		panic(err) // only our own plain structs come here
	}
	return json.RawMessage(strings.TrimSuffix(b.String(), "\n"))
}

// AskedOutput is the form of output that the arguments or the environment ask for, if they could
// not be parsed.
func (w *World) AskedOutput(otherwise string) string {
	if form, _ := w.Lookup("GRAPNEL_OUTPUT"); form != "" {
		otherwise = form
	}
	for i, arg := range w.Args {
		for _, name := range []string{"-o", "--output"} {
			if rest, ok := strings.CutPrefix(arg, name); ok {
				if rest != "" {
					otherwise = strings.TrimPrefix(rest, "=")
				} else if i+1 < len(w.Args) {
					otherwise = w.Args[i+1]
				}
			}
		}
	}
	return otherwise
}

// Condition compiles a jq expression into a test of a document. Null and false fail it, as in jq,
// and an empty expression always fails.
func Condition(expression string) (func(doc json.RawMessage) (bool, error), error) {
	if expression == "" {
		return func(json.RawMessage) (bool, error) { return false, nil }, nil
	}
	query, err := compile(expression)
	if err != nil {
		return nil, err
	}
	return func(doc json.RawMessage) (bool, error) {
		in, err := decode(doc)
		if err != nil {
			return false, err
		}
		v, _ := query.Run(in).Next()
		if err, failed := v.(error); failed {
			return false, err
		}
		return v != nil && v != false, nil
	}, nil
}

func compile(expression string) (*gojq.Code, error) {
	query, err := gojq.Parse(expression)
	if err != nil {
		return nil, err
	}
	return gojq.Compile(query)
}

// decode keeps the digits of numbers.
func decode(doc json.RawMessage) (v any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(doc))
	decoder.UseNumber()
	if err := decoder.Decode(&v); err != nil {
		return nil, fmt.Errorf("the answer is not JSON: %w", err)
	}
	return v, nil
}

// Compact is a document on one line; empty for null and an empty object.
func Compact(doc json.RawMessage) string {
	switch text := strings.Join(strings.Fields(string(doc)), " "); text {
	case "null", "{}":
		return ""
	default:
		return text
	}
}

// problemOf is a problem on one line: the server's own when it sent one.
func problemOf(err error, f *Fault) json.RawMessage {
	var refused *client.Error
	var line bytes.Buffer
	if errors.As(err, &refused) && json.Compact(&line, refused.Problem) == nil {
		return line.Bytes()
	}
	return Encode(struct {
		Type   string `json:"type"`
		Title  string `json:"title"`
		Detail string `json:"detail"`
		Code   string `json:"code"`
		Exit   int    `json:"exit_code"`
	}{"about:blank", cmp.Or(titles[f.Exit], "Failed"), f.Text, f.Code, f.Exit})
}
