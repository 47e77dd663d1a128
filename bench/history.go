//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// history is the second measurement: how long the API takes to answer with many finished
// deliveries.
//
//	go run ./bench history -n 10000000
type history struct {
	n, endpoints, pages int
	within              time.Duration
	dir, binary         string
}

// historyMain is the command.
func historyMain(ctx context.Context, args []string, out io.Writer) int {
	var h history
	flags := flag.NewFlagSet("bench history", flag.ContinueOnError)
	flags.IntVar(&h.n, "n", 1_000_000, "finished deliveries, spread over a year")
	flags.IntVar(&h.endpoints, "endpoints", 20, "endpoints, half of them of another tenant")
	flags.IntVar(&h.pages, "pages", 40, "how often each question is asked; lists go on with the next page")
	flags.DurationVar(&h.within, "within", 100*time.Millisecond, "what the 95th percentile of each may take")
	flags.StringVar(&h.dir, "dir", "", "where the database is put; one that is there is asked as it is. Empty: a new directory below the current one, which is removed afterwards")
	flags.StringVar(&h.binary, "binary", "", "the grapnel binary; empty: it is built")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	slow, err := h.run(ctx, out)
	switch {
	case err != nil:
		return failed(err)
	case len(slow) > 0:
		_, _ = fmt.Fprintf(out, "above %v: %s\n", h.within, strings.Join(slow, ", "))
		return 1
	}
	return 0
}

// run fills a database unless one exists, asks, and reports the answers that took too long.
func (h *history) run(ctx context.Context, out io.Writer) (slow []string, err error) {
	if h.n < 1 || h.endpoints < 2 || h.pages < 1 {
		return nil, errors.New("n and pages are at least 1, endpoints at least 2")
	}
	s := settings{dir: h.dir, binary: h.binary, workers: 64, flags: []string{"--retention", "876000h"}}
	dir, d, remove, err := s.prepare("history", true)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, remove()) }()
	_, _ = fmt.Fprintf(out, "%s, %d cores; the database is on %s, where an fsync takes %v\n", runtime.Version(), runtime.NumCPU(),
		d.kind, d.sync.Round(time.Microsecond))
	path := filepath.Join(dir, "grapnel.db")
	_, err = os.Stat(path)
	fresh := os.IsNotExist(err)
	g, err := startServer(ctx, s, dir, nil)
	if err != nil {
		return nil, err
	}
	defer g.Stop()
	a := &asker{server: g, pages: h.pages}
	if fresh {
		for i := range h.endpoints {
			tenant := []string{"default", "other"}[i%2]
			err := a.server.send(ctx, http.MethodPost, "/v1/endpoints", map[string]any{"url": "http://127.0.0.1:9/", "tenant": tenant,
				"status": "paused"}, nil)
			if err != nil {
				return nil, err
			}
		}
	}
	if a.endpoints, err = a.list(ctx); err != nil {
		return nil, err
	}
	if len(a.endpoints) < 2 {
		return nil, errors.New("the database has fewer than two endpoints")
	}
	if fresh {
		g.Stop()
		if err := h.fill(ctx, path, a.endpoints, out); err != nil {
			return nil, err
		}
		if g, err = startServer(ctx, s, dir, nil); err != nil {
			return nil, err
		}
		defer g.Stop()
		a.server = g
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	_, _ = fmt.Fprintf(out, "%.1f GiB; each question is asked %d times, one after the other\n\n%-44s %6s %9s %9s %9s\n",
		float64(info.Size())/(1<<30), h.pages, "question", "shown",
		"p50 ms", "p95 ms", "slowest")
	for _, q := range a.questions(time.Now().UTC()) {
		r, err := a.ask(ctx, q)
		if err != nil {
			return nil, err
		}
		_, _ = fmt.Fprintf(out, "%-44s %6d %9.2f %9.2f %9.2f\n", q.name, r.shown, r.part(50), r.part(95), r.part(100))
		if r.part(95) > float64(h.within.Microseconds())/1000 {
			slow = append(slow, q.name)
		}
	}
	return slow, nil
}

func (h *history) fill(ctx context.Context, path string, to []placedEndpoint, out io.Writer) (err error) {
	s, config, err := openStore(ctx, path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	now := time.Now().UTC().Truncate(time.Second)
	p := &backlog{endpoints: to, n: h.n, from: now.Add(-365 * 24 * time.Hour), to: now}
	return p.write(ctx, config.Version, s, out)
}

// asker asks the API.
type asker struct {
	server    *server
	endpoints []placedEndpoint
	pages     int
}

// question is a request that is repeated.
type question struct {
	name, path string
	query      url.Values
	list       bool // each repetition asks for the next page
}

// questions are every list, its filters (some that match many, some that match few, some that match
// none), and the totals of a year.
func (a *asker) questions(now time.Time) (all []question) {
	one := a.endpoints[0].ID
	year, month := now.Add(-364*24*time.Hour).Format(time.RFC3339), now.Add(-30*24*time.Hour).Format(time.RFC3339)
	hour, half := now.Add(-180*24*time.Hour).Format(time.RFC3339), now.Add(-180*24*time.Hour+time.Hour).Format(time.RFC3339)
	lists := func(path string, queries ...string) {
		for _, q := range queries {
			values, _ := url.ParseQuery(q)
			all = append(all, question{name: strings.TrimSuffix(strings.TrimPrefix(path, "/v1/")+"?"+strings.ReplaceAll(q, one, "EP"), "?"),
				path: path, query: values, list: true})
		}
	}
	lists("/v1/deliveries", "", "status=delivered", "status=failed", "status=skipped", "status=pending", "status=held",
		"status=failed,skipped", "type=order.*", "type=rare.one",
		"type=none.such", "type=order.*&status=failed", "type=rare.one&status=failed", "key=key_77", "key=absent", "key=key_101&status=failed",
		"tenant=other",
		"tenant=other&status=failed", "tenant=none", "error_class=status_5xx", "error_class=dns", "error_class=tls", "error_class=none",
		"status_code=200",
		"status_code=204", "status_code=202", "status_code=418", "reason_code=exhausted", "reason_code=expired", "endpoint="+one,
		"endpoint="+one+"&status=failed",
		"endpoint="+one+"&error_class=dns", "endpoint="+one+"&status_code=202", "endpoint="+one+"&type=rare.one", "to="+month+"&status=failed",
		"from="+hour+"&to="+half, "from="+hour+"&to="+half+"&status=failed", "text=cus_00077776", "text=absent", "text=absent&status=failed",
		"status=failed&limit=500")
	lists("/v1/endpoints/"+one+"/deliveries", "", "status=failed", "status_code=204")
	lists("/v1/dead-letters", "", "endpoint="+one, "type=order.*", "reason_code=expired", "error_class=timeout", "tenant=other", "to="+month)
	lists("/v1/events", "", "type=order.*", "type=rare.one", "type=none.such", "key=key_77", "tenant=other", "tenant=none",
		"from="+hour+"&to="+half, "type=rare.one&tenant=other")
	lists("/v1/audit", "")
	lists("/v1/replays", "", "active=true")
	lists("/v1/endpoints", "")
	for i := range all {
		all[i].name = strings.ReplaceAll(all[i].name, one, "EP")
		for moment, name := range map[string]string{year: "YEAR", month: "MONTH", hour: "THEN", half: "LATER"} {
			all[i].name = strings.ReplaceAll(all[i].name, moment, name)
		}
	}
	single := func(name, path string, query string) {
		values, _ := url.ParseQuery(query)
		all = append(all, question{name: name, path: path, query: values})
	}
	single("stats of a year, by day", "/v1/stats", "from="+year+"&bucket=day")
	single("stats of a year, by day, one tenant", "/v1/stats", "tenant=other&from="+year+"&bucket=day")
	single("stats of a year, by day, one endpoint", "/v1/endpoints/"+one+"/stats", "from="+year+"&bucket=day")
	single("stats of 30 days, by hour", "/v1/stats", "from="+month+"&bucket=hour")
	single("stats of 30 days, by hour, one endpoint", "/v1/endpoints/"+one+"/stats", "from="+month+"&bucket=hour")
	single("an event", "/v1/events/backlog-4711", "")
	single("an endpoint", "/v1/endpoints/"+one, "")
	return all
}

// answers are the sorted durations, in milliseconds.
type answers struct {
	took  []float64
	shown int
}

// part is the duration that p percent of the answers do not exceed.
func (r *answers) part(p int) float64 { return r.took[max((len(r.took)*p+99)/100-1, 0)] }

// ask asks one question a.pages times; a list that ends begins again.
func (a *asker) ask(ctx context.Context, q question) (r answers, err error) {
	cursor := ""
	for range a.pages {
		query := url.Values{}
		maps.Copy(query, q.query)
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		var answer json.RawMessage
		began := time.Now()
		if err := a.server.send(ctx, http.MethodGet, q.path+"?"+query.Encode(), nil, &answer); err != nil {
			return r, err
		}
		r.took = append(r.took, float64(time.Since(began).Microseconds())/1000)
		if !q.list {
			continue
		}
		var page struct {
			Data []json.RawMessage `json:"data"`
			Next string            `json:"next"`
		}
		if err := json.Unmarshal(answer, &page); err != nil {
			return r, err
		}
		cursor, r.shown = page.Next, r.shown+len(page.Data)
	}
	slices.Sort(r.took)
	return r, nil
}

func (a *asker) list(ctx context.Context) ([]placedEndpoint, error) {
	var page struct {
		Data []placedEndpoint `json:"data"`
	}
	return page.Data, a.server.send(ctx, http.MethodGet, "/v1/endpoints?limit=500", nil, &page)
}

// failed prints an error and returns the status of the program.
func failed(err error) int {
	fmt.Fprintln(os.Stderr, "bench:", err)
	return 1
}
