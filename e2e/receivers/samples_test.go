//go:build linux

package receivers

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/proof/torture"
)

// samples are the programs in examples/unsafe, the cases of torture that each one's own flaw fails,
// and the others of common that it fails. Those that show no effect of the first event are not
// judged at all.
var samples = []struct {
	file, cases, also string
	quick             bool // no race and no kill decides, and no request hangs: the short form has it
}{
	{"node/a-express.mjs", "T04 T14 T17 T24", "T12 T15 T16 T18", false},
	{"node/c-handler.mjs", "T02 T05 T17 T24", "T12 T14 T15 T16 T18", false},
	{"node/c-transaction.mjs", "T01 T14", "T12 T15 T16 T17 T18", false},
	{"node/c-status.mjs", "T08", "T12 T18", true},
	{"node/c-timestamps.mjs", "T09", "T12 T18", true},
	{"node/c-queue.mjs", "T05", "T12 T14 T15 T16 T17 T18", false},
	{"node/c-window.mjs", "T14 T25", "T12 T15 T16 T17 T18", false},
	{"node/e-redis.mjs", "T03 T04 T17", "T12 T14 T15 T16 T18", false},
	{"node/e-database.mjs", "T03 T14", "T12 T15 T16 T17 T18", false},
	{"node/e-hash.mjs", "T10 T24", "T12 T14 T15 T16 T17 T18", true},
	{"node/e-sequence.mjs", "T06 T07", "T12 T18", true},
	{"node/e-upsert.mjs", "T06 T08", "T12 T18", true},
	{"node/e-dead-letters.mjs", "T01 T24", "T12 T14 T15 T16 T17 T18", false},
	{"node/e-metrics.mjs", "T01 T24", "T12 T14 T15 T16 T17 T18", false},
	{"python/b_sql.py", "T03 T04 T24", "T18", false},
	{"python/c_handler.py", "T01", "", false},
	{"python/c_transaction.py", "T01 T13", "T14 T15 T16 T17 T18", true},
}

// common are the cases that samples fail for what they leave out: large numbers, signatures, a second
// source. Neither a race nor a kill decides them.
const common = "T12 T14 T15 T16 T17 T18"

// TestTheTableOfSamplesIsTrue: the README names the cases that the test below finds.
func TestTheTableOfSamplesIsTrue(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../examples/unsafe/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, sample := range samples {
		pattern := "(?m)^\\| `" + regexp.QuoteMeta(sample.file) + "` \\|[^|]+\\| ([^|]*?) \\| ([^|]*?) ?\\|$"
		row := regexp.MustCompile(pattern).FindStringSubmatch(string(text))
		if row == nil {
			t.Errorf("the README has no row of %s with its cases", sample.file)
			continue
		}
		if judged := !strings.HasPrefix(row[1], "none"); judged && (row[1] != sample.cases || row[2] != sample.also) {
			t.Errorf("%s: the README says %q and %q instead of %q and %q", sample.file, row[1], row[2], sample.cases, sample.also)
		}
	}
}

// TestTortureFindsTheFlawsOfSamples: receivers as published documents have them fail the cases for
// their flaws; in the short form the quick ones.
func TestTortureFindsTheFlawsOfSamples(t *testing.T) {
	t.Parallel()
	for _, sample := range samples {
		if !sample.quick && !long {
			continue
		}
		t.Run(strings.ReplaceAll(sample.file, "/", "-"), func(t *testing.T) {
			t.Parallel()
			row, store := Row{Command: []string{Rows[1].Command[0], "examples/unsafe/" + sample.file}}, "postgres"
			if filepath.Ext(sample.file) == ".py" {
				row.Command[0], store = Rows[2].Command[0], "sqlite"
			}
			bounds, want := impatient, strings.Fields(sample.cases+" "+sample.also)
			slices.Sort(want)
			bounds.Settle, bounds.Kills = time.Second, 3
			failed, text, err := tortured(t.Context(), strings.Fields(sample.cases+" "+common), func(only ...string) torture.Options {
				redis, err := databases.DSN(t.Context(), "redis", "")
				if err != nil {
					t.Fatal(err)
				}
				return options(prepared(t, row, "", store, "REDIS="+redis), bounds, only...)
			})
			if errors.Is(err, torture.ErrNotJudged) {
				failed, text, err = want, err.Error(), nil
			}
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(failed, want) {
				t.Errorf("it fails %v instead of %v\n%s", failed, want, text)
			}
		})
	}
}
