package api

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/promise"
)

// enter makes the http.Handler of a route.
func (a *api) enter(rt *route) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		c := &call{Request: r, route: rt, now: a.Clock(), answering: answering{ResponseWriter: w}, bounds: &a.Bounds,
			links: &a.links, ids: a.Engine.IDs(), cursors: a.cursors}
		c.query.bounds = c.bounds
		c.id = requestID(r.Header)
		if c.id == "" {
			c.id = a.newID("req", c.now)
		}
		c.answering.set("X-Request-Id", c.id)
		c.answering.set("X-Content-Type-Options", "nosniff")
		c.answering.set("Cache-Control", "no-store")
		defer a.recovered(c)
		if rt.bare != nil {
			rt.bare(a, w, c)
			return
		}
		if err := a.admit(c); err != nil {
			ans := a.refuse(c, err)
			a.slow(c.answering.ResponseWriter, "", ans.status)
			ans.write(&c.answering, c.Request)
			if ans.status >= 500 { // a stranger's wrong keys must not count as good answers
				a.measure(c, &ans)
			}
			return
		}
		defer a.release(c)
		defer a.whileAllowed(c)()
		ans, err := a.through(c)
		if err != nil && c.Context().Err() != nil {
			err = cmp.Or(a.authenticate(c), err) // the key's right ended, or the caller left
		}
		if err != nil {
			ans = a.refuse(c, err)
			a.slow(c.answering.ResponseWriter, cmp.Or(c.key.Tenant, c.key.ID), ans.status)
		}
		ans.write(&c.answering, c.Request)
		a.measure(c, &ans)
	}
}

// measure judges the answer to a publish by the promise of availability: it failed if the fault is
// the server's, or if a good answer took too long after the body had come. A refusal of a bad
// request is an answer as promised; of a caller who left there is no answer to judge.
func (a *api) measure(c *call, ans *answer) {
	if c.Context().Err() != nil || ans.busy {
		return
	}
	status, took := ans.status, a.Clock().Sub(c.now)
	switch publish := c.route.scope == grapnel.ScopePublish && c.Method == http.MethodPost; {
	case publish && a.Published != nil:
		a.Published(status < 500 && (status >= 300 || took <= promise.AnswerWithin), took, ans.code())
	case !publish && a.Served != nil && c.route.scope != "":
		a.Served(status < 500, took)
	}
}

// through takes an authenticated request through the stages that all routes share, in the order in
// which they may refuse it.
func (a *api) through(c *call) (answer, error) {
	if err := c.readQuery(); err != nil {
		return answer{}, err
	}
	if err := a.readBody(c); err != nil {
		return answer{}, err
	}
	if len(c.body) > 0 {
		if err := a.authenticate(c); err != nil { // the body may have taken half a minute to come
			return answer{}, err
		}
	}
	c.now = a.Clock()
	return a.onlyOnce(c, a.handle)
}

// readQuery reads the query of a route that has one. Probes and scrapers select nothing and add
// parameters of their own, so the queries of service routes are not looked at.
func (c *call) readQuery() error {
	if c.route.tag == serviceTag || c.route.tag == "" {
		return nil
	}
	if c.URL.RawQuery == "" && !slices.ContainsFunc(c.route.query, func(p param) bool { return p.required }) {
		return nil
	}
	return c.query.read(c.URL.RawQuery, c.route.query)
}

// handle is what remains once it is known that the request was not answered before.
func (a *api) handle(c *call) (answer, error) {
	if err := c.checkBody(); err != nil {
		return answer{}, err
	}
	if c.route.bound != nil && c.key.Tenant != "" {
		return answer{}, c.route.bound
	}
	return c.route.handle(a, c)
}

// requestID takes over the id that a caller or proxy gave the request, if it is one that can be
// written into a log.
func requestID(h http.Header) string {
	if id := h.Get("X-Request-Id"); grapnel.ValidID(id) {
		return id
	}
	return ""
}

// recovered keeps a panic in one request from ending the process: what a handler holds is its own,
// and the stores commit whole transactions or nothing.
func (a *api) recovered(c *call) {
	v := recover()
	if v == nil {
		return
	}
	if err, ok := v.(error); ok && errors.Is(err, http.ErrAbortHandler) {
		panic(v)
	}
	a.Log.Error("panic", slog.String("request_id", c.id), slog.String("route", c.route.path),
		slog.String("panic", fmt.Sprint(v)), slog.String("stack", string(debug.Stack())))
	ans := answer{status: http.StatusInternalServerError, body: encode(c.problem(nil))}
	ans.write(&c.answering, c.Request)
}
