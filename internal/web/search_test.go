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
