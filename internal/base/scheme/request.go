package scheme

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel/internal/base/canonical"
)

// Check is one step of verifying a request.
type Check struct {
	Passed bool   `json:"passed"`
	Text   string `json:"text"`
}

// Reason is why a request could not be verified, for counting.
type Reason string

// The reasons.
const (
	Missing       Reason = "missing"
	Malformed     Reason = "malformed"
	TooOldOrNew   Reason = "timestamp"
	ExpiredSecret Reason = "expired_secret" // it is made with a secret that has been rotated
	Mismatch      Reason = "mismatch"
)

// Outcome is what the kits for receivers answer, by the conformance of sdk.
type Outcome string

// The outcomes of verifying.
const (
	Verified   Outcome = "verified"
	Unverified Outcome = "unverified" // bad or missing signature
	Expired    Outcome = "expired"    // its time is outside of the tolerance
	Unreadable Outcome = "malformed"  // a header is missing or cannot be read
)

// Outcome sums up the checks. A missing signature comes before all else that is wrong.
func (in *Request) Outcome() Outcome {
	failed := slices.ContainsFunc(in.Checks, func(c Check) bool { return !c.Passed })
	switch {
	case !failed:
		return Verified
	case in.Unsigned, in.Reason == Mismatch, in.Reason == ExpiredSecret:
		return Unverified
	case in.Reason == TooOldOrNew:
		return Expired
	default:
		return Unreadable
	}
}

// Request is one request while it is looked at. It belongs to one goroutine.
type Request struct {
	Checks   []Check
	Reason   Reason // the first that was found; empty: something was malformed, or nothing failed
	Unsigned bool   // there is no signature, or it is none that can be read
	// MAC is the signature of a template, if only one was offered; once verified, the same bytes
	// have the same.
	MAC []byte
	// Time is the one that is signed, if it could be read.
	Time time.Time

	v       *Verifier
	r       *http.Request
	header  http.Header
	body    []byte
	now     time.Time
	origin  string  // scheme and host of the URL that the provider was given, as far as known
	matched *secret // the first that verified the request

	read   bool
	doc    canonical.Document
	fields url.Values
}

// Request looks at a request that arrived at a time. Its body has been read. origin is the scheme
// and host of the URL that the provider was given, as far as known.
func (v *Verifier) Request(r *http.Request, body []byte, now time.Time, origin string) *Request {
	return &Request{v: v, r: r, header: r.Header, body: body, now: now, origin: origin}
}

// Document reads the body at the first use.
func (in *Request) Document() canonical.Document {
	if !in.read {
		in.read, in.doc = true, in.v.Ignored.Read(in.body)
	}
	return in.doc
}

// Complaint is the first check that failed.
func (in *Request) Complaint() string {
	for _, c := range in.Checks {
		if !c.Passed {
			return c.Text
		}
	}
	return ""
}

// check notes a step, and says whether it was passed.
func (in *Request) check(passed bool, text string) bool {
	in.Checks = append(in.Checks, Check{Passed: passed, Text: text})
	return passed
}

func (in *Request) passed(text string) bool { return in.check(true, text) }
func (in *Request) failed(text string) bool { return in.check(false, text) }

// faulty notes a failed check and its reason.
func (in *Request) faulty(why Reason, text string) bool {
	in.Reason = cmp.Or(in.Reason, why)
	return in.failed(text)
}

// unsigned notes that the signature is none that can be read.
func (in *Request) unsigned(text string) bool {
	in.Unsigned = true
	return in.failed(text)
}

// lacks notes that something is wrong with a header: it is missing, or there more than once.
func (in *Request) lacks(wrong string) bool {
	if strings.HasSuffix(wrong, isMissing) {
		return in.faulty(Missing, wrong)
	}
	return in.faulty(Malformed, wrong)
}

// lacksSignature does the same for the header of the signature.
func (in *Request) lacksSignature(wrong string) bool {
	in.Unsigned = strings.HasSuffix(wrong, isMissing)
	return in.lacks(wrong)
}

// isMissing ends the text about a header that a request lacks.
const isMissing = " is missing"
