//go:build linux

package receivers

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/torture"
)

// samples are the programs in examples/unsafe, and the cases of torture that each one's own flaw
// fails. Those that show no effect of the first event are
// not judged at all.
var samples = []struct{ file, cases string }{
	{"node/a-express.mjs", "T04 T14 T17 T24"},
	{"node/c-handler.mjs", "T02 T05 T17 T24"},
	{"node/c-transaction.mjs", "T01 T14"},
	{"node/c-status.mjs", "T08"},
	{"node/c-timestamps.mjs", "T09"},
	{"node/c-queue.mjs", "T05"},
	{"node/c-window.mjs", "T14 T25"},
	{"node/e-redis.mjs", "T03 T04 T17"},
	{"node/e-database.mjs", "T03 T14"},
	{"node/e-hash.mjs", "T10 T24"},
	{"node/e-sequence.mjs", "T06 T07"},
	{"node/e-upsert.mjs", "T06 T08"},
	{"node/e-dead-letters.mjs", "T01 T24"},
	{"node/e-metrics.mjs", "T01 T24"},
	{"python/b_sql.py", "T03 T04 T24"},
	{"python/c_handler.py", "T01"},
	{"python/c_transaction.py", "T01 T13"},
}

// TestTortureFindsTheFlawsOfSamples: receivers as published documents have them fail the
// cases for their flaws.
func TestTortureFindsTheFlawsOfSamples(t *testing.T) {
	for _, sample := range samples {
		t.Run(strings.ReplaceAll(sample.file, "/", "-"), func(t *testing.T) {
			t.Parallel()
			row, store := Row{Command: []string{Rows[1].Command[0], "examples/unsafe/" + sample.file}}, "postgres"
			if filepath.Ext(sample.file) == ".py" {
				row.Command[0], store = Rows[2].Command[0], "sqlite"
			}
			redis, err := databases.DSN(t.Context(), "redis", "")
			if err != nil {
				t.Fatal(err)
			}
			bounds, want := small, strings.Fields(sample.cases)
			bounds.Settle, bounds.Kills = time.Second, 3
			failed, text, err := tortured(t.Context(), options(prepared(t, row, "", store, "REDIS="+redis), bounds, want...))
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
