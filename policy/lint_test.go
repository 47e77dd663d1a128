package policy

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestLintFindsWhatTheSeedsGetWrong compares the findings for each of the five documents exactly.
// The letters refer to the hand-made list of contradictions.
func TestLintFindsWhatTheSeedsGetWrong(t *testing.T) {
	for _, c := range []struct {
		claims Claims
		want   []string
	}{
		{parseoClaims(), []string{
			"attempts-differ", "window-differs", // a
			"formula-differs",                    // "exponential": 1, 5, 30 s, 5, 30 min …
			"jitter-silent",                      // f
			"endings-differ",                     // b
			"permanent-silent", "disable-silent", // f
			"retention-clock",                         // g
			"replay-payload",                          // c
			"replay-order-silent",                     // f
			"paths-differ",                            // d
			"check-then-record", "record-before-work", // e
		}},
		{payleraClaims(), []string{
			"window-differs", "since-first-fits", // a
			"jitter-silent",
			"notice-unheard",        // g
			"success-differs",       // c
			"timeouts-count",        // d
			"dead-never-disabled",   // e
			"unit-unclear",          // j
			"dropped-inspected",     // f
			"drop-breaks-order",     // i
			"order-until-exhausted", // "never see paid before finalized"
			"skip-missing",          // h
			"percentiles-equal",     // b
		}},
		{sentClaims(), []string{
			"formula-differs", "jitter-silent", "discard-untraced", // g
			"permanent-silent", "disable-silent", "replay-order-silent",
			"ack-before-work", "ack-before-work", // a, in two places
			"check-then-record", "work-before-record", // b
			"cleanup-differs",                    // c
			"stuck-records", "conflict-is-error", // e
			"key-per-delivery",    // d
			"rank-of-finals",      // f
			"equal-times-dropped", // h
		}},
		{hooqueClaims(), []string{
			"permanent-too-wide",                  // f
			"nack-at-once",                        // a
			"lease-silent",                        // b
			"stops-when-empty", "unknown-retried", // c
			"ack-unchecked", // d
			"queue-silent",  // e
		}},
		{webhookifyClaims(), []string{
			"formula-differs",                  // a
			"success-differs",                  // e
			"replay-twice", "credentials-kept", // f
			"record-before-work", "record-before-work", // c, d
			"dedupe-too-short",                                // e
			"windows-differ",                                  // e
			"hash-partial",                                    // d
			"retry-count-differs",                             // b
			"fact-outdated", "fact-outdated", "fact-outdated", // g: GitHub, Shopify, Twilio
		}},
	} {
		var got []string
		for _, f := range Lint(c.claims) {
			got = append(got, f.Code)
		}
		slices.Sort(got)
		slices.Sort(c.want)
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\ngot  %v\nwant %v", c.claims.Document, got, c.want)
		}
	}
}

func TestFindingsNameTheFigures(t *testing.T) {
	details := map[string]string{}
	for _, c := range []Claims{parseoClaims(), payleraClaims(), sentClaims(), webhookifyClaims()} {
		for _, f := range Lint(c) {
			details[c.Document+" "+f.Code] += f.Detail + "\n"
		}
	}
	for key, parts := range map[string][]string{
		"parseo attempts-differ":      {"8 in words, 9 in the table", "8 retries"},
		"parseo window-differs":       {"36h in words, 32h35m36s in the table"},
		"parseo retention-clock":      {"kept 720h", "32h35m36s"},
		"paylera window-differs":      {"24h in words, 44h36m15s in the table; 8 of its 9 attempts"},
		"paylera since-first-fits":    {"24h"},
		"paylera success-differs":     {"204 with a body"},
		"paylera timeouts-count":      {"408"},
		"paylera unit-unclear":        {"about 12 deliveries"},
		"paylera percentiles-equal":   {"p95 and p99 are both 2s"},
		"paylera dead-never-disabled": {"44h36m15s"},
		"sent formula-differs":        {"attempt 6 is 1h in the table; 5s times 5 makes it 52m5s"},
		"sent cleanup-differs":        {"kept 720h, 4.3 times"},
		"sent rank-of-finals":         {"a late FAILED overwrites READ"},
		"webhookify formula-differs":  {"attempt 3 is 5m in the table; 1m times 2 makes it 2m"},
		"webhookify dedupe-too-short": {"content hash: remembered for 1h, the last retry comes up to 34h36m"},
		"webhookify windows-differ":   {"168h, 720h, 1h"},
		"webhookify fact-outdated":    {"github retries not at all", "shopify retries 8 times within 4h", "twilio retries once within 15s"},
	} {
		for _, part := range parts {
			if !strings.Contains(details[key], part) {
				t.Errorf("%s says %q, want %q in it", key, details[key], part)
			}
		}
	}
}

// TestLintOfPresets: no preset contradicts itself. The paylera presets keep a gap of their
// document: it has no rule for an endpoint that never answers.
func TestLintOfPresets(t *testing.T) {
	for _, p := range Presets() {
		var got []string
		for _, f := range Lint(p.Claims()) {
			got = append(got, f.Code)
		}
		var want []string
		if strings.HasPrefix(p.Name, "paylera") {
			want = []string{"dead-never-disabled"}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", p.Name, got, want)
		}
	}
}

func TestLintOfAPolicyAgainstItsReceivers(t *testing.T) {
	p, _ := Preset("standard")
	c := p.Claims()
	c.Receive = []ReceiveClaims{{Name: "billing", Window: Duration(76 * time.Hour)}}
	if got := Lint(c); len(got) != 1 || got[0].Code != "dedupe-too-short" {
		t.Errorf("76 h hold the table but not its jitter: %v", got)
	}
	c.Receive[0].Window = 168 * hour
	if got := Lint(c); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func TestLintFindsRetriesWithoutEnd(t *testing.T) {
	for _, s := range []ScheduleClaims{
		{Table: []Duration{0, hour}, Tail: TailRepeat, Jitter: "some"},
		{Formula: &FormulaClaim{Base: sec, Factor: 2, Max: hour}, Jitter: "some"},
	} {
		got := Lint(Claims{Schedule: s})
		if len(got) != 1 || got[0].Code != "endless" {
			t.Errorf("%+v: %v", s, got)
		}
		s.MaxAge = 24 * hour
		if got := Lint(Claims{Schedule: s}); len(got) != 0 {
			t.Errorf("%+v: %v", s, got)
		}
	}
}

func TestLintFindsRetentionShorterThanTheSchedule(t *testing.T) {
	p, _ := Preset("standard")
	c := p.Claims()
	c.Keeping = KeepingClaims{DeadLetters: 72 * hour, From: "dispatch"}
	if got := Lint(c); len(got) != 1 || got[0].Code != "retention-short" {
		t.Errorf("%v", got)
	}
}

func TestNoClaimsNoFindings(t *testing.T) {
	if got := Lint(Claims{}); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func TestEveryRuleHasAnExample(t *testing.T) {
	// Only the cases above have these; no document does.
	found := map[string]bool{"endless": true, "retention-short": true}
	for _, c := range []Claims{parseoClaims(), payleraClaims(), sentClaims(), hooqueClaims(), webhookifyClaims()} {
		for _, f := range Lint(c) {
			found[f.Code] = true
			if f.Rule == "" {
				t.Errorf("%s has no words", f.Code)
			}
		}
	}
	seen := map[string]bool{}
	for _, code := range LintCodes() {
		if !found[code[0]] || seen[code[0]] {
			t.Errorf("%s is never found, or is there twice", code[0])
		}
		seen[code[0]] = true
	}
}

func TestClaimsAsJSON(t *testing.T) {
	for _, c := range []Claims{parseoClaims(), payleraClaims(), sentClaims(), hooqueClaims(), webhookifyClaims()} {
		raw, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		back, err := ParseClaims(raw)
		if err != nil || !reflect.DeepEqual(back, c) {
			t.Errorf("%s comes back as %+v: %v", raw, back, err)
		}
	}
	if _, err := ParseClaims([]byte(`{"colour":1}`)); err == nil {
		t.Error("an unknown field was taken")
	}
}
