package cli

import (
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/grapnelhq/grapnel/wire"
)

// configFlag names the config file, on commands that have one.
const configFlag = "config"

// FromVariables lets flags come from the variables named after them: "drain-timeout" from
// GRAPNEL_DRAIN_TIMEOUT.
func FromVariables(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		annotate(flags, name, fromVariable, "GRAPNEL_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
	}
}

// FromFile lets flags come from the config file, where their names are written with underscores.
func FromFile(flags *pflag.FlagSet, names ...string) { mark(flags, fromFile, names) }

// Secret marks flags whose values errors do not repeat. Their variable with _FILE at its end names
// a file with the value.
func Secret(flags *pflag.FlagSet, names ...string) { mark(flags, keptQuiet, names) }

func mark(flags *pflag.FlagSet, annotation string, names []string) {
	for _, name := range names {
		annotate(flags, name, annotation, "yes")
	}
}

// Shown lists the settings of a command, as its flags have them now, for a page that people read.
// The flags of databases show their place alone; those of other secrets show no value.
func Shown(command *cobra.Command) []wire.Setting {
	var all []wire.Setting
	command.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && f.Name != "help" {
			all = append(all, wire.Setting{Name: f.Name, Value: shownValue(f), Doc: f.Usage})
		}
	})
	return all
}

// shownValue is a flag's value as a page or a command may show it.
func shownValue(f *pflag.Flag) string {
	if _, place := f.Value.(*Store); is(f, keptQuiet) && !place && f.Value.String() != "" {
		return Hidden
	}
	return strings.Trim(f.Value.String(), "[]")
}

// Hidden stands for the value of a secret.
const Hidden = "(hidden)"

func annotate(flags *pflag.FlagSet, flag, annotation string, values ...string) {
	if err := flags.SetAnnotation(flag, annotation, values); err != nil {
		panic(err) // the command itself names an unknown flag
	}
}

// Settle gives the settings without a flag on the command line their values: from the variable,
// else from the config file, if the command has a flag for one. It fails with the first fault.
func (w *World) Settle(flags *pflag.FlagSet) error {
	if err := w.settleVariables(flags); err != nil {
		return err
	}
	path := flags.Lookup(configFlag)
	if path == nil || path.Value.String() == "" || is(path, unsettled) {
		return nil
	}
	file, faults := readConfig(path.Value.String())
	if faults = append(faults, file.unknown(flags)...); len(faults) > 0 {
		return Usagef("%s", faults[0].Error())
	}
	return each(flags, fromFile, func(f *pflag.Flag) error {
		v, found := file.values[f.Name]
		if !found {
			return nil
		}
		return set(flags, f, v.text, file.at(v.line))
	})
}

func (w *World) settleVariables(flags *pflag.FlagSet) error {
	return each(flags, fromVariable, func(f *pflag.Flag) error {
		value, origin, found, err := w.lookup(f.Annotations[fromVariable][0], is(f, keptQuiet))
		if err != nil || !found {
			return err
		}
		return set(flags, f, value, origin)
	})
}

// each visits the flags that have an annotation and no value yet, until a visit fails.
func each(flags *pflag.FlagSet, annotation string, visit func(*pflag.Flag) error) (err error) {
	flags.VisitAll(func(f *pflag.Flag) {
		if err == nil && !f.Changed && is(f, annotation) {
			err = visit(f)
		}
	})
	return err
}

// SetFrom gives a flag a value that was found somewhere.
func SetFrom(flags *pflag.FlagSet, name, value, origin string) error {
	return set(flags, flags.Lookup(name), value, origin)
}

// set gives a flag a value, and notes the value's origin.
func set(flags *pflag.FlagSet, f *pflag.Flag, value, origin string) error {
	if err := flags.Set(f.Name, value); err != nil {
		if is(f, keptQuiet) {
			return Usagef("%s: invalid value for %s", origin, f.Name)
		}
		if invalid, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
			err = invalid.Unwrap()
		}
		return Usagef("%s: %q is invalid for %s: %v", origin, value, f.Name, err)
	}
	annotate(flags, f.Name, cameFrom, origin)
	return nil
}

// lookup finds a variable; an empty one counts as not set. origin names it in errors.
func (w *World) lookup(name string, secret bool) (value, origin string, found bool, err error) {
	value, _ = w.Lookup(name)
	path := ""
	if secret {
		path, _ = w.Lookup(name + "_FILE")
		if value == "" && path == "" {
			path = w.credential(name)
		}
	}
	switch {
	case value != "" && path != "":
		return "", "", false, Usagef("both %s and %s_FILE are set: unset one of them", name, name)
	case path != "":
		text, err := os.ReadFile(path)
		if err != nil {
			return "", "", false, Usagef("%s_FILE: %v", name, err)
		}
		return strings.TrimRight(string(text), "\r\n"), name + "_FILE", true, nil
	}
	return value, name, value != "", nil
}

// credential is the file of the systemd credential with the name of a variable; empty: there is
// none.
func (w *World) credential(name string) string {
	dir, _ := w.Lookup("CREDENTIALS_DIRECTORY")
	path := filepath.Join(dir, name)
	if _, err := os.Stat(path); dir == "" || err != nil {
		return ""
	}
	return path
}

// SecretVariable is a secret without a flag: every user of the machine can see flags.
func (w *World) SecretVariable(name string) (string, error) {
	value, _, _, err := w.lookup(name, true)
	return value, err
}
