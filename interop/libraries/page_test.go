package main

import (
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/sign"
)

const root = "../.."

// The command, not the tests, writes the page and the recorded requests. After a change of a pin it
// has to be run.
func TestThePageIsOfThePinnedVersions(t *testing.T) {
	versions, err := pinned()
	if err != nil {
		t.Fatal(err)
	}
	for client, pin := range agentPins {
		if versions[strings.ToLower(strings.ReplaceAll(pin.library, "`", ""))], err = agentVersion(root, client); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(root, pagePath))
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	cells := regexp.MustCompile(`(?m)^\| ([^|]+) \|`)
	library := regexp.MustCompile("(?:^|, )(Go|Python|Node|Java|Rust) `([^`]+)`(?: ([^ ,]+))?")
	var found [][]string
	for _, m := range cells.FindAllStringSubmatch(string(text), -1) {
		found = append(found, library.FindAllStringSubmatch(m[1], -1)...)
	}
	for _, m := range found {
		named++
		if pin := versions[strings.ToLower(m[1])+" "+m[2]]; pin != m[3] {
			t.Errorf("the page has %s %s %q, pinned is %q: run make interop", m[1], m[2], m[3], pin)
		}
	}
	if named < 40 {
		t.Errorf("the page names %d libraries only", named)
	}
	for _, wrong := range []string{"**failed**", notRun} {
		if strings.Contains(string(text), wrong) {
			t.Errorf("the page has rows with %q", wrong)
		}
	}
	if !strings.HasPrefix(string(text), opening) {
		t.Error("the page begins in another way than the command writes it")
	}
}

func TestRecordedRequestsAreOfThePinnedVersions(t *testing.T) {
	versions, err := pinned()
	if err != nil {
		t.Fatal(err)
	}
	all, err := senders()
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[string]bool{}
	names, err := filepath.Glob(filepath.Join(root, recordedDir, "*.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var file struct{ Vectors []vector }
		if err := json.Unmarshal(text, &file); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, v := range file.Vectors {
			recorded[v.Name] = true
			m := regexp.MustCompile(`^made by (\S+) (\S+) for (Python|Node)$`).FindStringSubmatch(v.Origin)
			if m == nil || versions[strings.ToLower(m[3])+" "+m[1]] != m[2] {
				t.Errorf("%s: %q was %s, which is not the pinned version: run the command with -record", name, v.Name, v.Origin)
			}
		}
	}
	for _, p := range all {
		if p.recorded() != recorded[p.name()] {
			t.Errorf("%q is recorded: %v, should be: %v", p.name(), recorded[p.name()], p.recorded())
		}
	}
}

// A tally that cannot fail would prove nothing.
func TestTalliesNoticeWhatIsWrong(t *testing.T) {
	secret, other := symmetric(32, 1), symmetric(32, 2)
	body := []byte(`{"a":1}`)
	signature, err := sign.Sign("evt_1", time.Now(), body, secret)
	if err != nil {
		t.Fatal(err)
	}
	h := carry("evt_1", time.Now(), signature)
	c := capture{Headers: map[string]string{}, Body: body}
	for name := range h {
		c.Headers[strings.ToLower(name)] = h.Get(name)
	}
	for _, test := range []struct {
		name   string
		secret string
		failed bool
	}{{"signed", secret, false}, {"signed with another secret", other, true}} {
		c.Secrets = []string{test.secret}
		for library, tally := range verifyInGo([]capture{c}) {
			if r := tally.row(); r.failed != test.failed {
				t.Errorf("%s: %s says %q", test.name, library, r.result)
			}
		}
	}
	for name, verify := range map[string]func([]byte, http.Header) error{
		"accepts everything": func([]byte, http.Header) error { return nil },
		"accepts nothing":    func([]byte, http.Header) error { return errors.New("no") },
		"looks at no id": func(b []byte, _ http.Header) error {
			if string(b) != string(body) {
				return errors.New("another body")
			}
			return nil
		},
	} {
		var one tally
		if one.count(verify, c); !one.row().failed {
			t.Errorf("a library that %s passes", name)
		}
	}
	if (tally{}).row().failed == false {
		t.Error("a library that checked nothing passes")
	}
}
