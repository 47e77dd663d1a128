package insight

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestAFieldWithoutAComparedValueIsNotAbsent: long values, arrays and objects are not compared, and
// their fields exist.
func TestAFieldWithoutAComparedValueIsNotAbsent(t *testing.T) {
	start := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	for _, other := range []string{`"` + strings.Repeat("x", 100) + `"`, `["a"]`, `{}`} {
		var all []Observation
		for i := range 48 {
			note, failed := `"x"`, i%4 == 2
			if failed {
				note = other
			}
			all = append(all, Observation{At: start.Add(time.Duration(i) * time.Second), Failed: failed, Type: "a", Endpoint: "ep_1",
				Traits: Fields(fmt.Appendf(nil, `{"note":%s}`, note))})
		}
		for _, c := range Explain(all) {
			if c.Name == "note" && c.Value == Absent {
				t.Errorf("with %s: %+v", other, c)
			}
		}
	}
}
