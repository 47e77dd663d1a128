//go:build linux

package receivers

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/proof/torture"
)

// samples are the programs in examples/unsafe, and the cases of torture that each one's own flaw
// fails. Those that show no effect of the first event are
// not judged at all.
var samples = []struct {
	file, cases string
	quick       bool // no race and no kill decides, and no request hangs: the short form has it
}{
	{"node/a-express.mjs", "T04 T14 T17 T24", false},
	{"node/c-handler.mjs", "T02 T05 T17 T24", false},
	{"node/c-transaction.mjs", "T01 T14", false},
	{"node/c-status.mjs", "T08", true},
	{"node/c-timestamps.mjs", "T09", true},
	{"node/c-queue.mjs", "T05", false},
	{"node/c-window.mjs", "T14 T25", false},
	{"node/e-redis.mjs", "T03 T04 T17", false},
	{"node/e-database.mjs", "T03 T14", false},
	{"node/e-hash.mjs", "T10 T24", true},
	{"node/e-sequence.mjs", "T06 T07", true},
	{"node/e-upsert.mjs", "T06 T08", true},
	{"node/e-dead-letters.mjs", "T01 T24", false},
	{"node/e-metrics.mjs", "T01 T24", false},
	{"python/b_sql.py", "T03 T04 T24", false},
	{"python/c_handler.py", "T01", false},
	{"python/c_transaction.py", "T01 T13", true},
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
			bounds, want := impatient, strings.Fields(sample.cases)
			bounds.Settle, bounds.Kills = time.Second, 3
			failed, text, err := tortured(t.Context(), want, func(only ...string) torture.Options {
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
