package words

import (
	"encoding/json"
	"testing"
)

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
