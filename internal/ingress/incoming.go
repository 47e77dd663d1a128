package ingress

import (
	"cmp"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
)

// incoming is one request while it is looked at. It belongs to one goroutine.
type incoming struct {
	r      *http.Request
	header http.Header
	body   []byte
	now    time.Time // of its arrival
	taken  time.Time // of its acceptance: later than now if it waited for the source's secret
	source *source
	origin string // scheme and host of the URL that the provider was given, as far as known
	checks []grapnel.Check

	fault   fault   // the first kind that faulty noted
	matched *secret // the first that verified the request
	// the signature of a template, if only one was offered; once verified, the same bytes have the
	// same
	mac []byte

	read   bool
	doc    document
	fields url.Values
}

// document reads the body at the first use.
func (in *incoming) document() document {
	if !in.read {
		in.read, in.doc = true, in.source.ignored.read(in.body)
	}
	return in.doc
}

func (in *incoming) contentType() string { return in.header.Get("Content-Type") }

// check notes a step, and says whether it was passed.
func (in *incoming) check(passed bool, text string) bool {
	in.checks = append(in.checks, grapnel.Check{Passed: passed, Text: text})
	return passed
}

func (in *incoming) passed(text string) bool { return in.check(true, text) }
func (in *incoming) failed(text string) bool { return in.check(false, text) }

// faulty notes a failed check and its kind.
func (in *incoming) faulty(kind fault, text string) bool {
	in.fault = cmp.Or(in.fault, kind)
	return in.failed(text)
}

// unproved is the first fault of a request that is not verified. Checks that name no kind found
// something malformed.
func (in *incoming) unproved() fault { return cmp.Or(in.fault, proofMalformed) }

// lacks notes that something is wrong with a header: it is missing, or there more than once.
func (in *incoming) lacks(wrong string) bool {
	if strings.HasSuffix(wrong, isMissing) {
		return in.faulty(proofMissing, wrong)
	}
	return in.faulty(proofMalformed, wrong)
}

// complaint is the first check that failed.
func (in *incoming) complaint() string {
	for _, c := range in.checks {
		if !c.Passed {
			return c.Text
		}
	}
	return ""
}
