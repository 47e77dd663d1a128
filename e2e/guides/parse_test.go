//go:build linux

package guides

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
)

// step is one block of a page.
type step struct {
	line   int
	text   string
	file   string // the text is written to it, and else run
	calls  []call // of a block of console
	until  bool
	behind bool   // it runs in the background
	listen string // and is waited for until a server answers there; empty: not waited for
	left   string // why it is not run
}

// call is a command, with the output that the page shows.
type call struct{ command, output string }

var (
	named    = regexp.MustCompile(`^(?:#|//|<!--) (\S+)(?: -->)?\n`)
	script   = regexp.MustCompile(`^# (\S+\.sh)\n`)
	notes    = regexp.MustCompile(`^<!-- test: (?:background( \S+)?|(until)|call (\S+)|not run: (.+)) -->$`)
	commands = regexp.MustCompile(`(?m)^\$ `)
)

// parse returns the steps of a page. Its unseen commands have names.
func parse(page string, unseen map[string]string) (steps []step, err error) {
	lines := strings.Split(page, "\n")
	var note step
	noted := false
	for i := 0; i < len(lines); i++ {
		ends, language := "", ""
		switch is := notes.FindStringSubmatch(lines[i]); {
		case is != nil:
			if name := is[3]; name != "" {
				note.text, note.line = unseen[name], i+1
				if note.text == "" {
					return nil, fmt.Errorf("line %d: no commands are called %s", i+1, name)
				}
				steps = append(steps, note)
				note, noted = step{}, false
				continue
			}
			note, noted = step{behind: strings.HasPrefix(lines[i], "<!-- test: background"), listen: strings.TrimSpace(is[1]),
				until: is[2] != "", left: is[4]}, true
		case strings.HasPrefix(lines[i], "<!-- test"):
			return nil, fmt.Errorf("line %d: unknown comment %s", i+1, lines[i])
		case strings.HasPrefix(lines[i], "```"):
			ends, language = "```", strings.TrimPrefix(lines[i], "```")
		case strings.HasPrefix(lines[i], "    ") && !noted:
			return nil, fmt.Errorf("line %d: a block without a fence is not run", i+1)
		}
		if ends == "" {
			continue
		}
		s := note
		note, noted, s.line = step{}, false, i+1
		for i++; i < len(lines) && lines[i] != ends; i++ {
			s.text += lines[i] + "\n"
		}
		if i == len(lines) {
			return nil, fmt.Errorf("line %d: the block has no end", s.line)
		}
		if err := s.reads(language); err != nil {
			return nil, fmt.Errorf("line %d: %w", s.line, err)
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// sections are commands by the names above them.
func sections(text string) map[string]string {
	all := map[string]string{}
	for _, part := range strings.Split("\n"+text, "\n### ")[1:] {
		name, commands, _ := strings.Cut(part, "\n")
		all[name] = commands
	}
	return all
}

// reads finds out what a block of a language is.
func (s *step) reads(language string) error {
	switch language {
	case "sh":
		if name := script.FindStringSubmatch(s.text); name != nil {
			s.file = name[1]
		}
	case "console":
		for _, part := range commands.Split("\n"+s.text, -1)[1:] {
			command, output, _ := strings.Cut(part, "\n")
			for strings.HasSuffix(command, `\`) {
				var more string
				more, output, _ = strings.Cut(output, "\n")
				command += "\n" + more
			}
			s.calls = append(s.calls, call{command, output})
		}
		if len(s.calls) == 0 {
			return fmt.Errorf("no command begins with $")
		}
	default:
		name := named.FindStringSubmatch(s.text)
		if name == nil && s.left == "" {
			return fmt.Errorf("a block of %q has to begin with a comment that names its file", language)
		}
		if name != nil {
			s.file = name[1]
		}
	}
	return nil
}

// matches says whether an output is the one that a page shows.
func matches(output, shown string) bool {
	pattern := "(?s)^"
	for line := range strings.Lines(shown) {
		switch line = strings.Join(strings.Fields(line), " "); line {
		case "":
		case "…":
			pattern += `.*`
		default:
			pattern += strings.ReplaceAll(regexp.QuoteMeta(line), "…", `[^\n]*`) + `\n`
		}
	}
	var plain strings.Builder
	for line := range strings.Lines(output) {
		if line = strings.Join(strings.Fields(line), " "); line != "" {
			plain.WriteString(line + "\n")
		}
	}
	return shown == "" || regexp.MustCompile(pattern+"$").MatchString(plain.String())
}

// ids are those that commands print and pages shorten.
const kinds = `ep|src|que|chn|dlv|evt|req|alr|iss|rep|key|lse|lnk|inc|node|grp|grpass|whsec`

var (
	printed   = regexp.MustCompile(`\b(` + kinds + `)_[A-Za-z0-9+/=_-]+`)
	shortened = regexp.MustCompile(`\b(` + kinds + `)_…`)
)

// learn remembers the last id of each kind in an output.
func learn(last map[string]string, output string) {
	for _, id := range printed.FindAllStringSubmatch(output, -1) {
		last[id[1]] = id[0]
	}
}

// fill puts ids into commands.
func fill(last map[string]string, text string) (string, error) {
	text = shortened.ReplaceAllStringFunc(text, func(id string) string {
		if is, ok := last[strings.TrimSuffix(id, "_…")]; ok {
			return is
		}
		return id
	})
	if strings.Contains(text, "…") {
		return "", fmt.Errorf("nothing has printed what … stands for in %s", text)
	}
	return text, nil
}

func TestOutputIsCompared(t *testing.T) {
	const output = "EVENT   DELIVERIES\nevt_1  2\n\nevt_2  3\n"
	for shown, want := range map[string]bool{
		"EVENT DELIVERIES\nevt_…  2\nevt_2 3\n": true, "EVENT DELIVERIES\n…\n": true, "…\nevt_2 3\n": true, "": true,
		"EVENT DELIVERIES\n": false, "evt_… 2\nevt_2 3\n": false, "EVENT DELIVERIES\nevt_… 4\n…\n": false,
	} {
		if matches(output, shown) != want {
			t.Errorf("%q: %t", shown, !want)
		}
	}
}

func TestPagesAreRead(t *testing.T) {
	for page, want := range map[string]string{
		"<!-- test: background :1 -->\n```sh\na\nb\n```":             `[{2 a|b|  [] false true :1 }]`,
		"<!-- test: until -->\n```console\n$ a \\\n  b\nc\n$ d\n```": `[{2 $ a \|  b|c|$ d|  [{a \|  b c|} {d }] true false  }]`,
		"<!-- test: until -->\n<!-- test: call it -->\n":             `[{2 hidden  [] true false  }]`,
		"```sh\n# run.sh\npass\n```":                                 `[{1 # run.sh|pass| run.sh [] false false  }]`,
		"```python\n# app.py\npass\n```":                             `[{1 # app.py|pass| app.py [] false false  }]`,
		"<!-- test: not run: why -->\n```ini\na\n```":                `[{2 a|  [] false false  why}]`,
		"```python\npass\n```":                                       `line 1: a block of "python" has to begin with a comment that names its file`,
		"    grapnel":                                                `line 1: a block without a fence is not run`,
		"```sh\n":                                                    `line 1: the block has no end`,
		"<!-- test: nonsense -->":                                    `line 1: unknown comment <!-- test: nonsense -->`,
		"```console\na\n```":                                         `line 1: no command begins with $`,
	} {
		steps, err := parse(page, sections("### it\nhidden"))
		got := strings.ReplaceAll(fmt.Sprint(steps), "\n", "|")
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%q\n  %s, not\n  %s", page, got, want)
		}
	}
}
