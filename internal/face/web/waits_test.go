package web

import (
	"strings"
	"testing"
)

// TestTheSourceThatWaits: list, page and form of a source say that it waits for its secret, that
// its provider cannot reach it, and where the secret is set.
func TestTheSourceThatWaits(t *testing.T) {
	s := newSite(t, nil)
	s.signIn()
	s.api.edit = func(name string, answer any) any {
		a, _ := answer.(map[string]any)
		all, _ := a["data"].([]any)
		if name == "source" {
			all = append(all, a)
		}
		for _, one := range all {
			if src, is := one.(map[string]any); is && strings.HasPrefix(name, "source") {
				src["waits_for_secret"], src["status"], src["ingest_url"] = true, "enabled", "/in/src_1"
				src["refusals"], src["outbox"] = nil, nil
				src["verify"] = map[string]any{"scheme": "stripe", "secrets": []any{}}
			}
		}
		return answer
	}
	for target, texts := range map[string][]string{
		"http://localhost:8420/sources": {"waits for its secret", "for their secret"},
		"http://localhost:8420/sources/src_1": {"It waits for its secret.", "/sources/src_1/edit", "Set the secret",
			"A provider on the internet cannot reach localhost.", "--public-url"},
		"/sources/src_1/edit":        {`name="verify/secret"`},
		"/sources/new?scheme=stripe": {"Empty: the provider shows it after it knows the address"},
	} {
		body := s.ask("GET", target, nil).Body.String()
		for _, text := range texts {
			if !strings.Contains(body, text) {
				t.Errorf("%s does not say %q", target, text)
			}
		}
	}
	body := s.ask("GET", "https://grapnel.example.com/sources/src_1", nil).Body.String()
	if strings.Contains(body, "cannot reach") {
		t.Error("a public address is said to be unreachable")
	}
}

// TestASourceWithoutRequestsSaysHowToTryIt: the page has the command that sends one like the
// provider's.
func TestASourceWithoutRequestsSaysHowToTryIt(t *testing.T) {
	for _, requests := range []bool{false, true} {
		s := newSite(t, nil)
		s.signIn()
		s.api.edit = func(name string, answer any) any {
			a, _ := answer.(map[string]any)
			switch {
			case name == "source":
				a["verify"], a["outbox"] = map[string]any{"scheme": "stripe", "secrets": []any{}}, nil
			case name == "inbox" && !requests:
				a["data"] = []any{}
			}
			return answer
		}
		body := s.ask("GET", "/sources/src_1", nil).Body.String()
		if strings.Contains(body, "grapnel trigger stripe payment_intent.succeeded --source src_") == requests {
			t.Errorf("with requests: %v, the page has the command or lacks it", requests)
		}
	}
}
