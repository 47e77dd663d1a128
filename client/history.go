package client

import (
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/url"
	"time"

	"github.com/grapnelhq/grapnel/wire"
)

// The objects of statistics.
type (
	Stats = wire.Stats // counts finished deliveries and attempts in a period
	// Bucket is a part of that time. Parts in which nothing happened are left out.
	Bucket = wire.Bucket
	Totals = wire.Totals // counts deliveries when they end and attempts when they are recorded
	// Group has the figures of an event type, an endpoint, a tenant, an hour or a day.
	Group        = wire.Group
	Figures      = wire.Figures      // the totals of a group and what follows from them
	AttemptCount = wire.AttemptCount // a number of deliveries that needed the same number of attempts
	// Reason counts attempts of a class or finished deliveries with a reason code.
	Reason  = wire.Reason
	Latency = wire.Latency // percentiles; nil when no attempt got an answer
	// Overview is whether anything is wrong, and whether it will get worse, in numbers.
	Overview         = wire.Overview
	OverviewEndpoint = wire.OverviewEndpoint // an endpoint that needs attention
)

// StatsFilter selects totals; the zero value is the last day, by the hour, of everything.
type StatsFilter struct {
	Endpoint string // empty: all together
	Tenant   string // for all together
	From, To time.Time
	Bucket   string // hour or day, or minute with Endpoint and without From and To; empty: by how long the time is

	// By is type, endpoint, tenant, reason, hour or day: the answer then has figures by group, of at
	// most Groups types, endpoints or tenants. It replaces Bucket. Type goes only with it.
	By     string
	Type   string
	Groups int // 0: the server's default
}

// Stats counts deliveries by outcome, purged ones included.
func (c *Client) Stats(ctx context.Context, f StatsFilter) (*Stats, error) {
	path, q := "/v1/stats", query("tenant", f.Tenant, "bucket", f.Bucket, "from", f.From, "to", f.To)
	if f.By != "" {
		maps.Copy(q, query("by", f.By, "endpoint", f.Endpoint, "type", f.Type, "groups", f.Groups))
	} else if f.Endpoint != "" {
		path = at("/v1/endpoints", f.Endpoint, "stats")
		q.Del("tenant")
	}
	return get[Stats](ctx, c, path, q)
}

// Overview counts endpoints by health, pending deliveries by state, dead letters and scheduled
// attempts. An empty tenant means all that the key may see.
func (c *Client) Overview(ctx context.Context, tenant string) (*Overview, error) {
	return get[Overview](ctx, c, "/v1/overview", query("tenant", tenant))
}

// DeadLetters lists deliveries that failed, were not discarded and not delivered again with
// success, the newest first. The filter's Status is not used.
func (c *Client) DeadLetters(ctx context.Context, f DeliveryFilter) (*Page[Delivery], error) {
	return get[Page[Delivery]](ctx, c, "/v1/dead-letters", f.everywhere(true))
}

// Note replaces the note on a finished delivery; an empty one removes it.
func (c *Client) Note(ctx context.Context, id, note string) (*Delivery, error) {
	changes := map[string]any{"note": note}
	if note == "" {
		changes["note"] = nil
	}
	return patch[Delivery](ctx, c, at("/v1/deliveries", id), nil, changes)
}

// Discard puts a dead letter away. That it failed stays on record.
func (c *Client) Discard(ctx context.Context, id, reason string) (*Delivery, error) {
	return post[Delivery](ctx, c, at("/v1/deliveries", id, "discard"), map[string]string{"reason": reason})
}

// everywhere is the filter as a query of a path that names no endpoint.
func (f DeliveryFilter) everywhere(deadLetters bool) url.Values {
	q := f.query()
	maps.Copy(q, query("endpoint", f.Endpoint, "replayed", deadLetters && f.Replayed))
	if deadLetters {
		q.Del("status")
	}
	return q
}

// The forms of an export.
const (
	JSONLines = "jsonl"
	CSV       = "csv"
)

// ExportDeliveries writes all deliveries that the filter selects, the newest first, as the server
// sends them. Limit and Cursor are not used, and only the context limits its duration. After an
// error, the output is incomplete.
func (c *Client) ExportDeliveries(ctx context.Context, f DeliveryFilter, format string, out io.Writer) error {
	return c.export(ctx, "/v1/deliveries/export", f.everywhere(false), format, out)
}

// ExportDeadLetters does the same for dead letters; the filter's Status is not used.
func (c *Client) ExportDeadLetters(ctx context.Context, f DeliveryFilter, format string, out io.Writer) error {
	return c.export(ctx, "/v1/dead-letters/export", f.everywhere(true), format, out)
}

func (c *Client) export(ctx context.Context, path string, q url.Values, format string, out io.Writer) error {
	q.Del("limit")
	q.Del("cursor")
	q.Set("format", format)
	return c.download(ctx, path, q, out)
}

// ExportAudit writes all audit entries to out, the oldest first, as lines that are linked by
// hashes. With the number and the hash of the last line of an earlier export it writes the later
// entries, and continues its chain; 0 and an empty hash: from the beginning.
func (c *Client) ExportAudit(ctx context.Context, after int64, hash string, out io.Writer) error {
	return c.download(ctx, "/v1/audit/export", query("after", after, "prev", hash), out)
}

// download writes an answer that may be long to out.
func (c *Client) download(ctx context.Context, path string, q url.Values, out io.Writer) error {
	resp, err := c.send(ctx, call{method: http.MethodGet, path: path, query: q})
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= 300 {
		body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
		if err != nil {
			return &Unreachable{Server: c.Server(), Err: cause(ctx, err)}
		}
		return problem(resp, body)
	}
	to := &sink{to: out}
	if _, err := io.Copy(to, resp.Body); err != nil {
		if to.err != nil {
			return to.err
		}
		return &Unreachable{Server: c.Server(), Err: errors.Join(errBrokenOff, cause(ctx, err))}
	}
	return nil
}

var errBrokenOff = errors.New("the export broke off; the output is incomplete")

// sink separates errors of writing from errors of reading.
type sink struct {
	to  io.Writer
	err error
}

func (s *sink) Write(p []byte) (int, error) {
	n, err := s.to.Write(p)
	s.err = err
	return n, err
}
