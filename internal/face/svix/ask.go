package svix

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/wire"
)

// read asks the API for something.
func (a *ask) read(path string, q url.Values, out any) error {
	a.reads++
	return a.api(http.MethodGet, path, q, nil, out)
}

// spent says whether this request has used up its reads of the API.
func (a *ask) spent() bool { return a.reads >= a.room.Bounds.Reads }

// api sends one request to the API's handler as the caller, and decodes its answer; an error is the
// API's refusal, translated.
func (a *ask) api(method, path string, q url.Values, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if m, own := in.(json.Marshaler); own {
			body, err = m.MarshalJSON() // json.Marshal would reformat a message's payload
		} else {
			body, err = json.Marshal(in)
		}
		if err != nil {
			return err
		}
	}
	target := path
	if len(q) > 0 {
		target += "?" + q.Encode()
	}
	rq, err := http.NewRequestWithContext(a.Context(), method, target, bytes.NewReader(body))
	if err != nil {
		return err
	}
	a.pass(rq, "Authorization", "Traceparent")
	if a.tenant != "" && path != "/v1/tenants" && !strings.HasPrefix(path, "/v1/tenants/") {
		rq.Header.Set("Grapnel-Tenant", a.tenant)
	}
	if in != nil {
		rq.Header.Set("Content-Type", "application/json")
	}
	if key := a.Header.Get("Idempotency-Key"); key != "" && method == http.MethodPost && !strings.HasSuffix(path, unrepeated) {
		// Svix's keys belong to an address. A request becomes several here, of which a repetition may
		// leave out those that are done.
		sum := sha256.Sum256([]byte(path + "\x00" + a.URL.Path + "\x00" + a.step + "\x00" + key))
		rq.Header.Set("Idempotency-Key", "svix-"+hex.EncodeToString(sum[:16]))
	}
	return a.send(rq, out)
}

// pass says where the caller is: a key may be bound to addresses, and links to the portal lead to
// this server as the caller reaches it. It hands on the named headers too.
func (a *ask) pass(rq *http.Request, names ...string) {
	rq.RemoteAddr, rq.Host, rq.TLS = a.RemoteAddr, a.Host, a.TLS
	for _, name := range append(names, "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Prefix") {
		if values := a.Header.Values(name); len(values) > 0 {
			rq.Header[name] = values
		}
	}
}

// unrepeated ends the path that creates portal links: a link opens once, so a repetition gets
// another.
const unrepeated = "/portal-links"

// send has the API answer a request.
func (a *ask) send(rq *http.Request, out any) error {
	resp, err := client.Local{Handler: a.room.API}.RoundTrip(rq)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(resp.Body) // it is in memory
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return translated(resp, text)
	}
	if out == nil || len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, out); err != nil {
		return fmt.Errorf("svix: an answer of the API cannot be read: %w", err)
	}
	return nil
}

// codes are the codes of Svix for statuses.
var codes = map[int]string{http.StatusUnauthorized: "authentication_failed", http.StatusForbidden: "insufficient_access",
	http.StatusNotFound: "not_found", http.StatusConflict: "conflict", http.StatusRequestEntityTooLarge: "payload_too_large",
	http.StatusTooManyRequests: "rate_limited"}

// names are the members of Svix's objects by those of the API's.
var names = map[string]string{"event_types": "eventTypes", "labels": "metadata", "rate_limit": "throttleRate", "filter": "channels",
	"type": "eventType", "data": "payload", "tenant": "uid", "schema": "schemas", "from": "since", "to": "until", "overlap": "gracePeriodSeconds",
	"deliver_at": "deliverAt"}

// translated is the API's problem as Svix would tell it.
func translated(resp *http.Response, text []byte) *fault {
	f := &fault{status: resp.StatusCode, retryAfter: resp.Header.Get("Retry-After"), challenge: resp.Header.Get("WWW-Authenticate")}
	var p struct {
		Code   string       `json:"code"`
		Detail string       `json:"detail"`
		Errors []wire.Fault `json:"errors"`
	}
	_ = json.Unmarshal(text, &p) // a body that is none leaves the status
	f.code, f.detail = p.Code, p.Detail
	if code := codes[f.status]; code != "" {
		f.code = code
	}
	for _, e := range p.Errors {
		loc := []string{"body"}
		if name, query := strings.CutPrefix(e.Pointer, "?"); query {
			loc = []string{"query", strings.Replace(name, "cursor", "iterator", 1)}
		} else {
			for i, part := range strings.Split(strings.TrimPrefix(e.Pointer, "/"), "/") {
				if other := names[part]; i == 0 && other != "" {
					part = other
				}
				loc = append(loc, strings.NewReplacer("~1", "/", "~0", "~").Replace(part))
			}
		}
		f.spots = append(f.spots, spot{Loc: loc, Msg: e.Detail, Type: "value_error"})
	}
	return f
}

// at is a path of the API with ids in it.
func at(parts ...string) string {
	for i, part := range parts {
		if i%2 == 1 {
			parts[i] = url.PathEscape(part)
		}
	}
	return strings.Join(parts, "/")
}

// exists says whether a tenant is an application: it has a name, and is not being deleted.
func (rm *room) exists(tenant string) bool {
	return rm.Tenants.Terms(tenant).Name != "" && rm.Tenants.Accepts(tenant) == nil
}
