package cli

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// Given is a setting with its value, and where that was found.
type Given struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Origin string `json:"origin"` // "default", "flag", a variable, or "FILE, line N"
	Reload bool   `json:"reload"` // a running server takes a change over
}

// Reloads marks the settings of which a running server takes a change over.
func Reloads(flags *pflag.FlagSet, names ...string) { mark(flags, reloads, names) }

// Conceal keeps flags out of help that stay settings, but for some.
func Conceal(flags *pflag.FlagSet, but ...string) {
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && !slices.Contains(but, f.Name) {
			f.Hidden = true
			annotate(flags, f.Name, concealed, "yes")
		}
	})
}

// Unsettled makes Settle leave flags alone, and the config file unread.
func Unsettled(flags *pflag.FlagSet) {
	flags.VisitAll(func(f *pflag.Flag) {
		delete(f.Annotations, fromVariable)
		delete(f.Annotations, fromFile)
	})
	annotate(flags, configFlag, unsettled, "yes")
}

// Settings lists the settings among some flags, after Settle. secrets are the variables of those
// without a flag, of which the set ones are listed.
func (w *World) Settings(flags *pflag.FlagSet, secrets []string) (all []Given) {
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden && !is(f, concealed) || !is(f, fromFile) && f.Name != configFlag {
			return
		}
		all = append(all, given(f))
	})
	for _, name := range secrets {
		if _, origin, found, err := w.lookup(name, true); err == nil && found {
			setting := strings.ToLower(strings.TrimPrefix(name, "GRAPNEL_"))
			all = append(all, Given{Name: strings.ReplaceAll(setting, "_", "-"), Value: Hidden, Origin: origin})
		}
	}
	return all
}

// given is a flag as a setting.
func given(f *pflag.Flag) Given {
	g := Given{Name: f.Name, Value: shownValue(f), Origin: "default", Reload: is(f, reloads)}
	if f.Changed {
		g.Origin = "flag"
	}
	if from := f.Annotations[cameFrom]; from != nil {
		g.Origin = from[0]
	}
	return g
}

// Origins are some flags with their values, and where those were found.
func Origins(flags *pflag.FlagSet, names ...string) (all []Given) {
	for _, name := range names {
		all = append(all, given(flags.Lookup(name)))
	}
	return all
}

// Differing are the names of the settings whose values differ between two lists of the same flags.
func Differing(was, is []Given) (names []string) {
	for i := range min(len(was), len(is)) {
		if was[i].Name == is[i].Name && was[i].Value != is[i].Value {
			names = append(names, was[i].Name)
		}
	}
	return names
}

// CheckFile returns all faults of a config file: those of each setting, and that of the good ones
// together with the variables; without a path, the faults of the variables. fresh makes the flags
// of the command without values, and the check of their values.
func (w *World) CheckFile(path string, fresh func() (flags *pflag.FlagSet, check func() error)) []Wrong {
	flags, together := fresh()
	var file config
	var faults []Wrong
	if path != "" {
		file, faults = readConfig(path)
	}
	faults = append(faults, file.unknown(flags)...)
	if err := w.settleVariables(flags); err != nil {
		faults = append(faults, Wrong{Detail: err.Error()})
	}
	for name, value := range file.values {
		alone, check := fresh() // without other settings, whose faults might come first
		f := alone.Lookup(name)
		if f == nil || !is(f, fromFile) {
			continue
		}
		if err := set(alone, f, value.text, file.at(value.line)); err != nil {
			_, detail, _ := strings.Cut(err.Error(), file.at(value.line)+": ")
			faults = append(faults, Wrong{file.at(value.line), value.line, underscored(name), detail})
		} else if own := faultsOf(name, check()); len(own) > 0 {
			for _, err := range own {
				faults = append(faults, file.fault(name, err))
			}
		} else if f = flags.Lookup(name); !f.Changed {
			_ = set(flags, f, value.text, file.at(value.line)) // it has no fault alone
		}
	}
	slices.SortStableFunc(faults, func(a, b Wrong) int { return a.Line - b.Line })
	for _, err := range eachOf(together()) {
		named := ""
		for _, flag := range flagsAtFault(err) {
			if _, inFile := file.values[flag]; inFile && named == "" {
				named = flag
			}
		}
		faults = append(faults, file.fault(named, err))
	}
	return faults
}

// fault places the fault of a setting of the file, if it is that of one.
func (c config) fault(flag string, err error) Wrong {
	value, inFile := c.values[flag]
	text := Explain(err).Text
	if !inFile {
		return Wrong{Detail: text}
	}
	text = flagInText.ReplaceAllStringFunc(text, func(name string) string {
		if _, is := c.values[name[2:]]; is {
			return underscored(name[2:])
		}
		return name
	})
	return Wrong{c.at(value.line), value.line, underscored(flag), text}
}

var flagInText = regexp.MustCompile(`--([a-z-]+)`)

// faultsOf are those of the joined errors that are faults of one flag alone.
func faultsOf(flag string, err error) []error {
	return slices.DeleteFunc(eachOf(err), func(err error) bool { return !slices.Equal(flagsAtFault(err), []string{flag}) })
}

// flagsAtFault are the flags that an error names, if it begins with one. A fault of several is none
// of each alone: the other may be there.
func flagsAtFault(err error) (names []string) {
	text := Explain(err).Text
	if !strings.HasPrefix(text, "--") {
		return nil
	}
	for _, found := range flagInText.FindAllStringSubmatch(text, -1) {
		if !slices.Contains(names, found[1]) {
			names = append(names, found[1])
		}
	}
	return names
}

// Variables are the names of all variables that the commands below root read from flags, and of
// some secrets without a flag.
func Variables(root *cobra.Command, secrets []string) []string {
	var all []string
	for _, name := range secrets {
		all = append(all, name, name+"_FILE")
	}
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		add := func(f *pflag.Flag) {
			all = append(all, f.Annotations[fromVariable]...)
			if is(f, fromVariable) && is(f, keptQuiet) {
				all = append(all, f.Annotations[fromVariable][0]+"_FILE")
			}
		}
		c.PersistentFlags().VisitAll(add)
		c.Flags().VisitAll(add)
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(root)
	slices.Sort(all)
	return slices.Compact(all)
}

// Not settings: Kubernetes describes a service named grapnel in such variables, and the tests of
// the program have theirs.
var (
	ofKubernetes = regexp.MustCompile(`^GRAPNEL_([A-Z0-9_]+_)?(SERVICE_(HOST|PORT(_.+)?)|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)
	ofTests      = regexp.MustCompile(`^GRAPNEL_(TEST|SOAK|SEED)(_|$)`)
)

// UnknownVariables are the GRAPNEL_* variables that no command reads: nothing else would show a
// typing error in a name.
func (w *World) UnknownVariables(known []string) (faults []Wrong) {
	if w.Environ == nil {
		return nil
	}
	for _, entry := range w.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if !strings.HasPrefix(name, "GRAPNEL_") || slices.Contains(known, name) || ofKubernetes.MatchString(name) || ofTests.MatchString(name) {
			continue
		}
		detail := "unknown variable"
		if meant := near(name, known); meant != "" {
			detail = fmt.Sprintf("unknown variable. Did you mean %s?", meant)
		}
		faults = append(faults, Wrong{Where: name, Setting: name, Detail: detail})
	}
	slices.SortFunc(faults, func(a, b Wrong) int { return strings.Compare(a.Where, b.Where) })
	return faults
}
