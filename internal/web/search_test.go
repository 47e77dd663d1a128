package web

import "testing"

func TestJump(t *testing.T) {
	for text, want := range map[string]string{"dlv_01m83vb": "/deliveries/dlv_01m83vb", " ep_1 ": "/endpoints/ep_1", "ep_1 x": "", "dlv_../x": "", `"dlv_1"`: ""} {
		if s := parseSearch(text, then); s.Jump != want {
			t.Errorf("%s leads to %q, want %q", text, s.Jump, want)
		}
	}
}

// TestSavedViewsCanBeRead: each of them is a search without faults.
func TestSavedViewsCanBeRead(t *testing.T) {
	for _, v := range append(savedViews, deadViews...) {
		if s := parseSearch(v.q, then); len(s.Faults) > 0 || s.Filter.Text != "" {
			t.Errorf("%s: %v, text %q", v.name, s.Faults, s.Filter.Text)
		}
	}
}

// TestCode4xxIsAConditionOfTheFilter: no parameter of the API has it, because 4xx are several error
// classes.
func TestCode4xxIsAConditionOfTheFilter(t *testing.T) {
	s := parseSearch("took:2s code:4xx key:a", then)
	if s.Filter.Filter != "took:2s code:4xx" || s.Filter.StatusCode != 0 || s.Filter.ErrorClass != "" || s.Filter.Key != "a" {
		t.Errorf("the filter is %+v", s.Filter)
	}
}
