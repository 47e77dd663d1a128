package ingress

import (
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/canonical"
	"github.com/grapnelhq/grapnel/internal/base/match"
	"github.com/grapnelhq/grapnel/internal/base/scheme"
)

// Fault is an error in a source's settings. Field is its place with the names of the API: "secret",
// "tolerance" in CheckVerify; "verify/secret", "dedupe/window", "type" in CheckSource.
type Fault = scheme.Fault

// Limits of a source's settings.
const (
	MinTolerance    = scheme.MinTolerance
	MaxTolerance    = scheme.MaxTolerance
	MinDedupeWindow = time.Second
	MaxDedupeWindow = 90 * 24 * time.Hour
)

// settings are how a source verifies, for package scheme.
func settings(v *grapnel.Verify, publicURL string, longest int) scheme.Settings {
	s := scheme.Settings{
		Scheme: v.Scheme, Header: v.Header, Algorithm: v.Algorithm, Encoding: v.Encoding, Prefix: v.Prefix, Signed: v.Signed,
		TimestampHeader: v.TimestampHeader, IDHeader: v.IDHeader, TypeHeader: v.TypeHeader, Tolerance: v.Tolerance, Username: v.Username,
		PublicURL: publicURL, Longest: longest,
	}
	for _, secret := range v.Secrets {
		s.Secrets = append(s.Secrets, scheme.Secret{Text: secret.Text, Expires: secret.ExpiresAt})
	}
	return s
}

// CheckVerify returns all faults in how a source verifies.
func CheckVerify(v *grapnel.Verify) []Fault {
	s := settings(v, "", 0)
	return s.Faults()
}

// IDsSigned says whether the signature covers the ids of a source's requests. Those that an
// expression takes from the body are covered if the body is.
func IDsSigned(s *grapnel.Source) bool {
	r := scheme.Find(s.Verify.Scheme)
	if r == nil || s.EventID == "" {
		return r != nil && !r.Unsigned
	}
	how := settings(&s.Verify, "", 0)
	return how.SignsBody()
}

// CheckSource returns the faults of a source: of its verification, its deduplication and its
// expressions.
func CheckSource(s *grapnel.Source) []Fault {
	var f scheme.Faults
	for _, fault := range CheckVerify(&s.Verify) {
		f.Add("verify/"+fault.Field, "%s", fault.Detail)
	}
	// An existing source with this fault keeps working; it only cannot be saved again.
	if v := &s.Verify; v.Scheme == "hmac" && v.TimestampHeader != "" && !strings.Contains(v.Signed, "{timestamp}") {
		f.Add("verify/timestamp_header", "has no effect without {timestamp} in signed: an old signature would pass with a new time")
	}
	checkDedupe(&s.Dedupe, scheme.Find(s.Verify.Scheme), &f)
	for _, e := range []struct {
		field, text string
		check       func(string) error
	}{{"type", s.Type, match.CheckExpression}, {"key", s.Key, match.CheckExpression}, {"event_id", s.EventID, match.CheckID}} {
		if e.text == "" {
			continue
		}
		if err := e.check(e.text); err != nil {
			f.Add(e.field, "%s", err)
		}
	}
	if s.OnUnverified != "" && s.OnUnverified != grapnel.RejectUnverified && s.OnUnverified != grapnel.Quarantine {
		f.Add("on_unverified", "is neither %s nor %s", grapnel.RejectUnverified, grapnel.Quarantine)
	}
	if s.OnUnverified == grapnel.Quarantine && s.Verify.Scheme == "discord" {
		f.Add("on_unverified", "is reject for Discord, which sometimes sends wrong signatures and drops addresses that do not answer 401")
	}
	if s.PublicURL != "" {
		u, err := url.Parse(s.PublicURL)
		if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" || u.Fragment != "" || u.User != nil {
			f.Add("public_url", "is not an address that starts with https:// or http://")
		}
	}
	// not "<", which a NaN is not
	if l := s.RateLimit; l != nil && (!(l.PerSecond >= grapnel.MinPerSecond) || l.Burst < 0) {
		f.Add("rate_limit", "is at least %v a second, and its burst is not negative", grapnel.MinPerSecond)
	}
	if s.MaxBody < 0 {
		f.Add("max_body", "is not negative")
	}
	return f
}

func checkDedupe(d *grapnel.Dedupe, r *scheme.Row, f *scheme.Faults) {
	for i, by := range d.By {
		if by != grapnel.ByEventID && by != grapnel.ByDeliveryID && by != grapnel.ByContent {
			f.Add(fmt.Sprintf("dedupe/by/%d", i), "is none of %s, %s, %s", grapnel.ByEventID, grapnel.ByDeliveryID, grapnel.ByContent)
		} else if slices.Index(d.By, by) != i {
			f.Add(fmt.Sprintf("dedupe/by/%d", i), "is there twice")
		}
	}
	if d.Window != 0 {
		switch least := leastWindow(r); {
		case d.Window < MinDedupeWindow || d.Window > MaxDedupeWindow:
			f.Add("dedupe/window", "is between %s and %s", MinDedupeWindow, MaxDedupeWindow)
		case len(d.By) > 0 && d.Window < least:
			f.Add("dedupe/window", "is shorter than %s: %s retries for %s, and a request after the window counts as new",
				least, r.Title, r.RetriesFor)
		}
	}
	if len(d.Ignore) > canonical.MaxIgnored {
		f.Add("dedupe/ignore", "has at most %d paths", canonical.MaxIgnored)
		return
	}
	for i, path := range d.Ignore {
		if err := canonical.CheckPath(path); err != nil {
			f.Add(fmt.Sprintf("dedupe/ignore/%d", i), "%s", err)
		}
	}
}

// leastWindow is the shortest allowed deduplication window: a quarter longer than the provider
// retries, because attempts take time and clocks differ.
func leastWindow(r *scheme.Row) time.Duration {
	if r == nil {
		return 0
	}
	return r.RetriesFor + r.RetriesFor/4
}
