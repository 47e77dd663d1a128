//go:build linux

package receivers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/proof/torture"
)

// flaws are the flaws that samples of receivers have, and the cases of torture that find each one.
// A race or the moment of a kill finds it in the cases of chance, too, now and then.
var flaws = []struct{ name, does, cases, chance string }{
	{"", "has no flaw", "", ""},
	{"released-by-anyone", "deletes the key on failure, also the key of another owner", "T03", ""},
	{"answer-inside", "an error of the answer deletes the key", "T03", ""},
	{"hangs", "an error of the work reaches no answer", "T03 T24", ""},
	{"check-then-insert", "looks the id up, then inserts it", "T02 T03 T04", ""},
	{"marked-first", "records the id as processed before the work", "T03 T04 T24", ""},
	{"unverified", "verifies no signature", "T10 T14 T15 T16 T17", ""},
	{"claimed-before-verified", "claims the id, then verifies", "T17", ""},
	{"one-namespace", "the key is the id without its source", "T18", ""},
	{"answered-first", "answers, then works", "T04 T05 T24", "T03 T06 T07 T08 T09 T12 T13 T17 T23"},
	{"answered-then-queued", "answers, then puts it into a durable queue", "T05", "T03 T04 T06 T07 T08 T09 T12 T13 T17 T23"},
	{"found-processed-recorded", "looks up, works, records", "T02 T03 T04", ""},
	{"recorded-after", "works, then records, one copy at a time", "T03 T04", ""},
	{"violation-is-an-error", "a duplicate is a violated constraint", "T01 T02 T03 T06 T13 T25", "T04"},
	{"never-run", "a coroutine that nothing awaits", "T00", ""},
	{"status-index", "the order of states is their index in an array", "T08", ""},
	{"truncated-time", "newer is a later millisecond", "T09", ""},
	{"short-window", "looks back 7 days, and keeps a unique row for 30", "T02 T03 T04 T25", ""},
	{"delivery-id", "the key is the id of the delivery", "T01 T02 T03 T13 T25", "T04"},
	{"overlapping", "the work is slower than the lease", "T02 T03", "T04"},
	{"parsed-outside", "parses outside of its try", "T20 T21", ""},
	{"hashed-headers", "the key is a hash of body and headers", "T01 T03 T13 T25", "T02 T04"},
	{"unleased", "SET NX for 7 days", "T03 T04", ""},
	{"busy-is-duplicate", "a copy is answered 200 while the first one works", "T03 T04", ""},
	{"top-level-hash", "the key is a hash of the payload's top-level members", "T10 T11 T12", ""},
	{"short-memory", "the key lives for an hour and is not deleted on failure", "T03 T04 T24 T25", ""},
	{"update-only", "UPDATE … WHERE version < $1 on a missing row", "T06 T07 T12 T13 T17 T23", ""},
	{"ungated-upsert", "an upsert without a condition", "T06 T07 T08 T09", "T23"},
	{"trusts-retry-count", "stores a dead letter when x-retry-count says so", "T21 T24", ""},
	{"metrics-inside", "a metric without a label for the type turns into 500", "T21 T22", ""},
	{"waits-forever", "a copy waits for the first one's lock without limit", "T03", ""},
}

// small makes a run of torture quick. The cases stay the same.
var small = torture.Bounds{Drip: time.Second, Idle: 50, Burst: 100, Kills: 1, Large: 4 << 20}

// impatient are the bounds for receivers with a flaw: a lost effect and a missing answer are waited
// for in vain. The budget is longer than a copy waits for the lock of the first one.
var impatient = func() torture.Bounds {
	b := small
	b.Settle = 2 * time.Second
	if !long {
		b.AckBudget, b.Settle, b.Hang = 1500*time.Millisecond, time.Second, 400*time.Millisecond
	}
	return b
}()

// options are those of a run against a receiver that torture starts and kills itself.
func options(r *Receiver, b torture.Bounds, only ...string) torture.Options {
	return torture.Options{
		URL: r.Base + "/hooks", OtherURL: r.Base + "/other", Scheme: torture.Standard(), Secret: Secret, Other: Secret2,
		Probe: torture.HTTPProbe{URL: r.Base + "/_probe"}, FaultURL: r.Base + "/_fault", ClockURL: r.Base + "/_clock",
		Command: r.Command(), Bounds: b, Only: only,
	}
}

// apart are the cases that wait for most of their time: their handlers are slower than the budget.
var apart = []string{"T03"}

// tortured runs the cases, all if only is empty, and returns those that did not pass. The cases
// apart run beside the others; target makes options for each of the two, with its own receiver.
func tortured(ctx context.Context, only []string, target func(only ...string) torture.Options) (failed []string, text string, err error) {
	var two [2][]string
	for _, c := range torture.Cases {
		if len(only) == 0 || slices.Contains(only, c.ID) {
			n := slices.Index(apart, c.ID) + 1
			two[n] = append(two[n], c.ID)
		}
	}
	var runs sync.WaitGroup
	var reports [2]*torture.Report
	var errs [2]error
	for n, ids := range two {
		if len(ids) > 0 {
			o := target(ids...)
			runs.Go(func() { reports[n], errs[n] = torture.Run(ctx, o) })
		}
	}
	runs.Wait()
	var lines strings.Builder
	for _, report := range reports {
		if report == nil {
			continue
		}
		for _, result := range report.Results {
			if result.Verdict == torture.Passed {
				continue
			}
			failed = append(failed, result.ID)
			fmt.Fprintf(&lines, "%s %s: %s %s\n", result.ID, result.Name, result.Verdict, result.Reason)
			for _, f := range result.Findings {
				fmt.Fprintf(&lines, "    %s %s: %s\n", f.Invariant, f.Shown, f.Defect)
			}
		}
	}
	slices.Sort(failed)
	return failed, lines.String(), errors.Join(errs[:]...)
}

// TestTortureFindsEachFlaw: a receiver with one flaw fails the cases that look for it and, in the
// long form, no other; the one without a flaw passes all.
func TestTortureFindsEachFlaw(t *testing.T) {
	t.Parallel()
	for _, flaw := range flaws {
		t.Run(flaw.name, func(t *testing.T) {
			t.Parallel()
			bounds := small
			if flaw.name != "" {
				bounds = impatient
			}
			if strings.Contains(flaw.cases, "T04") {
				bounds.Kills = 5 // one of them meets the moment
			}
			switch flaw.name {
			case "hashed-headers":
				bounds.Hang = 0 // the default: a retry has another timestamp, which is in seconds
			case "answer-inside":
				bounds.Hang = 2 * time.Second // its handler has to begin before the sender gives up, after a quarter of this
			}
			var only []string // all
			if !long && flaw.name != "" && flaw.cases != "T00" {
				only = strings.Fields(flaw.cases)
			}
			failed, text, err := tortured(t.Context(), only, func(only ...string) torture.Options {
				return options(prepared(t, bad, "transaction", "postgres", "FLAW="+flaw.name), bounds, only...)
			})
			if errors.Is(err, torture.ErrNotJudged) {
				failed, text, err = []string{"T00"}, err.Error(), nil
			}
			if err != nil {
				t.Fatal(err)
			}
			chance := strings.Fields(flaw.chance)
			failed = slices.DeleteFunc(failed, func(id string) bool { return slices.Contains(chance, id) })
			if want := strings.Fields(flaw.cases); !slices.Equal(failed, want) {
				t.Errorf("a receiver that %s fails %v instead of %v\n%s", flaw.does, failed, want, text)
			}
		})
	}
}
