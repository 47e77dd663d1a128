package api

import (
	"encoding/base64"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
)

// TestAnswersTellNoSequence: a tenant does the same twice: alone, and with 400 events of another
// tenant before and in between. What it is answered is as long in both, and has no number that
// differs.
func TestAnswersTellNoSequence(t *testing.T) {
	plays := map[bool][]string{}
	for _, crowded := range []bool{false, true} {
		w := newWorld(t)
		const globex = "grp_test_admin_of_globex"
		w.key("key_globex", globex, "globex", grapnel.ScopeAdmin)
		theirs := w.endpoint(globex, "")
		others := func() {
			for _, act := range []string{"pause", "resume", "pause", "resume"} {
				if crowded {
					w.as(globex, 200, "POST", "/v1/endpoints/"+theirs+"/"+act, "")
					w.as(globex, 202, "POST", "/v1/events/batch", `{"events":[`+strings.Repeat(`{"type":"a","data":1},`, 99)+`{"type":"a","data":1}]}`)
				}
			}
		}
		ask := func(want int, method, target, body string) map[string]any {
			others()
			got := w.as(acmeAdmin, want, method, target, body)
			text, err := json.Marshal(got)
			if err != nil {
				t.Fatal(err)
			}
			plays[crowded] = append(plays[crowded], method+" "+target+" "+string(text))
			return got
		}
		ep := ask(201, "POST", "/v1/endpoints", `{"url":"https://acme.example/"}`)["id"].(string)
		for _, key := range []string{"k", "l", "k"} {
			ask(202, "POST", "/v1/events", `{"type":"a","data":1,"key":"`+key+`"}`)
		}
		ask(200, "POST", "/v1/endpoints/"+ep+"/pause", `{"reason":"a"}`)
		list := ask(200, "GET", "/v1/deliveries", "")["data"].([]any)
		for _, d := range list {
			ask(200, "GET", "/v1/deliveries/"+d.(map[string]any)["id"].(string), "")
		}
		ask(200, "POST", "/v1/deliveries/"+list[2].(map[string]any)["id"].(string)+"/skip", `{"reason":"b"}`)
		for _, target := range []string{"/v1/deliveries?limit=1", "/v1/events?limit=1", "/v1/audit?limit=1", "/v1/endpoints?limit=1",
			"/v1/endpoints/" + ep + "/deliveries?limit=1", "/v1/inbox?limit=1"} {
			for n := 0; n < 3; n++ {
				next, _ := ask(200, "GET", target, "")["next"].(string)
				if next == "" {
					break
				}
				raw, err := base64.RawURLEncoding.DecodeString(next)
				if err != nil || len(raw) != cursorCheck+cursorUnit {
					t.Errorf("%s: a cursor of %d bytes (%v)", target, len(raw), err)
				}
				base, _, _ := strings.Cut(target, "&cursor=")
				target = base + "&cursor=" + next
			}
		}
	}
	ids := regexp.MustCompile(`\b(dlv|att|evt|ep|key|req)_[0-9a-z]{26}\b|cursor=[\w-]+|"next":"[\w-]+"|"secret":"[^"]+"|"planned":\[[^]]*\]`)
	for i := range plays[false] {
		alone, crowded := ids.ReplaceAllString(plays[false][i], "ID"), ids.ReplaceAllString(plays[true][i], "ID")
		if alone != crowded {
			t.Errorf("answers differ by what others do:\n%s\n%s", alone, crowded)
		}
	}
}

// TestForgedPositions: a position in clear, as cursors had it once, and ids with the row id in
// clear are refused. Who may try them could find out row ids.
func TestForgedPositions(t *testing.T) {
	w := newWorld(t)
	w.endpoint(admin, "")
	for range 3 {
		w.must(202, "POST", "/v1/events", `{"type":"a","data":1}`)
	}
	newest := w.newest(t)
	for n := range newest.Seq + 2 {
		w.must(404, "GET", "/v1/deliveries/"+grapnel.PlainDeliveryID(newest.CreatedAt, n), "")
		if got := w.must(200, "GET", "/v1/audit?delivery="+grapnel.PlainDeliveryID(newest.CreatedAt, n), "")["data"].([]any); len(got) > 0 {
			t.Errorf("entries for an id in clear: %v", got)
		}
		for _, check := range []int{8, cursorCheck} {
			forged := base64.RawURLEncoding.EncodeToString(append(make([]byte, check), strconv.FormatInt(n, 10)...))
			w.must(422, "GET", "/v1/deliveries?cursor="+forged, "")
		}
	}
	given := w.must(200, "GET", "/v1/deliveries?limit=1", "")["next"].(string)
	raw, err := base64.RawURLEncoding.DecodeString(given)
	if err != nil {
		t.Fatal(err)
	}
	for i := range raw {
		raw[i] ^= 1
		w.must(422, "GET", "/v1/deliveries?limit=1&cursor="+base64.RawURLEncoding.EncodeToString(raw), "")
		raw[i] ^= 1
	}
	// The same position of another list looks different throughout.
	other := w.must(200, "GET", "/v1/deliveries?limit=1&type=a", "")["next"].(string)
	same := 0
	for i := range given {
		if given[i] == other[i] {
			same++
		}
	}
	if same > len(given)/4 {
		t.Errorf("%d of %d characters are the same in %s and %s", same, len(given), given, other)
	}
}
