package byhand

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/scheme"
)

// Reason is why a request does not verify. With all reasons removed it does.
type Reason struct {
	Kind   string `json:"kind"` // header, encoding, key, body, content or clock
	Detail string `json:"detail"`
	Fix    string `json:"fix"`
}

// Report is what a look at a request came to.
type Report struct {
	Verified bool           `json:"verified"`
	Checks   []scheme.Check `json:"checks"`
	Reasons  []Reason       `json:"reasons"`
}

// attempt is a request with some of its presumed faults undone.
type attempt struct {
	verify  scheme.Settings
	request scheme.Webhook
	undone  []Reason
}

// with is an attempt with another reason.
func (a attempt) with(kind, detail, fix string) attempt {
	a.undone = append(slices.Clone(a.undone), Reason{kind, detail, fix})
	a.request.Header = a.request.Header.Clone()
	a.verify.Secrets = slices.Clone(a.verify.Secrets)
	return a
}

// pairsUpTo is the largest body for which two faults at once are looked for: that is a few thousand
// signatures over it.
const pairsUpTo = 256 << 10

// unknown is the reason when nothing helped. If the request has all that is needed, most likely the
// key is another one.
func (a *attempt) unknown(checks []scheme.Check) Reason {
	for _, c := range checks {
		if !c.Passed && !strings.Contains(c.Text, "matches") && !strings.HasPrefix(c.Text, "timestamp") {
			return Reason{"header", c.Text, "compare the request with what the provider sends; a proxy, or the code that stored it, has lost that part"}
		}
	}
	body, length := a.request.Body, a.request.Header.Get("Content-Length")
	if n, err := strconv.Atoi(length); err == nil && n != len(body) {
		return Reason{"body", fmt.Sprintf("the body has %d bytes, and Content-Length says %s", len(body), length), rawBytes}
	}
	proof, err := a.verify.Evidence(&a.request)
	if err == nil && proof.URL {
		return Reason{"content", "no signature matches; the signature covers the URL, and this one is " + a.request.URL,
			"give the URL that the provider was given: --url here, public_url of a source; else the secret is another one"}
	}
	fix := "most likely the secret is another one: that of another endpoint, or of test instead of live mode"
	if a.verify.SignsBody() {
		fix += "; else the body was changed in a way that cannot be undone: written in another order, or cut off"
	}
	return Reason{"key", "it matches no secret, whatever is undone of the usual changes", fix}
}

// clock is the reason if the timestamp is too far from now.
func (a *attempt) clock(now time.Time) []Reason {
	proof, err := a.verify.Evidence(&a.request)
	if err != nil || proof.At.IsZero() {
		return nil
	}
	checks, _, _ := a.verify.Check(&a.request, now) // Evidence has read the same settings
	for _, c := range checks {
		if !c.Passed && strings.HasPrefix(c.Text, "timestamp ") {
			return []Reason{{"clock", c.Text, "if the request is new, set the clock (chronyc tracking, timedatectl); if it was stored, verify it as of " +
				"its time: --at " + proof.At.UTC().Format(time.RFC3339)}}
		}
	}
	return nil
}

// verified says whether an attempt verifies as of its own time.
func (a *attempt) verified() bool {
	proof, err := a.verify.Evidence(&a.request)
	if err != nil {
		return false
	}
	_, ok, err := a.verify.Check(&a.request, proof.At)
	return err == nil && ok
}

const rawBytes = "verify the bytes as they come, before anything parses or decodes them"
