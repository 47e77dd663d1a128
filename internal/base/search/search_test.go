package search

import (
	"math"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

var then = time.Date(2026, 11, 23, 9, 23, 34, 0, time.UTC)

func TestParse(t *testing.T) {
	for text, want := range map[string]Filter{
		"":                               {},
		"status:failed":                  {Status: []grapnel.Status{grapnel.Failed}},
		"status:failed,held":             {Status: []grapnel.Status{grapnel.Failed, grapnel.Held}},
		"status:waiting":                 {Status: []grapnel.Status{grapnel.Pending, grapnel.Held}},
		"status:dead endpoint:ep_1":      {Status: []grapnel.Status{grapnel.Failed}, Endpoint: "ep_1"},
		"type:invoice.* key:inv_1":       {Type: "invoice.*", Key: "inv_1"},
		`key:"with space" tenant:acme`:   {Key: "with space", Tenant: "acme"},
		"key:urn:inv:1":                  {Key: "urn:inv:1"},
		"code:503":                       {Code: 503},
		"code:5XX":                       {Class: "status_5xx"},
		"code:3xx":                       {Class: "redirect"},
		"code:4xx":                       {Code: 4},
		"error:timeout reason:exhausted": {Class: "timeout", Reason: "exhausted"},
		"since:6h":                       {From: then.Add(-6 * time.Hour).Truncate(time.Minute)},
		"from:2026-05-06T08:00:00Z to:2026-05-06T14:00:00Z": {
			From: time.Date(2026, 5, 6, 8, 0, 0, 0, time.UTC), To: time.Date(2026, 5, 6, 14, 0, 0, 0, time.UTC),
		},
		"since:6h from:2026-05-06T08:00:00Z": {From: then.Add(-6 * time.Hour).Truncate(time.Minute)},
		"from:2026-05-06T08:00:00Z since:6h": {From: then.Add(-6 * time.Hour).Truncate(time.Minute)},
		"from:2026-11-23T09:00:00Z since:6h": {From: time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)},
		`"status:failed"`:                    {Text: "status:failed"},
		`paid "in full" status:held`:         {Text: "paid in full", Status: []grapnel.Status{grapnel.Held}},
		"http://a.example":                   {Text: "http://a.example"},
		"12:30 10:y Total:5":                 {Text: "12:30 10:y Total:5"},
		"attempts:>1":                        {Attempts: &Range{2, math.MaxInt}},
		"attempts:>=3":                       {Attempts: &Range{3, math.MaxInt}},
		"attempts:1":                         {Attempts: &Range{1, 1}},
		"attempts:<1":                        {Attempts: &Range{0, 0}},
		"attempts:<=2":                       {Attempts: &Range{0, 2}},
		"took:2s replayed:yes":               {Took: 2 * time.Second, Again: true},
	} {
		s := Parse(text, then)
		if d := cmp.Diff(want, s.Filter); d != "" || len(s.Faults) > 0 {
			t.Errorf("%s: %v %s", text, s.Faults, d)
		}
	}
	for _, text := range []string{"status:nope", "code:99", "code:x", "since:-1h", "since:x", "from:yesterday", "status:", "type:..", "to:", "stauts:failed", "error:tls_cert_expired", "reason:x",
		"took:x", "replayed:no", "attempts:many", "attempts:>", "attempts:=>1", "attempts:-1", "attempts:99999999", "key:a key:b", "code:5xx error:timeout",
		"from:2026-05-06T08:00:00Z to:2026-05-05T08:00:00Z"} {
		if s := Parse(text, then); len(s.Faults) != 1 {
			t.Errorf("%s: faults are %v", text, s.Faults)
		}
	}
}

// TestFaultsNameTheWord: a fault has the word as it was typed, and the allowed ones.
func TestFaultsNameTheWord(t *testing.T) {
	s := Parse("key:a error:tls_cert_expired since:6h", then)
	if len(s.Faults) != 1 || s.Faults[0].Word != "error:tls_cert_expired" || !strings.Contains(s.Faults[0].Says, "timeout") {
		t.Errorf("the faults are %v", s.Faults)
	}
	if s := Parse("evt_1", then); s.Bare != "evt_1" {
		t.Errorf("the only word is %q", s.Bare)
	}
	for _, name := range Names {
		if s := Parse(name+":"+Examples[name], then); len(s.Faults) > 0 {
			t.Errorf("the example of %s: %v", name, s.Faults)
		}
		for _, value := range Values(name) {
			if s := Parse(name+":"+value, then); len(s.Faults) > 0 {
				t.Errorf("the value %s of %s: %v", value, name, s.Faults)
			}
		}
	}
}

func TestWith(t *testing.T) {
	if got := With(`a status:held since:6h "b c"`, "status", "failed", "since"); got != `a "b c" status:failed` {
		t.Errorf("got %s", got)
	}
	if got := With("status:held x", "status", ""); got != "x" {
		t.Errorf("got %s", got)
	}
}

func TestOne(t *testing.T) {
	all := []Named{{"ep_1", "Acme"}, {"ep_2", "Acme staging"}, {"ep_3", "Beta"}, {"ep_4", "Beta"}}
	for typed, want := range map[string]string{"ep_2": "ep_2", "acme": "ep_1", "STAGING": "ep_2", "beta": "", "gamma": "", "a": ""} {
		id, says := One("endpoint", typed, all)
		if id != want || (says == "") != (want != "") {
			t.Errorf("%s: %q, %q", typed, id, says)
		}
	}
}

// FuzzParse: any text can be read; the words written back are read as the same words.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"", "status:failed type:a.*", `key:"a b" "text: here" x`, `"`, `a"b:c"d`, "key:", "::"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s := Parse(text, then)
		var words []string
		for _, token := range Tokens(s.Text) {
			if strings.Contains(token.Value, `"`) {
				t.Fatalf("%q: the word %q has a quotation mark", text, token)
			}
			words = append(words, token.String())
		}
		if again := Tokens(strings.Join(words, " ")); !slices.Equal(again, Tokens(s.Text)) {
			t.Fatalf("%q: %q became %q", text, Tokens(s.Text), again)
		}
	})
}

// TestClassesOfQueuesCanBeFound: every class that an attempt or a lease can end in can be searched
// for.
func TestClassesOfQueuesCanBeFound(t *testing.T) {
	for _, class := range policy.Classes() {
		if class != policy.ClassInternal && !slices.Contains(Classes(), class) {
			t.Errorf("%s cannot be searched for", class)
		}
	}
}

// TestExamplesAreRead: a reader who copies a search from a page or from the package comment, and
// puts own values into it, gets a search.
func TestExamplesAreRead(t *testing.T) {
	example := regexp.MustCompile(`(?m)^(?:    |//\t)(?:filter=)?(status:.*)$`)
	for _, page := range []string{"../../../docs/api.md", "../../../docs/dashboard.md", "search.go"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		found := example.FindAllStringSubmatch(string(text), -1)
		if len(found) == 0 {
			t.Errorf("%s has no example", page)
		}
		for _, is := range found {
			if s := Parse(is[1], then); len(s.Faults) > 0 {
				t.Errorf("%s: %s: %v", page, is[1], s.Faults)
			}
		}
	}
}
