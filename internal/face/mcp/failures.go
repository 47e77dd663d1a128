package mcp

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel/client"
)

type failuresInput struct {
	Endpoint string   `json:"endpoint,omitempty" jsonschema:"id or name of an endpoint; empty: all endpoints"`
	Hours    int      `json:"hours,omitempty" jsonschema:"failures of the last hours; 24 if not given"`
	States   []string `json:"states,omitempty" jsonschema:"only issues in these states: open, acknowledged, muted, resolved"`
	Tenant   string   `json:"tenant,omitempty" jsonschema:"only of this tenant, for an API key without one"`
	Limit    int      `json:"limit,omitempty" jsonschema:"at most this many issues; 20 if not given"`
	Cursor   string   `json:"cursor,omitempty" jsonschema:"continue after the answer that gave this cursor"`
}

type failuresFound struct {
	Hours   int         `json:"hours"`
	Issues  []issueFact `json:"issues,omitempty" jsonschema:"failed attempts that look alike, the last failure first"`
	Causes  *causesFact `json:"causes,omitempty" jsonschema:"of the endpoint, if one was given"`
	Next    string      `json:"next,omitempty" jsonschema:"cursor of the next rows"`
	Omitted int         `json:"omitted,omitempty" jsonschema:"rows that were left out to keep the answer short"`
}

// failures lists the issues of the last hours. The API gives the issue that failed last first, so
// an older one ends the list.
func failures(ctx context.Context, c *call, in failuresInput) (*failuresFound, error) {
	out := &failuresFound{Hours: in.Hours}
	if in.Hours == 0 {
		out.Hours = 24
	}
	if out.Hours < 0 {
		return nil, wrong("hours", "%d is below 1", in.Hours)
	}
	filter := client.IssueFilter{States: in.States, Tenant: in.Tenant, Limit: c.rows(in.Limit), Cursor: in.Cursor}
	if in.Endpoint != "" {
		var err error
		if filter.Endpoint, err = c.endpoint(ctx, "endpoint", in.Endpoint, in.Tenant); err != nil {
			return nil, err
		}
	}
	page, err := c.Client.Issues(ctx, filter)
	if err != nil {
		return nil, err
	}
	out.Next = page.Next
	from := c.Clock().Add(-time.Duration(out.Hours) * time.Hour)
	for i := range page.Data {
		if page.Data[i].LastSeen.Before(from) {
			out.Next = ""
			break
		}
		out.Issues = append(out.Issues, c.issue(&page.Data[i]))
	}
	if filter.Endpoint != "" && in.Cursor == "" {
		causes, err := c.Client.Causes(ctx, filter.Endpoint)
		if err != nil {
			return nil, err
		}
		f := c.causes(causes)
		out.Causes = &f
	}
	return out, nil
}

func (f *failuresFound) say(p *prose) {
	if len(f.Issues) == 0 {
		p.say("No issue has failed in the last %d hours.", f.Hours)
	}
	for i := range f.Issues {
		f.Issues[i].say(p)
	}
	if f.Causes != nil {
		f.Causes.say(p)
	}
	p.left(f.Omitted, f.Next)
}

func (f *failuresFound) shorten() bool {
	f.Next = "" // it would skip the rows that are left out
	shorter := halve(&f.Issues, &f.Omitted)
	if f.Causes != nil {
		shorter = f.Causes.shorten() || shorter
	}
	return shorter
}
