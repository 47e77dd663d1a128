package main

import (
	"bytes"
	"encoding/json"
	"strconv"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/cli"
)

var inbox = resource[client.Request]{
	path: "/v1/inbox", id: "REQUEST_ID", filters: cli.InboxFilters, asks: cli.OfTenant, fills: mostPages,
	head: []string{"REQUEST", "OUTCOME", "TYPE", "KEY", "SOURCE", "BYTES", "RECEIVED", "WHY"},
	row:  inboxRow, view: inboxView,
	verbs: []verb{
		{"get", "Show a request: how it arrived, its verification, and its dedupe key", ""},
		{"list", "List requests to sources, the newest first: accepted, unverified, conflict or refused",
			"grapnel inbox list --source src_… --outcome unverified\ngrapnel inbox list --since 6h"},
	},
}

// mostPages limits the requests that fill one page. Where most events were published, the server's
// pages are short: it looks at a number of events and finds few requests among them.
const mostPages = 25

func (s *session) inboxCommand() *cobra.Command {
	return group("inbox", "Look at requests to sources", inbox.commands(s)...)
}

func inboxRow(r reader, q *client.Request) []string {
	return []string{q.ID, string(q.Outcome), q.Type, q.Key, named(q.SourceName, q.SourceID), strconv.Itoa(q.Size),
		r.Time(&q.ReceivedAt), q.Reason}
}

func inboxView(r reader, q *client.Request) cli.View {
	known := ""
	if q.KnownBy != nil {
		known = string(q.KnownBy.By) + " " + q.KnownBy.Value
	}
	checks := make([][]string, len(q.Checks))
	for i, check := range q.Checks {
		result := "passed"
		if !check.Passed {
			result = "failed"
		}
		checks[i] = []string{result, check.Text}
	}
	headers := make([][]string, len(q.Headers))
	for i, h := range q.Headers {
		headers[i] = []string{h.Name, h.Value}
	}
	return object(q.ID, q.JSON(), [][]string{
		{"request", q.ID}, {"outcome", string(q.Outcome)}, {"why", q.Reason}, {"event", q.EventID}, {"type", q.Type}, {"key", q.Key},
		{"source", q.SourceID}, {"tenant", q.Tenant}, {"received", r.Time(&q.ReceivedAt)}, {"from", q.Remote},
		{"request line", q.Method + " " + q.Path}, {"dedupe by", known},
	}, cli.Part{Title: "How it was verified", Rows: checks}, cli.Part{Title: "Headers", Rows: headers},
		cli.Part{Title: "Body", Rows: readable(q.Content())})
}

// mostLines limits the lines of a body that are shown to people; programs get the whole body.
const mostLines = 60

// readable is a body as rows of a table. JSON is indented; of a body that is not text, the size is
// shown.
func readable(body []byte) [][]string {
	var out bytes.Buffer
	switch {
	case len(body) == 0:
		return [][]string{{"(empty)"}}
	case json.Indent(&out, body, "", "  ") == nil:
	case utf8.Valid(body):
		out.Reset()
		out.Write(body)
	default:
		return [][]string{{strconv.Itoa(len(body)) + " bytes that are not text; -o json has them"}}
	}
	var rows [][]string
	for line := range bytes.Lines(out.Bytes()) {
		if len(rows) == mostLines {
			return append(rows, []string{"… cut here; -o json has the whole body"})
		}
		rows = append(rows, []string{string(bytes.TrimRight(line, "\r\n"))})
	}
	return rows
}
