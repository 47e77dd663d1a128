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
// values.
func readConfig(path string) (config, error) {
	c := config{path: path, values: map[string]configValue{}}
	file, err := os.Open(path)
	if err != nil {
		return c, Usagef("cannot read the config file: %v", err)
	}
	defer func() { _ = file.Close() }()
	var doc, more yaml.Node
	decoder := yaml.NewDecoder(file)
	switch err := decoder.Decode(&doc); {
	case errors.Is(err, io.EOF):
		return c, nil // an empty file sets nothing
	case err != nil:
		return c, Usagef("cannot read the config file %s: %v", path, err)
	case !errors.Is(decoder.Decode(&more), io.EOF):
		return c, Usagef("%s: a config file is one document", path)
	}
	root := doc.Content[0]
	if root.Kind != yaml.MappingNode {
		return c, Usagef("%s, line %d: settings are written as \"name: value\"", path, root.Line)
	}
	for i := 0; i < len(root.Content); i += 2 {
		name, value := root.Content[i], root.Content[i+1]
		text, ok := scalar(value)
		if !ok {
			return c, Usagef("%s, line %d: %s takes one value or a list of them", path, name.Line, name.Value)
		}
		flag := strings.ReplaceAll(name.Value, "_", "-")
		if _, twice := c.values[flag]; twice {
			return c, Usagef("%s, line %d: %s is given twice", path, name.Line, name.Value)
		}
		c.values[flag] = configValue{text: text, line: name.Line}
	}
	return c, nil
}

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

// check refuses names that are not settings of this command, so that a typing error cannot pass as
// a default.
func (c config) check(flags *pflag.FlagSet) error {
	var known []string
	flags.VisitAll(func(f *pflag.Flag) {
		if is(f, fromFile) {
			known = append(known, f.Name)
		}
	})
	unknown := []string{}
	for name := range c.values {
		if !slices.Contains(known, name) {
			unknown = append(unknown, name)
		}
	}
	if len(unknown) == 0 {
		return nil
	}
	slices.SortFunc(unknown, func(a, b string) int { return cmp.Compare(c.values[a].line, c.values[b].line) })
	name := unknown[0]
	underscored := func(s string) string { return strings.ReplaceAll(s, "-", "_") }
	near := Nearest(name, known, 1)[0]
	text := fmt.Sprintf("%s, line %d: unknown setting %q", c.path, c.values[name].line, underscored(name))
	if distance(name, near) <= len(name)/2 {
		return Usagef("%s. Did you mean %q?", text, underscored(near))
	}
	return Usagef("%s. Settings: %s", text, underscored(strings.Join(known, ", ")))
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
)

func is(f *pflag.Flag, annotation string) bool { return f.Annotations[annotation] != nil }
