package words

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel/policy"
)

// TestRefused: the sentence about refused deliveries has the figures of the policy's plan, and the
// policy that makes them final attempts once.
func TestRefused(t *testing.T) {
	for _, p := range policy.Presets() {
		said, again := Refused(&p)
		o := policy.Outcome{Status: 422, Class: policy.ClassStatus4xx}
		r, repeats := p.ReachAfter(o), p.Decide(o) == policy.Retry
		want := fmt.Sprintf("is attempted %d times within %s", r.Attempts, policy.Duration(r.Nominal))
		switch {
		case !repeats:
			want = "fails at once"
		case r.Attempts == 0:
			want = "is retried for " + p.MaxAge.String()
		}
		if again != repeats || !strings.Contains(said, want) {
			t.Errorf("%s: %q, want %q", p.Name, said, want)
		}
		final, err := policy.Parse([]byte(FinalPolicy(&p)))
		if err != nil {
			t.Fatal(err)
		}
		if said, again := Refused(&final); again || said != "Answered 404 or 422, a delivery fails at once." {
			t.Errorf("the final form of %s: %q", p.Name, said)
		}
	}
	usual, _ := policy.Preset(policy.DefaultPreset)
	few, many := usual.Limits[0].Attempts, usual.Reach().Attempts
	if said, _ := Refused(&usual); !strings.HasPrefix(said, fmt.Sprintf("Answered 404, a delivery is attempted %d times", many)) ||
		!strings.Contains(said, fmt.Sprintf("; answered 422, it is attempted %d times", few)) {
		t.Errorf("%s: %q", usual.Name, said)
	}
}

func TestPolicy(t *testing.T) {
	for raw, c := range map[string]struct {
		changes []string
		want    string
	}{
		`"paylera"`:                        {nil, "paylera"},
		`{"preset":"sent","jitter":0.1}`:   {[]string{"timeout", "jitter"}, "sent, except timeout, jitter"},
		`{"preset":"sent","timeout":"5s"}`: {nil, "sent, unchanged"},
		`{"timeout":"5s"}`:                 {nil, "its own"}, // as a server of an earlier version answers
	} {
		if got := Policy(json.RawMessage(raw), c.changes); got != c.want {
			t.Errorf("%s: %q, want %q", raw, got, c.want)
		}
	}
}
