// Package svix is a second way into the API, for programs that are written against that of Svix:
// paths below /api/v1, with the names and shapes that the official SDKs of Svix expect.
//
// It translates, and does nothing else. Every request becomes one or more requests to the API's own
// handler in this process, with the caller's key. So the API decides what the key may do, counts
// its limits, stores the answer with an idempotency key, and writes the audit. Objects that are
// created here and objects of /v1 have one history.
//
// An application is a tenant that has a name (grapnel.Terms). Ids are computed and not stored
// (ids.go): there is no table that could disagree with the tenants, endpoints and events it names.
// A member that Grapnel has no place for is refused with 422, by its name.
//
// It does not promise other parts of the service of Svix: operational webhooks under its names,
// environments, ingest.
package svix

import (
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
)

// Prefix begins the paths of all operations.
const Prefix = "/api/v1/"

// New makes the handler of all paths below Prefix.
func New(o Options) http.Handler {
	o.Bounds = bounds.Fill(o.Bounds)
	rm := &room{Options: o, mux: http.NewServeMux()}
	for _, op := range operations() {
		method, path, _ := strings.Cut(op.pattern, " ")
		rm.mux.HandleFunc(method+" "+strings.TrimSuffix(Prefix, "/")+path, rm.enter(op))
	}
	rm.mux.HandleFunc("OPTIONS "+Prefix, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	rm.mux.HandleFunc(Prefix, rm.enter(operation{open: true, handle: func(a *ask) (reply, error) {
		return reply{}, &fault{status: http.StatusNotFound, code: "not_found", detail: a.Method + " " + a.URL.Path + " is no operation that this server has."}
	}}))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		// A portal made with Svix's components calls from another origin. No cookie counts here, so a
		// page can do nothing without a token of its own.
		h.Set("Access-Control-Allow-Origin", "*")
		h.Set("Access-Control-Allow-Methods", "GET, POST, PUT, PATCH, DELETE")
		h.Set("Access-Control-Allow-Headers", "authorization, content-type, idempotency-key, svix-req-id, svix-retry-count")
		h.Set("Access-Control-Max-Age", "600")
		h.Set("Cache-Control", "no-store")
		h.Set("X-Content-Type-Options", "nosniff")
		rm.mux.ServeHTTP(w, r)
	})
}

func operations() []operation {
	return slices.Concat(applications(), endpoints(), endpointParts(), messages(), attempts(), eventTypes(), services())
}

// enter takes a request through what all operations share: the key, the application, the body.
func (rm *room) enter(op operation) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		a := &ask{Request: r, room: rm}
		out, err := a.answer(w, op)
		if err != nil {
			refuse(w, err)
			return
		}
		if out.body == nil {
			w.WriteHeader(out.status)
			return
		}
		text, err := json.Marshal(out.body)
		if err != nil {
			refuse(w, err)
			return
		}
		if strictSDK.MatchString(r.UserAgent()) {
			text = older(text)
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(out.status)
		_, _ = w.Write(text)
	}
}

func (a *ask) answer(w http.ResponseWriter, op operation) (reply, error) {
	if op.open {
		return op.handle(a)
	}
	if err := a.read("/v1/whoami", nil, &a.who); err != nil {
		return reply{}, err
	}
	if id := a.PathValue("app"); id != "" {
		a.tenant = tenantOf(id)
		if a.tenant == "" || a.who.Tenant != "" && a.who.Tenant != a.tenant || !op.alone && !a.room.exists(a.tenant) {
			return reply{}, notFound("application")
		}
	}
	if a.Body != nil {
		most := 2*a.room.MaxEvent + a.room.Bounds.Slack // a raw payload may be escaped as a JSON string
		body, err := io.ReadAll(http.MaxBytesReader(w, a.Body, most))
		if err != nil {
			if _, large := errors.AsType[*http.MaxBytesError](err); large {
				return reply{}, &fault{status: http.StatusRequestEntityTooLarge, code: "payload_too_large", detail: "The body is too large."}
			}
			return reply{}, &fault{status: http.StatusBadRequest, code: "bad_request", detail: "The body did not arrive whole."}
		}
		a.body = body
	}
	return op.handle(a)
}
