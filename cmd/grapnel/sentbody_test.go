package main

import (
	"net/http"
	"strings"
	"testing"
)

// TestTheSentBodyIsPrintedRaw: --body prints the bytes and nothing else; without a body the command
// fails with the reason.
func TestTheSentBodyIsPrintedRaw(t *testing.T) {
	answer := ""
	f := newFake(t, func(r *http.Request) (int, string) {
		if strings.HasSuffix(r.URL.Path, "/attempts/2/body") {
			return http.StatusOK, answer
		}
		return http.StatusOK, `{"id":"dlv_1","attempts":[{"number":1},{"number":2}]}`
	})
	for _, tc := range []struct {
		answer, out string
		code        int
	}{
		{`{"verdict":"signed","sentence":"Signed.","body":"{\"a\": \"<ü>\"}\n"}`, "{\"a\": \"<ü>\"}\n", 0},
		{`{"verdict":"signed","sentence":"Signed.","body":null,"body_base64":"/wAN"}`, "\xff\x00\r", 0},
		{`{"verdict":"signed","sentence":"Signed.","body":""}`, "", 0},
		{`{"verdict":"not_rebuilt","sentence":"Retention has deleted it.","body":null}`, "", 1},
	} {
		answer = tc.answer
		got := invoke(t, f.env(), "", "deliveries", "get", "dlv_1", "--body")
		if got.code != tc.code || got.out != tc.out || (tc.code != 0) != strings.Contains(got.errs, "Retention") {
			t.Errorf("%s: %+v", tc.answer, got)
		}
	}
	if got := invoke(t, f.env(), "", "deliveries", "get", "dlv_1", "--attempt", "2"); got.code != 2 || !strings.Contains(got.errs, "--body") {
		t.Errorf("--attempt alone: %+v", got)
	}
}
