package api

import (
	"strings"

	"github.com/grapnelhq/grapnel"
)

// redacted stands for the value of an endpoint's own header, or of a parameter of its URL: either
// may be a credential of its receiver.
const redacted = "[redacted]"

// address is the URL of an endpoint as its caller may see it. A query is as often a credential as
// the value of a header, so callers who may not change the endpoint see the names of its parameters
// and no values.
func (c *call) address(of string) string {
	if c.key.May(grapnel.ScopeManage) || c.key.May(grapnel.ScopeEndpointsWrite) {
		return of
	}
	at, query, has := strings.Cut(of, "?")
	if !has {
		return of
	}
	parts := strings.Split(query, "&")
	for i, part := range parts {
		if name, _, named := strings.Cut(part, "="); named {
			parts[i] = name + "=" + redacted
		} else {
			parts[i] = redacted
		}
	}
	return at + "?" + strings.Join(parts, "&")
}

// withoutQuery is a URL that names an endpoint in sentences and lists for all callers.
func withoutQuery(of string) string {
	at, _, _ := strings.Cut(of, "?")
	return at
}
