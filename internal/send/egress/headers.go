package egress

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
)

// Limits of the headers that an endpoint adds.
const (
	MaxCustomHeaders     = 32
	MaxHeaderValueLength = 4096
)

// HeaderError says which custom header cannot be used, and why.
type HeaderError struct {
	Name   string
	Detail string
}

func (e *HeaderError) Error() string { return fmt.Sprintf("header %q %s", e.Name, e.Detail) }

// HeaderErrors are the faults of all headers that cannot be used, by their names.
type HeaderErrors []*HeaderError

func (e HeaderErrors) Error() string { return errors.Join(e.Unwrap()...).Error() }

// Unwrap are the faults one by one.
func (e HeaderErrors) Unwrap() (all []error) {
	for _, one := range e {
		all = append(all, one)
	}
	return all
}

// CheckHeaders returns the faults of an endpoint's own headers as HeaderErrors, or that there are
// too many. It is called when they are saved: a header that net/http refuses to send would
// otherwise fail every attempt.
func CheckHeaders(h map[string]string) error {
	return checkHeaders(h, func(value string) string {
		_, wrong := parseTemplate(value)
		return wrong
	})
}

// sendable is CheckHeaders without the faults of placeholders, which are sent as they are.
func sendable(h map[string]string) error {
	return checkHeaders(h, func(string) string { return "" })
}

func checkHeaders(h map[string]string, checkValue func(string) string) error {
	if len(h) > MaxCustomHeaders {
		return fmt.Errorf("has %d headers; at most %d are allowed", len(h), MaxCustomHeaders)
	}
	var all HeaderErrors
	seen := make(map[string]bool, len(h))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		canonical := http.CanonicalHeaderKey(name)
		detail := checkValue(h[name])
		switch {
		case !validHeaderName(name):
			detail = "is not a header name"
		case reserved(canonical):
			detail = "is reserved"
		case seen[canonical]:
			detail = "is there twice"
		case len(h[name]) > MaxHeaderValueLength:
			detail = fmt.Sprintf("has a value longer than %d bytes", MaxHeaderValueLength)
		case !validHeaderValue(h[name]):
			detail = "has a value with control characters"
		}
		if detail != "" {
			all = append(all, &HeaderError{Name: name, Detail: detail})
		}
		seen[canonical] = true
	}
	if all == nil {
		return nil
	}
	return all
}

// reserved headers belong to the connection, or carry values that only Grapnel knows. An
// Idempotency-Key would allow proxies to resend requests on their own.
func reserved(canonical string) bool {
	switch canonical {
	case "Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Upgrade", "Trailer", "Te", "Expect", "Http2-Settings",
		"Content-Type", "Content-Encoding", "Accept-Encoding", "User-Agent", "Date", "X-Idempotency-Key":
		return true
	}
	return slices.ContainsFunc([]string{"Webhook-", "Grapnel-", "Ce-", "Idempotency-", "Proxy-"}, func(prefix string) bool {
		return strings.HasPrefix(canonical, prefix)
	})
}

func validHeaderName(name string) bool {
	if name == "" || len(name) > 128 {
		return false
	}
	for i := range len(name) {
		c := name[i]
		letter := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if !letter && strings.IndexByte("!#$%&'*+-.^_`|~", c) < 0 {
			return false
		}
	}
	return true
}

func validHeaderValue(value string) bool {
	return !strings.ContainsFunc(value, func(c rune) bool { return c < ' ' && c != '\t' || c == 0x7f })
}
