//go:build prove

package sign

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// sample is a request for a receiver in another language, with the time at which it arrives.
type sample struct {
	Secret  string            `json:"secret"`
	Headers map[string]string `json:"headers"`
	Body    string            `json:"body"`
	Now     int64             `json:"now"`
}

// drivers call the receivers of examples/verify for each sample, and write the ids; "": refused.
var drivers = map[string]struct{ program, file, code string }{
	"Python": {"python3", "verify.py", `
import json, sys
def tried(s):
    try:
        return verify(s["secret"], s["headers"], s["body"].encode(), s["now"])
    except Exception:
        return ""
print(json.dumps([tried(s) for s in json.load(sys.stdin)]))`},
	"Node": {"node", "verify.cjs", `
const tried = (s) => { try { return verify(s.secret, s.headers, s.body, s.now); } catch { return ""; } };
console.log(JSON.stringify(JSON.parse(require("node:fs").readFileSync(0)).map(tried)));`},
}

// TestSamplesOfOtherLanguages: the receivers that documents link accept the requests that Verifier
// accepts, and no others.
func TestSamplesOfOtherLanguages(t *testing.T) {
	const secret, other = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYX"
	sent := time.Unix(1767323045, 0)
	of := func(id string, at time.Time, body, by string) sample {
		signature, err := Sign(id, at, []byte(body), strings.Fields(by)...)
		if err != nil {
			t.Fatal(err)
		}
		return sample{secret, map[string]string{"webhook-id": id, "webhook-timestamp": strconv.FormatInt(at.Unix(), 10),
			"webhook-signature": signature}, body, sent.Unix()}
	}
	with := func(s sample, body string, headers ...string) sample {
		for i := 0; i < len(headers); i += 2 {
			s.Headers[headers[i]] = headers[i+1]
		}
		s.Body = body
		return s
	}
	day := strconv.FormatInt(sent.Add(-24*time.Hour).Unix(), 10)
	today := strconv.FormatInt(sent.Unix(), 10)
	samples := []sample{
		of("evt_1", sent, `{"a":1}`, secret),
		of("evt_1", sent, ``, other+" "+secret),
		of("evt_1", sent, `{"a":1}`, other),
		of("evt_1", sent.Add(-300*time.Second), `{"a":1}`, secret),
		of("evt_1", sent.Add(-301*time.Second), `{"a":1}`, secret),
		of("evt_1", sent.Add(301*time.Second), `{"a":1}`, secret),
		with(of("evt_1", sent, `{"a":1}`, secret), `{"a":2}`),
		with(of("evt_1", sent, `{"a":1}`, secret), `{"a":1}`, "webhook-id", "evt_2"),
		with(of("evt_1", sent, `{"a":1}`, secret), `{"a":1}`, "webhook-signature", "v1, v2,AA=="),
		// an old request, whose body begins with a time and a dot, as one of now
		with(of("evt_1", sent.Add(-24*time.Hour), today+".5", secret), "5", "webhook-id", "evt_1."+day, "webhook-timestamp", today),
		// the beginning of a body as a part of the time
		with(of("evt_1", sent, "1.5", secret), "5", "webhook-timestamp", today+".1"),
	}
	var want []string
	for _, s := range samples {
		v, err := NewVerifier(VerifierOptions{Secrets: []string{s.Secret}, Now: func() time.Time { return time.Unix(s.Now, 0) }})
		if err != nil {
			t.Fatal(err)
		}
		h := http.Header{}
		for name, value := range s.Headers {
			h.Set(name, value)
		}
		verified, _ := v.Verify(h, []byte(s.Body))
		want = append(want, verified.ID)
	}
	asked, _ := json.Marshal(samples)
	for language, d := range drivers {
		t.Run(language, func(t *testing.T) {
			if _, err := exec.LookPath(d.program); err != nil {
				t.Fatalf("the test needs %s: %v", d.program, err)
			}
			code, err := os.ReadFile("../examples/verify/" + d.file)
			if err != nil {
				t.Fatal(err)
			}
			file := t.TempDir() + "/receiver"
			if err := os.WriteFile(file, append(code, d.code...), 0o600); err != nil {
				t.Fatal(err)
			}
			c := exec.CommandContext(t.Context(), d.program, file)
			c.Stdin, c.Stderr = bytes.NewReader(asked), os.Stderr
			out, err := c.Output()
			var got []string
			if err != nil || json.Unmarshal(out, &got) != nil || len(got) != len(want) {
				t.Fatalf("%v: %s", err, out)
			}
			for i := range want {
				if got[i] != want[i] {
					t.Errorf("the receiver takes %+v for %q, Verifier for %q", samples[i], got[i], want[i])
				}
			}
		})
	}
}
