package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/grapnelhq/grapnel/client"
)

// streamed is the number of events that each reader of a stream must get.
const streamed = 10

// readers are the clients of server-sent events. Each has a queue of the same name.
var readers = map[string]string{"httpx-sse": "Python", "sseclient-py": "Python", "eventsource": "Node"}

// streams lets clients of server-sent events read a queue through a cut of the connection.
func (l *lab) streams(ctx context.Context, s *server) ([]section, error) {
	names := slices.Sorted(maps.Keys(readers))
	for _, name := range names {
		if err := s.Do(ctx, http.MethodPost, "/v1/queues", nil, map[string]any{"name": name, "event_types": []string{"interop.streamed"},
			"lease": "10m"}, nil); err != nil {
			return nil, err
		}
	}
	for n := range streamed {
		if _, err := s.Publish(ctx, client.NewEvent{Type: "interop.streamed",
			Data: json.RawMessage(`{"n":` + strconv.Itoa(n) + `}`)}); err != nil {
			return nil, err
		}
	}
	// seen is a script's report about one client. Again and Resumed are two ways to tell that the
	// server received the client's position.
	type seen struct {
		Settled []int `json:"settled"`
		Again   []int `json:"again"`
		Resumed bool  `json:"resumed"`
	}
	job := map[string]any{"server": s.base, "key": adminKey, "count": streamed}
	all, ended := map[string]seen{}, map[string]string{}
	for _, language := range []string{"Python", "Node"} {
		// A client that waits in vain is ended. That fails its rows and not the rest of the page.
		if err := l.script(ctx, strings.ToLower(language), "stream", job, &all); err != nil {
			ended[language] = err.Error()
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	out := section{title: "Streams", about: fmt.Sprintf(
		"Server-sent events of a queue: the connection is cut after six of %d events, and the client reconnects with `Last-Event-ID`. Each event must arrive,\n"+
			"and events sent after that id must come again at once, although their leases last ten minutes.", streamed)}
	for _, name := range names {
		got := all[name]
		slices.Sort(got.Settled)
		distinct := slices.Compact(slices.Clone(got.Settled))
		r := row{library: readers[name] + " `" + name + "`", version: l.version(strings.ToLower(readers[name]), name),
			what:   "resume with `Last-Event-ID`",
			result: fmt.Sprintf("%d of %d", len(distinct), streamed)}
		r.failed = len(distinct) != streamed || len(got.Settled) != streamed || len(got.Again) != 2 && !got.Resumed
		if r.failed {
			r.result += fmt.Sprintf(": %+v %s", got, ended[readers[name]])
		}
		out.rows = append(out.rows, r)
	}
	return []section{out}, nil
}

// metrics reads /metrics with Prometheus' library.
func (l *lab) metrics(ctx context.Context, s *server) ([]section, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.base+"/metrics", nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+adminKey)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return nil, err
	}
	var found struct {
		Families int      `json:"families"`
		Odd      []string `json:"odd"`
	}
	if err := l.script(ctx, "python", "metrics", string(text), &found); err != nil {
		return nil, err
	}
	one := row{library: "Python `prometheus_client`", version: l.version("python", "prometheus_client"), what: "parses `/metrics`",
		result: "every family has a help, a type and samples", failed: found.Families < 20 || len(found.Odd) > 0}
	if one.failed {
		one.result = fmt.Sprintf("%d families, without help, type or samples: %s", found.Families, strings.Join(found.Odd, ", "))
	}
	rows := append([]row{one}, promtool(ctx, string(text))...)
	return []section{{title: "Metrics", about: "Of a server that has just sent and received all of the above.", rows: rows}}, nil
}

// promtool checks /metrics with Prometheus' own tool, if it is installed. The tool ends with 3 if
// it would choose other names.
func promtool(ctx context.Context, text string) []row {
	path, err := exec.LookPath("promtool")
	if err != nil {
		return nil
	}
	said, _ := exec.CommandContext(ctx, path, "--version").Output() // without it, the row has no version
	r := row{library: "`promtool check metrics`", version: string(regexp.MustCompile(`\d+(\.\d+)+`).Find(said)), what: "checks `/metrics`",
		result: "finds nothing"}
	cmd := exec.CommandContext(ctx, path, "check", "metrics")
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil || len(out) > 0 {
		r.failed, r.result = true, fmt.Sprintf("%s: %v", out, err)
	}
	return []row{r}
}
