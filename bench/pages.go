//go:build linux

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/face/web"
)

// looker asks for every page of the dashboard, many times.
type looker struct {
	d       *dashboard
	g       *server
	b       *browser
	ids     map[string][]string // of objects in the store, by the path of their list
	lane    *string             // a stuck key; nil: there is none
	largest int
}

// address is one that is asked for; a list goes on with its next page each time.
type address struct{ name, path string }

// collect finds ids of everything that has a page of its own.
func (l *looker) collect(ctx context.Context) error {
	l.ids = map[string][]string{}
	for list, queries := range map[string][]string{
		"/deliveries":   {"status=failed&limit=1", "status=delivered&limit=1", "status=pending&limit=1", "status=held&limit=1"},
		"/endpoints":    {"limit=8"},
		"/replays":      {"limit=2"},
		"/alerts":       {"limit=2"},
		"/alert-rules":  {""},
		"/incidents":    {""},
		"/issues":       {"limit=2"},
		"/events":       {"limit=2", "type=order.created&limit=1"},
		"/sources":      {"limit=2"},
		"/inbox":        {"outcome=unverified&limit=1", "outcome=accepted&limit=1"},
		"/queues":       {"limit=2"},
		"/channels":     {"limit=2"},
		"/policies":     {"limit=20"}, // presets come first
		"/dead-letters": {"limit=3"},
	} {
		for _, query := range queries {
			var page struct {
				Data []struct {
					ID   string `json:"id"` // null: a preset
					Name string `json:"name"`
				} `json:"data"`
			}
			if err := l.g.send(ctx, http.MethodGet, "/v1"+list+"?"+query, nil, &page); err != nil {
				return err
			}
			for _, thing := range page.Data {
				l.ids[list] = append(l.ids[list], cmp.Or(thing.ID, thing.Name))
			}
		}
	}
	l.ids["/customers"] = worldTenants[:1]
	return l.stuck(ctx)
}

// stuck finds a stuck key, whose page is at its endpoint's id and the key.
func (l *looker) stuck(ctx context.Context) error {
	var page struct {
		Data []struct {
			Key  string `json:"key"`
			Head struct {
				Endpoint string `json:"endpoint_id"`
			} `json:"head"`
		} `json:"data"`
	}
	if err := l.g.send(ctx, http.MethodGet, "/v1/lanes?limit=1", nil, &page); err != nil || len(page.Data) == 0 {
		return err
	}
	l.lane = &page.Data[0].Key
	l.ids["/ordering-keys"] = []string{page.Data[0].Head.Endpoint}
	return nil
}

// searches are what people look for: much, little and nothing, by every condition, and by several.
func (l *looker) searches(now time.Time) []string {
	ep := l.ids["/endpoints"][0]
	hour := now.Add(-40 * 24 * time.Hour).Truncate(time.Hour)
	span := "from:" + hour.Format(time.RFC3339) + " to:" + hour.Add(time.Hour).Format(time.RFC3339)
	return []string{
		"status:delivered", "status:failed", "status:waiting", "status:held", "status:pending", "status:skipped", "status:failed,skipped",
		"status:dropped", "error:timeout", "error:dns", "error:tls", "code:5xx", "code:503", "code:202", "code:418", "reason:exhausted",
		"reason:expired", "reason:rejected", "type:order.*", "type:rare.one", "type:none.such", "key:key_77", "key:absent", "tenant:other",
		"tenant:none", "endpoint:" + ep, "since:6h", "since:7d", "since:100d", span, span + " status:failed", "since:7d status:failed",
		"since:100d error:dns", "endpoint:" + ep + " status:failed", "endpoint:" + ep + " error:dns", "endpoint:" + ep + " code:202",
		"endpoint:" + ep + " type:rare.one", "endpoint:" + ep + " key:key_77", "endpoint:" + ep + " key:absent", "endpoint:" + ep + " " + span,
		"endpoint:" + ep + " tenant:acme", "type:order.* status:failed", "type:rare.one status:failed", "type:rare.one error:timeout",
		"type:none.such status:failed", "type:order.* code:202", "type:order.* error:dns", "type:user.* reason:expired", "key:key_101 status:failed",
		"key:key_101 error:dns", "key:key_101 type:none.such", "tenant:acme status:failed", "tenant:acme error:dns", "tenant:acme type:rare.one",
		"tenant:acme key:key_101", "tenant:acme error:tls", "tenant:acme code:202", "tenant:acme type:order.* code:202 since:100d",
		"status:delivered code:202", "status:delivered error:timeout", "status:delivered type:rare.one", "status:delivered key:key_77",
		"status:delivered endpoint:" + ep + " type:rare.one", "status:failed type:order.* reason:expired error:dns", "cus_00077776", "absent",
		"status:failed absent", "type:order.* absent", "endpoint:" + ep + " absent", "key:key_77 absent",
	}
}

// typed are what typing a name asks for: three letters in the palette or in the box of a list, and
// Enter with the name of an endpoint, a key, a type, a source and a tenant, or with none of these.
func (l *looker) typed() (all []string) {
	for _, list := range []string{"/complete?name=", "/endpoints?q=", "/sources?q=", "/queues?q=", "/policies?q=", "/keys?q=",
		"/audit?q="} {
		for _, typed := range []string{"rec", "number", "que", "key", "xyz"} {
			all = append(all, list+typed)
		}
	}
	for _, list := range []string{"/deliveries?q=", "/events?q=", "/dead-letters?q="} {
		for _, typed := range []string{"key_77", "rare.one", "acme", "absent", "77"} {
			all = append(all, list+typed)
		}
	}
	return append(all, "/complete?word=endpoint:rec", "/complete?word=source:sou", "/complete?word=type:ord", "/deliveries?q=source:source%201")
}

// addresses are the requests: every row of the pages, with its ids and searches.
func (l *looker) addresses(now time.Time) (all []address) {
	add := func(name, path string, query url.Values) {
		if len(query) > 0 {
			name, path = name+"?"+decoded(query), path+"?"+query.Encode()
		}
		if strings.Contains(name, l.d.only) {
			all = append(all, address{name, path})
		}
	}
	for _, pattern := range web.Paths() {
		path, page := strings.CutPrefix(pattern, http.MethodGet+" ")
		if !page {
			continue
		}
		path = strings.TrimSuffix(path, "{$}")
		list, rest, one := strings.Cut(path, "/{id}")
		if !one {
			add(path, path, nil)
		} else {
			for i, id := range l.ids[list] {
				if list == "/policies" && rest != "" && !strings.HasPrefix(id, grapnel.PolicyPrefix+"_") {
					continue // a preset cannot be changed
				}
				var query url.Values
				if list == "/ordering-keys" {
					query = url.Values{"key": {*l.lane}}
				}
				add(fmt.Sprintf("%s/%d%s", list, i+1, rest), list+"/"+url.PathEscape(id)+rest, query)
			}
		}
		switch path {
		case "/deliveries", "/dead-letters", "/events", "/replays/new":
			for _, q := range l.searches(now) {
				add(path, path, url.Values{"q": {q}})
			}
		case "/stats":
			for _, by := range []string{"endpoint", "tenant", "reason", "hour", "day"} {
				add(path, path, url.Values{"by": {by}})
			}
			add(path, path, url.Values{"by": {"type"}, "since": {"30d"}})
			add(path, path, url.Values{"by": {"day"}, "since": {"90d"}, "endpoint": {l.ids["/endpoints"][0]}})
		case "/replays":
			add(path, path, url.Values{"active": {"1"}})
			add(path, path, url.Values{"endpoint": {l.ids["/endpoints"][0]}})
		case "/inbox":
			for _, outcome := range []string{"accepted", "unverified", "conflict", "refused"} {
				add(path, path, url.Values{"outcome": {outcome}})
				add(path, path, url.Values{"outcome": {outcome}, "source": {l.ids["/sources"][0]}})
			}
		}
	}
	for _, path := range l.typed() {
		add("search: "+path, path, nil)
	}
	letters := url.Values{"id": l.ids["/dead-letters"]}
	add("/replays/new", "/replays/new", letters)
	return all
}

func decoded(q url.Values) string {
	text, err := url.QueryUnescape(q.Encode())
	if err != nil {
		return q.Encode()
	}
	return text
}

// look asks for every address and says which limits are exceeded.
func (l *looker) look(ctx context.Context, out io.Writer) (missed []string, err error) {
	if err := l.collect(ctx); err != nil {
		return nil, err
	}
	_, _ = fmt.Fprintf(out, "each page is asked %d times, one after the other; a list goes on with its next page. Times in ms\n\n"+
		"%-70s %8s %8s %8s %8s %8s\n", l.d.times, "page", "p50", "p95", "p99", "server", "bytes")
	var every []float64
	for _, a := range l.addresses(time.Now().UTC()) {
		r, err := l.ask(ctx, a)
		if err != nil {
			return missed, err
		}
		every = append(every, r.took...)
		_, _ = fmt.Fprintf(out, "%-70.70s %8.1f %8.1f %8.1f %8.1f %8d\n", a.name, r.part(50), r.part(95), r.part(99), r.used, r.size)
		if r.part(95) > float64(l.d.within.Microseconds())/1000 {
			missed = append(missed, fmt.Sprintf("%s takes %.1f ms at p95, limit %v", a.name, r.part(95), l.d.within))
		}
		if r.size > l.d.page {
			missed = append(missed, fmt.Sprintf("%s has %d bytes of HTML, limit %d", a.name, r.size, l.d.page))
		}
		l.largest = max(l.largest, r.size)
	}
	slices.Sort(every)
	all := looked{answers: answers{took: every}}
	assets, err := l.b.compressed(ctx)
	if err != nil {
		return missed, err
	}
	if assets > l.d.asset {
		missed = append(missed, fmt.Sprintf("assets have %d bytes compressed, limit %d", assets, l.d.asset))
	}
	_, _ = fmt.Fprintf(out, "\n%-70s %8.1f %8.1f %8.1f %8s %8d\n%d assets have %d bytes compressed by gzip\n", "all pages", all.part(50),
		all.part(95), all.part(99), "", l.largest, len(l.b.assets), assets)
	return missed, nil
}

// looked is what an address came to.
type looked struct {
	answers
	used float64 // ms of a processor in the server, on average
	size int     // bytes of the largest
}

func (l *looker) ask(ctx context.Context, a address) (r looked, err error) {
	before, err := l.g.cpu()
	if err != nil {
		return r, err
	}
	path := a.path
	for range l.d.times {
		s, err := l.b.page(ctx, path)
		if err != nil {
			return r, err
		}
		r.took = append(r.took, float64(s.took.Microseconds())/1000)
		r.size = max(r.size, len(s.body))
		if path = s.next(); path == "" {
			path = a.path
		}
	}
	after, err := l.g.cpu()
	r.used = float64((after - before).Microseconds()) / 1000 / float64(l.d.times)
	slices.Sort(r.took)
	return r, err
}
