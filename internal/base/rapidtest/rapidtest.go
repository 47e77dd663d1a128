// Package rapidtest runs random histories whose failure can be read at the end of the output.
//
// It is rapid.Check with two differences. A failure is shrunk for 3 seconds, unless
// -rapid.shrinktime, RAPID_SHRINKTIME or GRAPNEL_SOAK says otherwise. And after the draws, which
// may be some hundred lines, the last lines say what failed, and the one command that repeats it.
// It takes the sentence from the file that rapid writes for the failure; without one
// (-rapid.nofailfile) it prints nothing.
package rapidtest

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

// shrinkTime is how long the short forms of the tests look for a shorter history.
const shrinkTime = "3s"

// sentences is how many lines of a failure are repeated, of those that rapid has not written.
const sentences = 12

// Check is rapid.Check.
func Check(t *testing.T, property func(*rapid.T)) {
	t.Helper()
	shrinkShortly()
	// A failure ends the goroutine, so this is deferred.
	defer func() {
		if !t.Failed() {
			return
		}
		if file := failFile(t.Name()); file != "" {
			t.Logf("in short:\n%s\nTo repeat it:\n%s", said(file), command(t.Name(), file))
		}
	}()
	rapid.Check(t, property)
}

// shrinkShortly changes the default of rapid's flag before a test can read it.
var shrinkShortly = sync.OnceFunc(func() {
	f := flag.Lookup("rapid.shrinktime")
	_, set := os.LookupEnv("RAPID_SHRINKTIME")
	if set || os.Getenv("GRAPNEL_SOAK") != "" || f.Value.String() != f.DefValue {
		return
	}
	if err := f.Value.Set(shrinkTime); err != nil {
		panic(err)
	}
})

// failFile is the file by which a test has failed: the given one, or the newest of the test.
func failFile(test string) string {
	if given := flag.Lookup("rapid.failfile").Value.String(); given != "" {
		return given
	}
	name := strings.Map(func(r rune) rune { // as rapid names its files
		if unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, test)
	found, err := filepath.Glob(filepath.Join("testdata", "rapid", name, name+"-*.fail"))
	if err != nil || len(found) == 0 {
		return ""
	}
	return found[len(found)-1] // the names have the time
}

var (
	stamped = regexp.MustCompile(`^\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d+ \[[^\]]*\] `)
	ofRapid = regexp.MustCompile(`^\[rapid\] `)
)

// said is what the test itself has written when it failed: the comments of the file without the
// draws.
func said(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	var lines []string
	for line := range strings.Lines(string(text)) {
		comment, is := strings.CutPrefix(strings.TrimRight(line, "\n"), "# ")
		comment = stamped.ReplaceAllString(comment, "")
		if is && comment != "" && !ofRapid.MatchString(comment) {
			lines = append(lines, comment)
		}
	}
	return strings.Join(lines[max(0, len(lines)-sentences):], "\n")
}

// command repeats a failure from the root of the module.
func command(test, file string) string {
	parts := strings.Split(regexp.QuoteMeta(test), "/")
	return "go test ./" + directory() + " -run '^" + strings.Join(parts, "$/^") + "$' -rapid.failfile=" + file
}

// directory is the package's place in its module, where go test runs it.
func directory() string {
	here, err := os.Getwd()
	if err != nil {
		return ""
	}
	for dir := here; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			within, _ := filepath.Rel(dir, here) // both are absolute
			return filepath.ToSlash(within)
		}
		if dir == filepath.Dir(dir) {
			return ""
		}
	}
}
