package egress

import (
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

// CheckHeaders returns the faults of an endpoint's own headers. It is called when they are saved: a
// header that net/http refuses to send would otherwise fail every attempt.
func CheckHeaders(h map[string]string) error {
	if err := sendable(h); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(h)) {
		if _, wrong := parseTemplate(h[name]); wrong != "" {
			return &HeaderError{Name: name, Detail: wrong}
		}
	}
	return nil
}

// sendable is CheckHeaders without the faults of placeholders, which are sent as they are.
func sendable(h map[string]string) error {
	if len(h) > MaxCustomHeaders {
		return fmt.Errorf("has %d headers; at most %d are allowed", len(h), MaxCustomHeaders)
	}
	seen := make(map[string]bool, len(h))
	for _, name := range slices.Sorted(maps.Keys(h)) {
		detail := ""
		canonical := http.CanonicalHeaderKey(name)
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
			return &HeaderError{Name: name, Detail: detail}
		}
		seen[canonical] = true
	}
	return nil
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
