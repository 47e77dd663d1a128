package api

import (
	"fmt"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/scheme"
	"github.com/grapnelhq/grapnel/internal/face/api/strict"
	"github.com/grapnelhq/grapnel/internal/inbound/ingress"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/policy"
)

// Limits that a form and a handler, or a form and a field's tag, agree on.
const (
	longestReason     = 500 // characters
	longestText       = 256 // bytes
	longestFilter     = 1024
	longestIdempotent = 255 // characters
	longestDelay      = 24 * time.Hour
	longestOverlap    = 720 * time.Hour

	mostHistory = 62 * 24 * time.Hour // with the 28 days before, what totals by the hour cover

	leastLink = time.Minute    // life of a portal link, or of its session
	mostLink  = 24 * time.Hour // because a pass cannot be revoked alone
)

// The patterns mean the same to Go, JavaScript, Python and Rust.
var (
	noNUL      = regexp.MustCompile(`^[^\x00]*$`)
	noControls = regexp.MustCompile(`^[^\x00-\x1f\x7f]*$`)
	unpadded   = regexp.MustCompile(`^[^\s\x00-\x1f\x7f\x85]([^\x00-\x1f\x7f]*[^\s\x00-\x1f\x7f\x85])?$`)
	identifier = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)
	serviceURL = regexp.MustCompile(`^[A-Za-z]+(\+https?)?://[^\x00-\x1f\x7f]*$`)
	zoneName   = regexp.MustCompile(`^(UTC|[A-Za-z]{2,20}(/[A-Za-z0-9_+-]{1,20}){1,2})$`)
	keyEnd     = regexp.MustCompile(`^(never|[0-9.]+(d|h|m|s)[0-9.dhms]{0,20}|[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt][0-9A-Za-z:.+-]{1,40})?)$`)
	addresses  = regexp.MustCompile(`^[0-9A-Fa-f:.]{2,45}(/[0-9]{1,3})?$`)
	timeOfDay  = regexp.MustCompile(`^([01][0-9]|2[0-3]):[0-5][0-9]$`)
	ruleName   = regexp.MustCompile(`^[a-z0-9_]{1,64}$`)
	eventType  = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}(\.[A-Za-z0-9_-]{1,64})*$`)
	typeFilter = regexp.MustCompile(`^(\*|[A-Za-z0-9_-]{1,64})(\.(\*|[A-Za-z0-9_-]{1,64}))*$`)
	webAddress = regexp.MustCompile(`^[hH][tT][tT][pP][sS]?://[^#\x00-\x20\x7f]+$`)
	signingKey = regexp.MustCompile(`^(whsec|whsk)_[A-Za-z0-9+/]+={0,2}$`)
	headerName = regexp.MustCompile("^[!#$%&'*+.^_`|~0-9A-Za-z-]{1,128}$")
	headerText = regexp.MustCompile(`^([^{}\x00-\x08\x0a-\x1f\x7f]|\{\{|\}\}|\{(` + strings.ReplaceAll(strings.Join(egress.Placeholders(), "|"), ".", `\.`) + `)\})*$`)
)

// forms are the forms that fields and parameters name.
var forms = strict.Forms{
	"":       {Must: "must not contain the character NUL", Pattern: noNUL},
	"line":   {Must: "must be text without control characters", Pattern: noControls},
	"name":   {Must: "must not have control characters, nor spaces around it", Pattern: unpadded, Check: isTrimmed},
	"id":     {Must: "must be 1 to 64 characters of [A-Za-z0-9_-]", Pattern: identifier, Least: 1, Most: 64},
	"tenant": {Must: "must be 1 to 64 characters of [A-Za-z0-9_-]", Pattern: identifier, Least: 1, Most: grapnel.MaxTenantLength},
	"audience": {Must: "must be * or 1 to 64 characters of [A-Za-z0-9_-]", Pattern: regexp.MustCompile(`^(\*|[A-Za-z0-9_-]{1,64})$`), Least: 1,
		Most: grapnel.MaxTenantLength},
	"cursor": {Must: "must be the next of an answer to the same request", Pattern: regexp.MustCompile(`^[A-Za-z0-9_-]+$`), Later: true},
	"type": {Must: typeRule, Pattern: eventType, Least: 1, Most: grapnel.MaxTypeLength,
		Example: "invoice.paid"},
	"pattern": {Must: "must be an event type; a whole segment may be *", Pattern: typeFilter, Least: 1, Most: grapnel.MaxTypeLength,
		Example: "invoice.*"},
	"key":      {Must: keyRule, Pattern: noControls, Least: 1, Most: grapnel.MaxKeyLength, Check: validKey},
	"metadata": {Must: "must have at most 1024 bytes", Pattern: noNUL, Most: grapnel.MaxMetadataLength, Later: true},
	"member":   {Pattern: noControls, Least: 1, Most: grapnel.MaxMetadataLength, Later: true},
	"time":     {Must: strict.TimeRule, Format: "date-time", Example: "2026-01-31T12:00:00Z", Check: strict.IsTime},
	"consumer": {Must: "must be text of at most 64 characters", Pattern: noControls, Least: 1, Most: grapnel.MaxConsumerName},
	"text":     {Must: "must have at most 256 bytes", Pattern: noControls, Least: 1, Most: longestText, Check: isSearched},
	"filter":   {Must: "must have at most 1024 bytes", Pattern: noControls, Least: 1, Most: longestFilter},
	"reason":   {Must: "must have at most 500 characters", Pattern: noControls, Least: 1, Most: longestReason},

	"url":       {Pattern: webAddress, Format: "uri", Example: "https://example.com/hook", Later: true},
	"proxy":     {Pattern: regexp.MustCompile(`^([hH][tT][tT][pP][sS]?://[^#\x00-\x20\x7f]+)?$`), Example: "https://proxy.example.com:3128", Later: true},
	"pem":       {Pattern: regexp.MustCompile(`^(\s*-----BEGIN [^\x00]*|\[redacted\])?$`), Later: true},
	"secret":    {Pattern: signingKey, Later: true},
	"rule":      {Must: "must be the name of a rule: 1 to 64 characters of [a-z0-9_]", Pattern: ruleName, Least: 1, Most: 64, Example: "endpoint_failing"},
	"service":   {Pattern: serviceURL, Example: "slack://hook:A-B-C@webhook", Later: true},
	"end":       {Must: "must be a time, a date, a duration such as 90d, or never", Pattern: keyEnd, Example: "90d", Check: isEnd},
	"range":     {Must: "must be an address, or a range such as 10.0.0.0/8", Pattern: addresses, Example: "10.0.0.0/8", Check: isRange},
	"clock":     {Must: "must be a time of day as in 22:00", Pattern: timeOfDay, Example: "22:00"},
	"clock_end": {Must: "must be a time of day as in 07:00", Pattern: timeOfDay, Example: "07:00"},
	"zone": {Must: "must be UTC or a name of the time zone database, as in Europe/Berlin", Pattern: zoneName,
		Example: "Europe/Berlin"},
	"digest":       strict.Lasting(0, 24*time.Hour, "15m"),
	"queue":        {Pattern: identifier, Least: 1, Most: grapnel.MaxQueueName, Later: true},
	"scheme":       {Must: "must be one of " + strings.Join(schemes(), ", "), One: schemes()},
	"path":         {Pattern: regexp.MustCompile(`^\$[^\x00]*$`), Example: "$.sent_at", Later: true},
	"header-name":  {Pattern: headerName, Least: 1, Most: 128, Later: true},
	"header-value": {Pattern: headerText, Most: egress.MaxHeaderValueLength, Later: true},

	"idempotency": {Must: "must be given once, with 1 to 255 printable characters", Pattern: unpadded,
		Least: 1, Most: longestIdempotent, Check: isShort},

	"version": strict.WholeNumber(1, 1_000_000),
	"number":  strict.WholeNumber(1, 1<<53-1),
	"sha256":  {Must: "must be 64 digits of 0-9a-f", Pattern: regexp.MustCompile(`^[0-9a-f]{64}$`), Least: 64, Most: 64},

	"link":      strict.Lasting(leastLink, mostLink, "15m"),
	"history":   strict.Lasting(time.Hour, mostHistory, "28d"),
	"overlap":   strict.Lasting(0, longestOverlap, "24h"),
	"delay":     strict.Lasting(0, longestDelay, "10s"),
	"lease":     strict.Lasting(grapnel.MinLease, grapnel.MaxLease, "30s"),
	"count_for": strict.Lasting(time.Millisecond, 10*time.Second, "10s"),
	"tolerance": strict.Lasting(ingress.MinTolerance, ingress.MaxTolerance, "5m"),
	"window":    strict.Lasting(ingress.MinDedupeWindow, ingress.MaxDedupeWindow, "192h"),
}

const typeRule = "must be segments of 1 to 64 characters of [A-Za-z0-9_-], joined by dots"

var keyRule = fmt.Sprintf("must be 1 to %d bytes of text without control characters", grapnel.MaxKeyLength)

func isShort(s string) bool { return len(s) <= longestIdempotent }

func isSearched(s string) bool { return len(s) <= longestText }

func isTrimmed(s string) bool { return strings.TrimSpace(s) == s }

func validKey(key string) bool {
	return key != "" && len(key) <= grapnel.MaxKeyLength && strict.Printable(key) && utf8.ValidString(key)
}

func schemes() []string {
	var names []string
	for _, s := range scheme.All() {
		names = append(names, s.Name)
	}
	return names
}

// decode reads a body into a struct whose tags name forms of this package.
func decode[T any](raw []byte, f *strict.Faults) T { return strict.Decode[T](raw, forms, f) }

// duration is one that has the form of its field; 0 if there is none.
func duration(text string) time.Duration {
	d, _ := policy.ParseDuration(text)
	return d
}
