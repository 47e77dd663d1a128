package rapidtest

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// TestRed fails in the processes that the tests below start, and only there.
func TestRed(t *testing.T) {
	if os.Getenv("RAPIDTEST_RED") == "" {
		return
	}
	t.Run("a history", func(t *testing.T) {
		Check(t, func(r *rapid.T) {
			sum := 0
			for range rapid.IntRange(1, 200).Draw(r, "steps") {
				sum += rapid.IntRange(0, 1000).Draw(r, "added")
				time.Sleep(20 * time.Microsecond)
			}
			if sum > 3000 {
				r.Fatalf("the sum is too high\n  %d", sum)
			}
		})
	})
}

// red runs TestRed in a directory of its own and returns the output.
func red(t *testing.T, dir string, flags ...string) string {
	t.Helper()
	run := exec.CommandContext(t.Context(), os.Args[0], append([]string{"-test.run=^TestRed$"}, flags...)...)
	run.Dir, run.Env = dir, append(os.Environ(), "RAPIDTEST_RED=1", "GRAPNEL_SOAK=")
	out, err := run.CombinedOutput()
	if err == nil {
		t.Fatalf("it has not failed:\n%s", out)
	}
	return string(out)
}

var ending = regexp.MustCompile(`(?s)in short:\n +the sum is too high\n +(\d+)\n +To repeat it:\n +` +
	`go test \./part -run '\^TestRed\$/\^a_history\$' (-rapid\.failfile=\S+)\n(--- FAIL|FAIL)`)

// TestARedHistoryEndsWithItsSentence: after the draws come the sentence and a command. The command
// ends with the same sentence, at once.
func TestARedHistoryEndsWithItsSentence(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(root+"/go.mod", []byte("module example.com/m\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(root+"/part", 0o700); err != nil {
		t.Fatal(err)
	}
	first := red(t, root+"/part", "-rapid.shrinktime=100ms")
	end := ending.FindStringSubmatch(first)
	if end == nil || strings.Contains(first[strings.Index(first, "in short:"):], "draw") {
		t.Fatalf("it ends otherwise:\n%s", first)
	}
	again := red(t, root+"/part", end[2])
	if repeated := ending.FindStringSubmatch(again); repeated == nil || repeated[1] != end[1] {
		t.Errorf("the command repeats something else:\n%s", again)
	}
	if _, after, _ := strings.Cut(again, "in short:"); strings.Count(after, "\n") > 8 {
		t.Errorf("the end is long:\n%s", after)
	}
}

// TestShrinkingIsShort: the default is 3 s; a flag, the variable and the soak have their own.
func TestShrinkingIsShort(t *testing.T) {
	for env, want := range map[string]string{"GRAPNEL_SOAK=": "3s", "GRAPNEL_SOAK=1": "30s", "RAPID_SHRINKTIME=7s": "7s"} {
		show := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestShowsTheTime$", "-test.v")
		show.Env = append(os.Environ(), "GRAPNEL_SOAK=", "RAPIDTEST_SHOW=1", env)
		out, err := show.CombinedOutput()
		if err != nil || !strings.Contains(string(out), "shrinks for "+want) {
			t.Errorf("%s: %v\n%s", env, err, out)
		}
	}
}

// TestShowsTheTime prints the flag in the processes of the test above.
func TestShowsTheTime(t *testing.T) {
	if os.Getenv("RAPIDTEST_SHOW") == "" {
		return
	}
	Check(t, func(*rapid.T) {})
	fmt.Println("shrinks for", shrinking())
}

func shrinking() string { return flag.Lookup("rapid.shrinktime").Value.String() }
