package openapi

import (
	"bytes"
	"encoding/json"
	"net/http"
	"path"
	"reflect"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/grapnelhq/grapnel/internal/face/api/strict"
)

// documentVersion is the version of the API, not of the server.
const documentVersion = "1.0.0"

const documentAbout = `Events go in, deliveries come out at endpoints.

Times are RFC 3339 in UTC with microseconds; durations are strings such as 1h30m or 30d. Every error is application/problem+json with a code,
and with the fields at fault in errors. Lists take limit and cursor and answer {"data":[…],"next":"cursor or null"}.

A POST may carry an Idempotency-Key: for 48 hours the same request with the same key gets the same answer, with
Idempotency-Replayed: true; another request with that key gets 422, one that comes while the first is worked on 409.

Every answer has X-Request-Id. What belongs to another tenant looks like what does not exist.
With the header Grapnel-Tenant a key that is bound to no tenant has a request answered as if it were bound to the tenant named.`

// Server is the server in an encoded document: its own root.
const Server = `"url": "/"`

// Encode writes the document for people as well as programs.
func Encode(doc *huma.OpenAPI) []byte {
	raw, err := json.Marshal(doc)
	if err != nil {
		panic("openapi: the document cannot be encoded: " + err.Error())
	}
	var b bytes.Buffer
	if err := json.Indent(&b, raw, "", "  "); err != nil {
		panic("openapi: the document is no JSON: " + err.Error())
	}
	b.WriteByte('\n')
	return b.Bytes()
}

// schemaName is the type's name. It drops "View", which means nothing outside of the server. Types
// of the status page begin with Status, because the API has an incident and a promise of its own.
func schemaName(t reflect.Type, hint string) string {
	name := strings.ReplaceAll(huma.DefaultSchemaNamer(t, hint), "View", "")
	if path.Base(t.PkgPath()) == "statuspage" {
		name = "Status" + name
	}
	return name
}

func problemResponse(status string) string { return "Problem" + status }

// describer makes the document.
type describer struct {
	registry huma.Registry
	taken    map[string]bool         // references to schemas of bodies of requests
	types    map[string]reflect.Type // by the name of their schema
	forms    strict.Forms
}

// refusals are the statuses of the problems that an operation can answer with.
func (o *Operation) refusals() []string {
	all := []string{"400", "422", "500", "503"}
	if o.Scope != "" {
		all = append(all, "401", "403", "429")
	}
	if o.Body != nil {
		all = append(all, "413", "415")
	}
	if strings.Contains(o.Path, "{") {
		all = append(all, "404", "410")
	}
	if o.Bare {
		all = append(all, "401", "408", "429", "431")
	}
	if o.Method != http.MethodGet {
		all = append(all, "409", "507")
	}
	return all
}

func (p *Parameter) describe(in string) *huma.Param {
	s := &huma.Schema{Type: huma.TypeString}
	describeForm(&p.Form, s)
	if s.Type == huma.TypeString && len(s.Enum) == 0 && s.MinLength == nil {
		s.MinLength = new(1)
	}
	if p.Repeat {
		s = &huma.Schema{Type: huma.TypeArray, Items: s}
	}
	return &huma.Param{Name: p.Name, In: in, Description: p.Doc, Required: p.Required, Schema: s}
}
