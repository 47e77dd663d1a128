package cli

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/policy"
)

// The annotations of flags that set a field of a request.
const (
	setsField = "grapnel_field"
	hasForm   = "grapnel_form"
)

// Sets says which fields of the request a flag sets. A flag without it sets the field of its own
// name; one for the begin or the end of a range, that of its other name too.
func Sets(flags *pflag.FlagSet, flag string, fields ...string) {
	annotate(flags, flag, setsField, fields...)
}

// Form says how the usage shows the values of a flag: "jsonl|csv". Without it, the kind of value is
// shown.
func Form(flags *pflag.FlagSet, form, flag string) { annotate(flags, flag, hasForm, form) }

// InFlags words a server's refusal in the terms of the command that was called: it names the flag
// or argument that sets a field. A field without either is in a document of the user's, and keeps
// its pointer.
func InFlags(command *cobra.Command, err error) error {
	var refused *client.Error
	if command == nil || !errors.As(err, &refused) || len(refused.Fields) == 0 {
		return err
	}
	said := *refused
	said.Fields, said.Detail = nil, ""
	for i, f := range refused.Fields {
		if i > 0 {
			said.Detail += "; "
		}
		said.Detail += flagOf(command, f.Pointer) + ": " + f.Detail
	}
	return &said
}

// FaultsInFlags words the faults of a document that the command made of its flags, as InFlags does.
func FaultsInFlags(command *cobra.Command, err error) error {
	var wrong policy.Errors
	if !errors.As(err, &wrong) {
		return err
	}
	said := make([]string, len(wrong))
	for i, e := range wrong {
		said[i] = flagOf(command, e.Pointer) + ": " + e.Detail
	}
	return Usagef("%s", strings.Join(said, "; "))
}

// documents are fields whose value is JSON of the user's own, in which a refusal names a place.
var documents = []string{"data", "schema", "example"}

// flagOf is the flag that sets a field, or the argument of that name, or the pointer itself. The
// longest field that begins the pointer decides; without one, the innermost part that is the name
// of a flag.
func flagOf(command *cobra.Command, pointer string) string {
	path := strings.FieldsFunc(pointer, func(r rune) bool { return r == '/' || r == '?' })
	for n := len(path); n > 0; n-- {
		if name := setter(command, strings.Join(path[:n], "/")); name != "" {
			if n < len(path) && slices.Contains(documents, path[0]) {
				name += " at /" + strings.Join(path[n:], "/")
			}
			return name
		}
	}
	for _, part := range slices.Backward(path) {
		if name := setter(command, part); name != "" {
			return name
		}
	}
	if len(path) > 0 {
		if argument := strings.ToUpper(path[0]); slices.Contains(strings.FieldsFunc(command.Use, func(r rune) bool { return strings.ContainsRune(" []", r) }), argument) {
			return argument
		}
	}
	return pointer
}

// setter is the command's own flag that sets a field, with its dashes; empty: none does.
func setter(command *cobra.Command, field string) (name string) {
	command.LocalFlags().VisitAll(func(f *pflag.Flag) {
		sets := f.Annotations[setsField]
		if sets == nil {
			sets = []string{strings.ReplaceAll(f.Name, "-", "_")}
			if other, ranged := namesOfTimes[f.Name]; ranged && f.Value.Type() == "time" {
				sets = append(sets, other)
			}
		}
		if slices.Contains(sets, field) {
			name = "--" + f.Name
		}
	})
	return name
}

// forms are those of the types of value that have no form of their own.
var forms = map[string]string{"string": "TEXT", "stringArray": "TEXT", "stringSlice": "LIST", "intSlice": "LIST", "int": "N", "int64": "N",
	"uint64": "N", "float64": "N", "stringToString": "NAME=VALUE", "bool": "bool"}

// formed is a flag's value under the name of its form.
type formed struct {
	pflag.Value
	form string
}

func (f formed) Type() string { return f.form }

// FormOf is the form of a flag's values.
func FormOf(f *pflag.Flag) string {
	if given := f.Annotations[hasForm]; given != nil && given[0] != "" {
		return given[0]
	}
	return cmp.Or(forms[f.Value.Type()], strings.ToUpper(f.Value.Type()))
}

// Usages describes flags for help, each with the form of its values: "--lease DURATION".
func Usages(flags *pflag.FlagSet, width int) string {
	shown := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.VisitAll(func(f *pflag.Flag) {
		own := *f
		own.Value, own.DefValue = formed{f.Value, FormOf(f)}, strings.TrimSuffix(f.DefValue, "[]")
		shown.AddFlag(&own)
	})
	return shown.FlagUsagesWrapped(width)
}
