package cli

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// Setting is one row of a table: a flag, and the field of the API that it sets. From the same row
// come the flag, the field of the request, and the flag's name in a refusal that points to the
// field.
type Setting struct {
	Flag  string
	Field string // path in the document, such as "max_concurrency" or "verify/header"
	Kind  string // a key of kinds; or the values, as in "key|none", which the server checks
	About string
	Verb  string // the only verb that has the flag, create or update; empty: both have it
}

// kind is how the values of a setting are written and read.
type kind struct {
	form string // in the usage
	bind func(f *pflag.FlagSet, name, about string)
	read func(w *World, f *pflag.FlagSet, name string) (any, error)
}

var kinds = map[string]kind{
	"text":         {"TEXT", bindText, plain((*pflag.FlagSet).GetString)},
	"limit":        {"TEXT", bindText, readLimit}, // an object without it may do more
	"duration":     {"DURATION", bindText, plain((*pflag.FlagSet).GetString)},
	"content":      {"TEXT|@FILE|-", bindText, readContent}, // secrets and programs
	"policy":       {"NAME|JSON|@FILE|-", bindText, readPolicy},
	"json":         {"JSON|@FILE|-", bindText, readJSON},
	"rate":         {"RATE[/BURST]|none", bindText, readRate},
	"list":         {"LIST", bindList, plain((*pflag.FlagSet).GetStringSlice)},
	"list or none": {"LIST|none", bindList, readListOrNone},
	"contents":     {"TEXT|@FILE|-", bindContents, readContents},
	"int":          {"N", func(f *pflag.FlagSet, name, about string) { f.Int(name, 0, about) }, plain((*pflag.FlagSet).GetInt)},
	"number":       {"N", func(f *pflag.FlagSet, name, about string) { f.Float64(name, 0, about) }, plain((*pflag.FlagSet).GetFloat64)},
	"switch":       {"", func(f *pflag.FlagSet, name, about string) { f.Bool(name, false, about) }, plain((*pflag.FlagSet).GetBool)},
	"size":         {"SIZE", func(f *pflag.FlagSet, name, about string) { f.Var(new(Size), name, about) }, readSize},
	"time":         {"TIME", func(f *pflag.FlagSet, name, about string) { f.Var(new(Moment), name, about) }, readTime},
	"end":          {"DURATION|DATE|never", bindText, plain((*pflag.FlagSet).GetString)},
	"past":         {"TIME", func(f *pflag.FlagSet, name, about string) { f.Var(new(Moment).Past(), name, about) }, readTime},
	"headers": {"NAME=VALUE", func(f *pflag.FlagSet, name, about string) { f.StringToString(name, nil, about) },
		plain((*pflag.FlagSet).GetStringToString)},
}

func bindText(f *pflag.FlagSet, name, about string)     { f.String(name, "", about) }
func bindList(f *pflag.FlagSet, name, about string)     { f.StringSlice(name, nil, about) }
func bindContents(f *pflag.FlagSet, name, about string) { f.StringArray(name, nil, about) }

// plain reads a flag whose value goes to the API as it is.
func plain[T any](get func(*pflag.FlagSet, string) (T, error)) func(*World, *pflag.FlagSet, string) (any, error) {
	return func(_ *World, f *pflag.FlagSet, name string) (any, error) { return get(f, name) }
}

// kindOf is the kind of a setting. Values with a bar between them are a text whose form is the
// values.
func (s *Setting) kindOf() kind {
	k, known := kinds[s.Kind]
	if !known && strings.Contains(s.Kind, "|") {
		k, known = kinds["text"], true
		k.form = s.Kind
	}
	if !known {
		panic("--" + s.Flag + " has an unknown kind: " + s.Kind)
	}
	return k
}

// Bind adds the flags of a table that a verb has.
func Bind(flags *pflag.FlagSet, verb string, settings []Setting) {
	for i := range settings {
		s := &settings[i]
		if s.Verb != "" && s.Verb != verb {
			continue
		}
		k := s.kindOf()
		k.bind(flags, s.Flag, s.About)
		Form(flags, k.form, s.Flag)
		Sets(flags, s.Flag, s.fields()...)
	}
}

// Fields makes a document of the flags that were given. A flag that was not given sets no field, so
// an update changes nothing else and a create leaves the field to the server. An empty flag is a
// value of an update alone; elsewhere it is one of an unset variable, as in --tenant "$TENANT".
func (w *World) Fields(flags *pflag.FlagSet, settings []Setting, update bool) (map[string]any, error) {
	doc := map[string]any{}
	for i := range settings {
		s := &settings[i]
		if !flags.Changed(s.Flag) || !update && s.Kind != "limit" && flags.Lookup(s.Flag).Value.String() == "" {
			continue
		}
		value, err := s.kindOf().read(w, flags, s.Flag)
		if err != nil {
			return nil, err
		}
		into, field := doc, s.Field
		if part, rest, nested := strings.Cut(field, "/"); nested {
			if into, nested = doc[part].(map[string]any); !nested {
				into = map[string]any{}
				doc[part] = into
			}
			field = rest
		}
		if _, many := value.([]string); many && len(s.fields()) > 1 {
			field += "s"
		}
		into[field] = value
	}
	return doc, nil
}

// fields are the fields that a setting can set: one for a single content, one for several.
func (s *Setting) fields() []string {
	if s.Kind == "contents" {
		return []string{s.Field, s.Field + "s"}
	}
	return []string{s.Field}
}

// readLimit refuses an empty value, as from an unset variable: it would be no limit.
func readLimit(_ *World, f *pflag.FlagSet, name string) (any, error) {
	if f.Lookup(name).Value.String() == "" {
		return nil, Usagef("--%s must not be empty: leave it out if there is to be no limit", name)
	}
	return f.GetString(name)
}

func readContent(w *World, f *pflag.FlagSet, name string) (any, error) {
	return w.Text("--"+name, f.Lookup(name).Value.String())
}

// readContents gives one text for one flag and a list for several: the API has a field for each
// form.
func readContents(w *World, f *pflag.FlagSet, name string) (any, error) {
	texts, err := f.GetStringArray(name)
	for i := range texts {
		if err == nil {
			texts[i], err = w.Text("--"+name, texts[i])
		}
	}
	if len(texts) == 1 {
		return texts[0], err
	}
	return texts, err
}

// readPolicy gives a policy's name, or a policy.
func readPolicy(w *World, f *pflag.FlagSet, name string) (any, error) {
	doc, err := w.Text("--"+name, f.Lookup(name).Value.String())
	if err != nil || !strings.HasPrefix(doc, "{") {
		return doc, err
	}
	if !json.Valid([]byte(doc)) {
		return nil, Usagef("--%s: the policy is not JSON", name)
	}
	return json.RawMessage(doc), nil
}

// readJSON reads a document that goes to the API as it is.
func readJSON(w *World, f *pflag.FlagSet, name string) (any, error) {
	doc, err := w.Content("--"+name, f.Lookup(name).Value.String())
	if err == nil && !json.Valid(doc) {
		err = Usagef("--%s is not JSON", name)
	}
	return json.RawMessage(doc), err
}

// readRate reads "100", "100/200" and "none"; null is how a merge patch removes a field.
func readRate(_ *World, f *pflag.FlagSet, name string) (any, error) {
	rate, err := parseRate(f.Lookup(name).Value.String())
	if err != nil {
		return nil, Usagef("--%s: %v", name, err)
	}
	if rate == nil {
		return nil, nil
	}
	fields := map[string]any{"per_second": rate.PerSecond}
	if rate.Burst > 0 {
		fields["burst"] = rate.Burst
	}
	return fields, nil
}

func readListOrNone(_ *World, f *pflag.FlagSet, name string) (any, error) {
	list, err := f.GetStringSlice(name)
	if slices.Equal(list, []string{"none"}) {
		list = []string{}
	}
	return list, err
}

func readSize(_ *World, f *pflag.FlagSet, name string) (any, error) {
	return int64(*f.Lookup(name).Value.(*Size)), nil
}

func readTime(_ *World, f *pflag.FlagSet, name string) (any, error) {
	return f.Lookup(name).Value.String(), nil
}
