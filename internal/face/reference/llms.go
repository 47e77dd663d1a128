package reference

import (
	"fmt"
	"strings"
)

// Short is the reference as a list of links to the Markdown of its pages, in the form of
// https://llmstxt.org. base is the path before every link.
//
// It is made of the API's document and the texts alone, and its links name no host: no name that a
// tenant or the sender of a request chose is in it.
func (r *Reference) Short(base string) string {
	var b strings.Builder
	b.WriteString("# Grapnel\n\n> Reliable webhooks: Grapnel accepts events, receives webhooks, and delivers each event to every endpoint that matches " +
		"it, in order, until it has arrived.\n\nThese pages describe this server's HTTP API. An agent can use its tools over the Model Context " +
		"Protocol instead: `grapnel mcp`.\n")
	for _, h := range r.Menu {
		fmt.Fprintf(&b, "\n## %s\n\n", h.Name)
		for _, p := range h.Pages {
			fmt.Fprintf(&b, "- [%s](%s/docs/%s.md)", p.Title, base, p.Name)
			if about := strings.Join(strings.Fields(p.About), " "); about != "" {
				b.WriteString(": " + about)
			}
			b.WriteString("\n")
		}
	}
	fmt.Fprintf(&b, "\n## Optional\n\n- [OpenAPI 3.1 document](%s/openapi.json): all operations, types and examples in one file\n", base)
	return b.String()
}
