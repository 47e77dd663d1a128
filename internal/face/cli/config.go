package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// config is a config file: settings by the name of their flag.
type config struct {
	path   string
	values map[string]configValue
}

type configValue struct {
	text string
	line int
}

// readConfig reads a YAML file with one setting per line. A list is for settings that take several
// values. Settings at fault are left out.
func readConfig(path string) (config, []Wrong) {
	c := config{path: path, values: map[string]configValue{}}
	whole := func(format string, args ...any) []Wrong { return []Wrong{{Detail: fmt.Sprintf(format, args...)}} }
	file, err := os.Open(path)
	if err != nil {
		return c, whole("cannot read the config file: %v", err)
	}
	defer func() { _ = file.Close() }()
	var doc, more yaml.Node
	decoder := yaml.NewDecoder(file)
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return c, nil // an empty file sets nothing
	case err != nil:
		return c, whole("cannot read the config file %s: %v", path, err)
	case !errors.Is(decoder.Decode(&more), io.EOF):
		return c, whole("%s: a config file is one document", path)
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return c, []Wrong{{Where: c.at(root.Line), Line: root.Line, Detail: "settings are written as \"name: value\""}}
	}
	var faults []Wrong
	for i := 0; i < len(root.Content); i += 2 {
		name, value := root.Content[i], root.Content[i+1]
		fault := func(detail string) {
			faults = append(faults, Wrong{c.at(name.Line), name.Line, name.Value, name.Value + " " + detail})
		}
		text, ok := scalar(value)
		flag := strings.ReplaceAll(name.Value, "_", "-")
		if _, twice := c.values[flag]; twice {
			fault("is given twice")
		} else if !ok {
			fault("takes one value or a list of them")
		} else {
			c.values[flag] = configValue{text: text, line: name.Line}
		}
	}
	return c, faults
}

// at is a place in the file.
func (c config) at(line int) string { return fmt.Sprintf("%s, line %d", c.path, line) }

func scalar(n *yaml.Node) (string, bool) {
	switch n.Kind {
	case yaml.ScalarNode:
		return n.Value, n.Tag != "!!null"
	case yaml.SequenceNode:
		parts := make([]string, len(n.Content))
		for i, item := range n.Content {
			if item.Kind != yaml.ScalarNode {
				return "", false
			}
			parts[i] = item.Value
		}
		return strings.Join(parts, ","), true
	}
	return "", false
}

// unknown are the names that are not settings of this command, in the order of lines: a typing
// error must not pass as a default.
func (c config) unknown(flags *pflag.FlagSet) (faults []Wrong) {
	var known []string
	flags.VisitAll(func(f *pflag.Flag) {
		if is(f, fromFile) {
			known = append(known, underscored(f.Name))
		}
	})
	for name, value := range c.values {
		if name = underscored(name); slices.Contains(known, name) {
			continue
		}
		advice := "Settings: " + strings.Join(known, ", ")
		if meant := near(name, known); meant != "" {
			advice = fmt.Sprintf("Did you mean %q?", meant)
		}
		faults = append(faults, Wrong{c.at(value.line), value.line, name, fmt.Sprintf("unknown setting %q. %s", name, advice)})
	}
	slices.SortFunc(faults, func(a, b Wrong) int { return cmp.Compare(a.Line, b.Line) })
	return faults
}

func underscored(s string) string { return strings.ReplaceAll(s, "-", "_") }

// near is the name that was probably meant; empty: none is like it.
func near(name string, known []string) string {
	if nearest := Nearest(name, known, 1); len(nearest) > 0 && distance(name, nearest[0]) <= len(name)/2 {
		return nearest[0]
	}
	return ""
}

// Nearest are the n of some names that are most like a text. In paths the last step counts first.
func Nearest(text string, names []string, n int) []string {
	last := func(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }
	far := func(name string) []int { return []int{distance(last(text), last(name)), distance(text, name)} }
	sorted := slices.Clone(names)
	slices.SortStableFunc(sorted, func(a, b string) int { return slices.Compare(far(a), far(b)) })
	return sorted[:min(n, len(sorted))]
}

// distance is how many letters have to be added, removed or changed to make b of a.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			change := diagonal
			if a[i] != b[j] {
				change++
			}
			diagonal = row[j+1]
			row[j+1] = min(change, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
}

// The annotations that make a flag a setting.
const (
	fromVariable = "grapnel_variable" // its value is the variable's name
	fromFile     = "grapnel_file"
	keptQuiet    = "grapnel_quiet"
	reloads      = "grapnel_reload"
	concealed    = "grapnel_concealed"
	unsettled    = "grapnel_unsettled"
	cameFrom     = "grapnel_origin" // its value is where the flag's value was found
)

func is(f *pflag.Flag, annotation string) bool { return f.Annotations[annotation] != nil }
