package trace

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/grapnelhq/grapnel/internal/base/backoff"
)

// export sends a batch, and repeats it while the collector is away or overloaded. Meanwhile the
// queue fills, and then spans are dropped.
func (t *Tracer) export(ctx context.Context, batch []Span) {
	for try := 1; ; try++ {
		again, pause, err := t.send(ctx, batch)
		switch {
		case err != nil && ctx.Err() != nil:
			t.last(ctx, batch)
			return
		case err == nil || !again || try >= t.bounds.Tries:
			t.done(len(batch), err)
			return
		}
		t.note(err)
		steps := backoff.Steps{First: t.bounds.First, Longest: t.bounds.Pause}
		if !backoff.Wait(ctx.Done(), max(steps.After(try), min(pause, t.bounds.Pause))) {
			t.last(ctx, batch)
			return
		}
	}
}

// last makes the last attempt for a batch after ctx has ended, and for those in the queue.
func (t *Tracer) last(ctx context.Context, batch []Span) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.bounds.Last)
	defer cancel()
	for ; len(batch) > 0; batch = t.rest() {
		_, _, err := t.send(ctx, batch)
		t.done(len(batch), err)
	}
}

// done counts spans that are sent or, with an error, lost.
func (t *Tracer) done(spans int, err error) {
	if err != nil {
		t.failed.Add(int64(spans))
		t.note(err)
		return
	}
	t.exported.Add(int64(spans))
	if t.failing {
		t.failing = false
		t.o.Log.Info("exporting spans works again")
	}
}

// note logs the first of several failures in a row.
func (t *Tracer) note(err error) {
	if !t.failing {
		t.failing = true
		t.o.Log.Warn("exporting spans failed; spans are dropped while the queue is full", "err", err)
	}
}

// answerLimit is how much of a collector's answer is read.
const answerLimit = 64 << 10

// send makes one request. again: the request may succeed later, as OTLP says by status; pause is
// the time that the collector asks for.
func (t *Tracer) send(ctx context.Context, batch []Span) (again bool, pause time.Duration, err error) {
	encode, kind := encodeProto, "application/x-protobuf"
	if t.o.JSON {
		encode, kind = encodeJSON, "application/json"
	}
	body, err := encode(&t.resource, batch)
	if err != nil {
		return false, 0, err
	}
	if t.o.Gzip {
		var small bytes.Buffer
		w := gzip.NewWriter(&small)
		_, _ = w.Write(body) // writing to memory never fails
		_ = w.Close()
		body = small.Bytes()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, t.o.Endpoint.String(), bytes.NewReader(body))
	if err != nil {
		return false, 0, err
	}
	for name, value := range t.o.Headers {
		req.Header.Set(name, value)
	}
	req.Header.Set("Content-Type", kind)
	if t.o.Gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	req.Header.Set("User-Agent", "Grapnel/"+t.resource.version)
	resp, err := t.client.Do(req)
	if err != nil {
		// The URL in it may have a credential.
		if wrapped, ok := errors.AsType[*url.Error](err); ok {
			err = wrapped.Err
		}
		return true, 0, err
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, answerLimit))
	switch code := resp.StatusCode; code {
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After"))
		return true, time.Duration(max(seconds, 0)) * time.Second, fmt.Errorf("the collector answers %d", code)
	default:
		if code < 200 || code > 299 {
			return false, 0, fmt.Errorf("the collector answers %d", code)
		}
		return false, 0, nil
	}
}

// Collectors are the metrics to register.
func (t *Tracer) Collectors() []prometheus.Collector {
	if t == nil {
		return nil
	}
	return []prometheus.Collector{spans{t, prometheus.NewDesc("grapnel_trace_spans_total",
		"Spans, by what became of them: exported, dropped because the queue was full, failed because the collector refused them or was away.",
		[]string{"result"}, nil)}}
}

// spans counts spans by what became of them.
type spans struct {
	tracer *Tracer
	desc   *prometheus.Desc
}

// Describe sends the description of the metric.
func (s spans) Describe(to chan<- *prometheus.Desc) { to <- s.desc }

// Collect sends the current counts.
func (s spans) Collect(to chan<- prometheus.Metric) {
	for result, n := range map[string]int64{"exported": s.tracer.exported.Load(), "dropped": s.tracer.dropped.Load(),
		"failed": s.tracer.failed.Load()} {
		to <- prometheus.MustNewConstMetric(s.desc, prometheus.CounterValue, float64(n), result)
	}
}

// Run exports spans until ctx ends. Then it makes one attempt for the spans that are queued, and
// returns.
func (t *Tracer) Run(ctx context.Context) {
	if t == nil {
		return
	}
	defer t.client.CloseIdleConnections()
	for ctx.Err() == nil {
		if batch := t.gather(ctx); len(batch) > 0 {
			t.export(ctx, batch)
		}
	}
	t.last(ctx, t.rest())
}
