package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/trace"
	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
)

// publisherTrace is the context of a span of a publisher.
const publisherTrace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// sentSpan is a span as a collector reads it.
type sentSpan struct {
	TraceID, SpanID, ParentSpanID, Name string
	Kind                                int
	Attributes                          []struct {
		Key   string
		Value struct{ StringValue, IntValue string }
	}
	Links  []struct{ TraceID, SpanID string }
	Status struct{ Message string }
}

func (s *sentSpan) has(key string) string {
	for _, a := range s.Attributes {
		if a.Key == key {
			return a.Value.StringValue + a.Value.IntValue
		}
	}
	return ""
}

// spanCollector takes spans.
type spanCollector struct {
	mu    sync.Mutex
	spans []sentSpan
	text  strings.Builder
}

// RoundTrip reads a batch.
func (c *spanCollector) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	var doc struct {
		ResourceSpans []struct{ ScopeSpans []struct{ Spans []sentSpan } }
	}
	if err := json.Unmarshal(body, &doc); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text.Write(body)
	c.spans = append(c.spans, doc.ResourceSpans[0].ScopeSpans[0].Spans...)
	return httptest.NewRecorder().Result(), nil
}

// take returns the spans since the last call, once they were exported.
func (c *spanCollector) take() []sentSpan {
	time.Sleep(time.Minute)
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	spans := c.spans
	c.spans = nil
	return spans
}

// notes are texts that handlers of several goroutines write down.
type notes struct {
	mu    sync.Mutex
	texts []string
}

func (n *notes) add(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.texts = append(n.texts, text)
}

// take returns the texts since the last call.
func (n *notes) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	texts := n.texts
	n.texts = nil
	return texts
}

// traced runs do with an engine that exports its spans; on says whether there is a collector.
func traced(t *testing.T, on bool, do func(*bench, *spanCollector, *bytes.Buffer)) {
	synctest.Test(t, func(t *testing.T) {
		c, log := &spanCollector{}, &bytes.Buffer{}
		settings := trace.Settings{JSON: true, Sampler: trace.Sampler{Ratio: 1}}
		if on {
			settings.Endpoint = &url.URL{Scheme: "http", Host: "collector.example", Path: "/v1/traces"}
		}
		tracer := trace.New(trace.Options{Settings: settings, Client: c})
		exporting, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { tracer.Run(exporting) })
		b := newTunedBench(t, memory.New(), func(o *Options) {
			o.Traces = tracer
			o.Log = slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
		})
		do(b, c, log)
		b.close()
		stop()
		running.Wait()
	})
}

// publishTraced publishes an event whose request had a traceparent.
func (b *bench) publishTraced(id, traceparent string) store.Placed {
	b.t.Helper()
	now := time.Now()
	ev := &grapnel.Event{ID: id, Tenant: "default", Type: "a.b", Data: []byte(`{}`),
		ContentType: grapnel.JSONType, OccurredAt: now, AcceptedAt: now}
	if traceparent != "" {
		ev.SetTrace(traceparent)
	}
	done, err := b.engine.Publish(b.t.Context(), []store.Incoming{{Event: ev}}, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	return done.Events[0]
}

// TestOneTraceFromThePublisherToTheReceiver: the PRODUCER span is a child of the publisher's; each
// attempt is a CLIENT span that links to it, and the receiver gets the attempt's context if its
// endpoint allows that.
func TestOneTraceFromThePublisherToTheReceiver(t *testing.T) {
	traced(t, true, func(b *bench, c *spanCollector, log *bytes.Buffer) {
		var heard notes
		open := &receiver{then: func(n int, w http.ResponseWriter, r *http.Request) {
			heard.add(r.Header.Get("traceparent"))
			if r.Header.Get("tracestate")+r.Header.Get("baggage") != "" {
				b.t.Errorf("other headers of traces were sent: %v", r.Header)
			}
			if n == 0 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}}
		shut := &receiver{then: func(_ int, _ http.ResponseWriter, r *http.Request) {
			if r.Header.Get("traceparent") != "" {
				b.t.Error("an endpoint that does not ask for it gets the trace")
			}
		}}
		b.endpoint("open", open, func(ep *grapnel.Endpoint) { ep.Trace, ep.URL = true, ep.URL+"?token=hunter2" })
		b.endpoint("shut", shut, func(*grapnel.Endpoint) {})
		b.publishTraced("evt_1", publisherTrace)
		b.publishTraced("evt_1", publisherTrace) // a repetition makes no span
		var producer sentSpan
		attempts := map[string][]sentSpan{}
		for _, s := range c.take() {
			if s.TraceID != publisherTrace[3:35] {
				b.t.Errorf("%s is in another trace: %s", s.Name, s.TraceID)
			}
			if s.Kind == 4 {
				if producer.Name != "" {
					b.t.Error("two spans for one event")
				}
				producer = s
				continue
			}
			attempts[s.Name] = append(attempts[s.Name], s)
		}
		if producer.Name != "send a.b" || producer.ParentSpanID != publisherTrace[36:52] || producer.has("messaging.operation.type") != "send" ||
			producer.has("messaging.system") != "grapnel" || producer.has("messaging.message.id") != "evt_1" ||
			producer.has("grapnel.deliveries") != "2" {
			b.t.Errorf("%+v", producer)
		}
		tries, got := attempts["POST open"], heard.take()
		if len(tries) != 2 || len(attempts["POST shut"]) != 1 || len(attempts) != 2 || len(got) != 2 {
			b.t.Fatalf("%+v\n%q", attempts, got)
		}
		for i, s := range tries {
			if s.Kind != 3 || s.ParentSpanID != "" || len(s.Links) != 1 ||
				s.Links[0].SpanID != producer.SpanID || s.Links[0].TraceID != producer.TraceID {
				b.t.Errorf("attempt %d does not link to the producer: %+v", i+1, s)
			}
			if want := "00-" + s.TraceID + "-" + s.SpanID + "-01"; got[i] != want {
				b.t.Errorf("the receiver of attempt %d gets %s, want %s", i+1, got[i], want)
			}
		}
		first, second := &tries[0], &tries[1]
		if first.has("http.request.resend_count") != "" || second.has("http.request.resend_count") != "1" ||
			first.has("http.response.status_code") != "503" || first.has("error.type") != "status_5xx" || first.Status.Message != "status_5xx" ||
			second.has("http.response.status_code") != "200" || second.has("error.type") != "" || second.Status.Message != "" ||
			first.has("cloudevents.event_id") != "evt_1" || first.has("messaging.destination.name") != "open" {
			b.t.Errorf("%+v\n%+v", first, second)
		}
		if n := strings.Count(log.String(), `"msg":"attempt finished"`); n != 3 ||
			strings.Count(log.String(), `"trace":"`+producer.TraceID+`"`) != 3 {
			b.t.Errorf("%d lines about 3 attempts:\n%s", n, log)
		}
		if all := c.text.String() + log.String(); strings.Contains(all, "hunter2") || strings.Contains(all, "token=") {
			b.t.Error("the query of an endpoint's URL is in spans or logs")
		}
		// Without a publisher's trace a new one begins; one that is not sampled is passed on as it is.
		unsampled := publisherTrace[:53] + "00"
		b.publishTraced("evt_2", "")
		spans := c.take()
		b.publishTraced("evt_3", unsampled)
		more := c.take()
		if got = heard.take(); len(spans) != 3 || len(more) != 0 || len(got) != 2 || got[0][3:35] != spans[0].TraceID || got[1] != unsampled {
			b.t.Errorf("%d and %d spans; the receiver gets %q", len(spans), len(more), got)
		}
	})
}

// TestWithoutACollectorTheContextIsPassedOn: the receiver continues the publisher's trace.
func TestWithoutACollectorTheContextIsPassedOn(t *testing.T) {
	traced(t, false, func(b *bench, c *spanCollector, _ *bytes.Buffer) {
		var heard notes
		r := &receiver{then: func(_ int, _ http.ResponseWriter, r *http.Request) {
			heard.add(r.Header.Get("traceparent") + " " + r.Header.Get("ce-traceparent"))
		}}
		b.endpoint("ep", r, func(ep *grapnel.Endpoint) { ep.Trace, ep.Format = true, grapnel.FormatCloudEvents })
		for given, want := range map[string]string{publisherTrace: publisherTrace + " " + publisherTrace, "": " ", "not a context": " "} {
			b.publishTraced("evt_"+strconv.Itoa(len(given)), given)
			if spans, got := c.take(), heard.take(); len(spans) != 0 || len(got) != 1 || got[0] != want {
				b.t.Errorf("%d spans; after %q the receiver gets %q", len(spans), given, got)
			}
		}
	})
}
