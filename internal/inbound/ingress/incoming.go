package ingress

import (
	"net/http"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/canonical"
	"github.com/grapnelhq/grapnel/internal/base/scheme"
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
	read   *scheme.Request // from the first use on
}

// by is the request as its scheme reads it.
func (in *incoming) by() *scheme.Request {
	if in.read == nil {
		in.read = in.source.how.Request(in.r, in.body, in.now, in.origin)
	}
	return in.read
}

// verify checks that the provider has sent the request, and notes each step.
func (in *incoming) verify() bool {
	ok := in.by().Verify()
	for _, c := range in.by().Checks {
		in.check(c.Passed, c.Text)
	}
	return ok
}

func (in *incoming) document() canonical.Document      { return in.by().Document() }
func (in *incoming) find(places []scheme.Place) string { return in.by().Find(places) }
func (in *incoming) contentType() string               { return in.header.Get("Content-Type") }

// check notes a step, and says whether it was passed.
func (in *incoming) check(passed bool, text string) bool {
	in.checks = append(in.checks, grapnel.Check{Passed: passed, Text: text})
	return passed
}

func (in *incoming) passed(text string) bool { return in.check(true, text) }
func (in *incoming) failed(text string) bool { return in.check(false, text) }

// complaint is the first check that failed.
func (in *incoming) complaint() string {
	for _, c := range in.checks {
		if !c.Passed {
			return c.Text
		}
	}
	return ""
}

// waits says whether a request lacks nothing but its source's secret.
func (in *incoming) waits() bool {
	failed := 0
	for _, c := range in.checks {
		if !c.Passed {
			failed++
		}
	}
	return failed == 1 && waited(in.checks)
}
