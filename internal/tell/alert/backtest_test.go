package alert

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
)

// TestBacktestJudgesAsLiveRulesDo: the baseline of an hour in a backtest is that of the live rule,
// however seldom the tenant has deliveries.
func TestBacktestJudgesAsLiveRulesDo(t *testing.T) {
	rapidtest.Check(t, func(t *rapid.T) {
		from := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
		to := from.Add(BaselineFor / 4)
		var buckets []grapnel.Bucket
		for at := from.Add(-BaselineFor); at.Before(to); {
			at = at.Add(time.Duration(rapid.SampledFrom([]int{1, 1, 2, 30, 700}).Draw(t, "pause")) * time.Hour)
			failed := rapid.Int64Range(0, 60).Draw(t, "failed")
			buckets = append(buckets, grapnel.Bucket{At: at, Totals: grapnel.Totals{Failed: failed, FirstAttempts: 60,
				FirstAttemptSuccess: rapid.Int64Range(0, 60).Draw(t, "first")}})
		}
		for _, name := range []string{DeadLetters, FirstAttempts} {
			rule, _ := RuleOf(name)
			is := Settings{}.Of(rule, "t")
			var want []time.Time
			firing := false
			for at := from; at.Before(to); at = at.Add(time.Hour) {
				h, usual := Hour{}, Usual(buckets, at)
				for i := range buckets {
					if buckets[i].At.Equal(at) {
						h = hour(&buckets[i].Totals)
					}
				}
				value, known := usual.deadLetters(&h), true
				if name == FirstAttempts {
					value, known = usual.drop(&h)
				}
				switch {
				case !known:
					firing = false
				case !firing && rule.bad(value, is.Threshold):
					firing, want = true, append(want, at)
				case firing && rule.good(value, is.Threshold):
					firing = false
				}
			}
			if got := Backtest(rule, is, buckets, from, to); !slices.Equal(got, want) {
				t.Fatalf("%s would have fired at %v, and the live rule fires at %v", name, got, want)
			}
		}
	})
}
