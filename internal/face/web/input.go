package web

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnelhq/grapnel/policy"
)

// input is one input of a form, as a row of a table: which member of a request it sets. The rest is
// read from the tags of the member in package wire, so that a form has the limits and the words of
// the API unless a row says otherwise.
type input struct {
	at     string // the member: a JSON pointer without its first slash
	label  string
	kind   string // empty: as the member's type says
	help   string // empty: the member's doc
	sample string // shown while the input is empty
	group  string // heading of the inputs from here on; empty: that of the input before
	when   string // create or update: only then; empty: both
	owner  bool   // only for sessions that are bound to no tenant
	pauses string // table or exponential: only for such a schedule
}

// The inputs of the other kind of schedule are hidden by a style sheet, and not read.
const (
	pausesTable       = "table"
	pausesExponential = "exponential"
)

// The kinds of inputs.
const (
	kindText   = "text"
	kindLong   = "long"  // text of several lines
	kindLines  = "lines" // a list, one on each line
	kindPairs  = "pairs" // an object of texts, "name: value" on each line
	kindNumber = "number"
	kindChoice = "choice"
	kindTicks  = "ticks" // a list of known words
	kindTick   = "tick"  // true or false
	kindJSON   = "json"
	kindValue  = "value"  // JSON on one line; text that is none is a JSON text
	kindSecret = "secret" // is never shown again
)

// option is one of the values that a choice has.
type option struct {
	Value, Word string
	Says        string // what it is, for a list of ticks
	Href        string // where there is more about it
	Chosen      bool
}

// field is an input as it is drawn.
type field struct {
	Name, Label, Kind   string
	Help, Sample, Value string
	Problem             string // why the API refused the value
	Options             []option
	Needed              bool
	Most                int // bytes; 0: the form's limit alone
	On                  bool
	Pauses              string // the schedule that it is for; empty: all
	Wide                bool   // a choice whose words need the whole line
}

// longWord is the length from which the word of a choice needs the whole line.
const longWord = 25

// member finds what a pointer names in a type of package wire.
func member(t reflect.Type, pointer string) (reflect.StructField, bool) {
	var found reflect.StructField
	for name := range strings.SplitSeq(pointer, "/") {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() != reflect.Struct {
			return found, false
		}
		i := slices.IndexFunc(reflect.VisibleFields(t), func(f reflect.StructField) bool {
			tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			return tag == name
		})
		if i < 0 {
			return found, false
		}
		found = reflect.VisibleFields(t)[i]
		t = found.Type
	}
	return found, true
}

var (
	rawType      = reflect.TypeFor[json.RawMessage]()
	durationType = reflect.TypeFor[policy.Duration]()
)

// kindOf is the kind of input for a member.
func kindOf(f reflect.StructField) string {
	t := f.Type
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	most, _ := strconv.Atoi(f.Tag.Get("maxLength"))
	switch {
	case t == rawType:
		return kindJSON
	case t == durationType:
		return kindText
	case t.Kind() == reflect.Bool:
		return kindTick
	case t.Kind() == reflect.Map:
		return kindPairs
	case t.Kind() == reflect.Slice && f.Tag.Get("enum") != "":
		return kindTicks
	case t.Kind() == reflect.Slice:
		return kindLines
	case t.Kind() == reflect.String && f.Tag.Get("enum") != "":
		return kindChoice
	case t.Kind() == reflect.String && most > 2048:
		return kindLong
	case t.Kind() >= reflect.Int && t.Kind() <= reflect.Float64:
		return kindNumber
	}
	return kindText
}

// field makes the input of a row, with the value of the member and without a problem.
func (in *input) field(t reflect.Type, value string, choices []option) field {
	out := field{Name: in.at, Label: in.label, Kind: in.kind, Help: in.help, Sample: in.sample, Value: value, Pauses: in.pauses}
	if m, known := member(t, in.at); known {
		out.Kind, out.Help = cmp.Or(out.Kind, kindOf(m)), cmp.Or(out.Help, m.Tag.Get("doc"))
		out.Needed = m.Tag.Get("required") == "true" && !strings.Contains(in.at, "/")
		out.Most, _ = strconv.Atoi(m.Tag.Get("maxLength"))
		if out.Kind != kindText && out.Kind != kindLong && out.Kind != kindSecret {
			out.Most = 0 // the limit is of a part
		}
		if enum := m.Tag.Get("enum"); enum != "" && choices == nil {
			usual := m.Tag.Get("default")
			if out.Kind == kindChoice && usual == "" {
				choices = append(choices, option{Word: "not set"})
			}
			if out.Kind == kindChoice && out.Value == "" {
				out.Value = usual
			}
			for word := range strings.SplitSeq(enum, ",") {
				choices = append(choices, option{Value: word, Word: word})
			}
		}
	}
	if out.Kind == kindChoice || out.Kind == kindTicks {
		chosen := []string{out.Value}
		if out.Kind == kindTicks {
			chosen = strings.Fields(out.Value)
		}
		for _, c := range choices {
			c.Chosen = slices.Contains(chosen, c.Value)
			out.Options = append(out.Options, c)
		}
	}
	out.Wide = slices.ContainsFunc(out.Options, func(o option) bool { return len(o.Word) >= longWord })
	out.On = out.Kind == kindTick && out.Value == "true"
	return out
}
