package trace

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

func span() Span {
	c, _ := Parse(sample)
	link, _ := Parse("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	at := time.Unix(1_700_000_000, 5)
	return Span{Context: c, Parent: [8]byte{1, 2, 3, 4, 5, 6, 7, 8}, Link: link, Name: "POST ep_1", Kind: Client, Start: at,
		End: at.Add(time.Second), Failed: "status_5xx",
		Attributes: []Attribute{Text("error.type", "status_5xx"), Number("http.response.status_code", 503), Text("empty", "")}}
}

// The names are those of the JSON mapping of opentelemetry-proto, which a collector reads strictly.
const asJSON = `{"resourceSpans":[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"grapnel"}}]},` +
	`"scopeSpans":[{"scope":{"name":"github.com/grapnelhq/grapnel","version":"1.2.3"},"spans":[{` +
	`"traceId":"4bf92f3577b34da6a3ce929d0e0e4736","spanId":"00f067aa0ba902b7","parentSpanId":"0102030405060708","flags":1,` +
	`"name":"POST ep_1","kind":3,"startTimeUnixNano":"1700000000000000005","endTimeUnixNano":"1700000001000000005",` +
	`"attributes":[{"key":"error.type","value":{"stringValue":"status_5xx"}},{"key":"http.response.status_code","value":{"intValue":"503"}},` +
	`{"key":"empty","value":{"stringValue":""}}],` +
	`"links":[{"traceId":"0af7651916cd43dd8448eb211c80319c","spanId":"b7ad6b7169203331","flags":1}],` +
	`"status":{"message":"status_5xx","code":2}}]}]}]}`

func TestSpansAsJSON(t *testing.T) {
	r := &resource{[]Attribute{Text("service.name", "grapnel")}, "1.2.3"}
	if got, err := encodeJSON(r, []Span{span()}); err != nil || string(got) != asJSON {
		t.Errorf("%v\n%s\n%s", err, got, asJSON)
	}
}

// field is a field of a message of opentelemetry-proto: its name in JSON and its form.
type field struct {
	name string
	form string // of JSON: hex, text, enum, nanos, number; or the name of a message
	many bool
}

// schema has the fields of the messages, by the numbers of opentelemetry-proto 1.
var schema = map[string]map[int]field{
	"Request":       {1: {"resourceSpans", "ResourceSpans", true}},
	"ResourceSpans": {1: {"resource", "Resource", false}, 2: {"scopeSpans", "ScopeSpans", true}},
	"Resource":      {1: {"attributes", "KeyValue", true}},
	"ScopeSpans":    {1: {"scope", "Scope", false}, 2: {"spans", "Span", true}},
	"Scope":         {1: {"name", "text", false}, 2: {"version", "text", false}},
	"KeyValue":      {1: {"key", "text", false}, 2: {"value", "AnyValue", false}},
	"AnyValue":      {1: {"stringValue", "text", false}, 3: {"intValue", "nanos", false}},
	"Link":          {1: {"traceId", "hex", false}, 2: {"spanId", "hex", false}, 6: {"flags", "number", false}},
	"Status":        {2: {"message", "text", false}, 3: {"code", "number", false}},
	"Span": {1: {"traceId", "hex", false}, 2: {"spanId", "hex", false}, 4: {"parentSpanId", "hex", false}, 5: {"name", "text", false},
		6: {"kind", "number", false}, 7: {"startTimeUnixNano", "nanos", false}, 8: {"endTimeUnixNano", "nanos", false},
		9: {"attributes", "KeyValue", true}, 13: {"links", "Link", true}, 15: {"status", "Status", false}, 16: {"flags", "number", false}},
}

// decode reads a protobuf message as what JSON would say of it.
func decode(t *testing.T, kind string, b []byte) map[string]any {
	t.Helper()
	out := map[string]any{}
	for len(b) > 0 {
		tag, n := binary.Uvarint(b)
		b = b[n:]
		var number uint64
		var raw []byte
		switch tag & 7 {
		case wireVarint:
			number, n = binary.Uvarint(b)
			b = b[n:]
		case wireFixed64:
			number, b = binary.LittleEndian.Uint64(b), b[8:]
		case wireFixed32:
			number, b = uint64(binary.LittleEndian.Uint32(b)), b[4:]
		case wireBytes:
			size, n := binary.Uvarint(b)
			raw, b = b[n:n+int(size)], b[n+int(size):]
		}
		f, known := schema[kind][int(tag>>3)]
		if !known {
			t.Fatalf("%s has no field %d", kind, tag>>3)
		}
		var v any
		switch f.form {
		case "hex":
			v = hex.EncodeToString(raw)
		case "text":
			v = string(raw)
		case "nanos":
			v = strconv.FormatInt(int64(number), 10)
		case "number":
			v = float64(number)
		default:
			v = decode(t, f.form, raw)
		}
		if f.many {
			list, _ := out[f.name].([]any)
			v = append(list, v)
		}
		out[f.name] = v
	}
	return out
}

// TestSpansAsProtobuf: both forms say the same.
func TestSpansAsProtobuf(t *testing.T) {
	r := &resource{[]Attribute{Text("service.name", "grapnel")}, "1.2.3"}
	got, err := encodeProto(r, []Span{span()})
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := json.Unmarshal([]byte(asJSON), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, decode(t, "Request", got)); diff != "" {
		t.Error(diff)
	}
}

// collector answers requests with the statuses in turn, then with 200.
type collector struct {
	mu       sync.Mutex
	statuses []int
	bodies   [][]byte
	headers  []http.Header
}

// RoundTrip takes a request of the tracer.
func (c *collector) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bodies, c.headers = append(c.bodies, body), append(c.headers, req.Header)
	if len(c.statuses) > 0 {
		status := c.statuses[0]
		c.statuses = c.statuses[1:]
		if status == 0 {
			return nil, io.ErrUnexpectedEOF
		}
		w.WriteHeader(status)
	}
	return w.Result(), nil
}

// run runs a tracer against a collector in fake time while do runs.
func run(t *testing.T, c *collector, b Bounds, do func(*Tracer)) (*Tracer, string) {
	t.Helper()
	var log bytes.Buffer
	tr := New(Options{Settings: Settings{Endpoint: mustURL("http://user:hunter2@collector.example/v1/traces?key=hunter2"), JSON: true,
		Headers: map[string]string{"authorization": "Bearer hunter2"}, Sampler: Sampler{Ratio: 1}},
		Bounds: b, Client: c, Log: slog.New(slog.NewTextHandler(&log, nil))})
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { tr.Run(ctx) })
	do(tr)
	stop()
	running.Wait()
	return tr, log.String()
}

func counts(t *Tracer) [3]int64 {
	return [3]int64{t.exported.Load(), t.dropped.Load(), t.failed.Load()}
}

func TestSpansAreSentInBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &collector{}
		tr, _ := run(t, c, Bounds{Batch: 10}, func(tr *Tracer) {
			for range 25 {
				tr.Record(span())
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if len(c.bodies) != 3 { // two full batches, and the rest after the delay
				t.Errorf("%d requests for 25 spans", len(c.bodies))
			}
			for range 12 { // still queued when the tracer stops
				tr.Record(span())
			}
		})
		if got := counts(tr); got != [3]int64{37, 0, 0} || len(c.bodies) < 5 {
			t.Errorf("%v in %d requests", got, len(c.bodies))
		}
		h := c.headers[0]
		if h.Get("Authorization") != "Bearer hunter2" || h.Get("Content-Type") != "application/json" || strings.Count(string(c.bodies[0]), `"spanId"`) != 20 {
			t.Errorf("%v\n%s", h, c.bodies[0])
		}
	})
}

// TestAnOverloadedCollectorIsAskedAgain: what OTLP says may be repeated is, the rest is not.
func TestAnOverloadedCollectorIsAskedAgain(t *testing.T) {
	for _, c := range []struct {
		statuses []int
		requests int
		counts   [3]int64
	}{
		{[]int{503, 0, 429, 502}, 5, [3]int64{1, 0, 0}},
		{[]int{503, 503, 503, 503, 504}, 5, [3]int64{0, 0, 1}},
		{[]int{400}, 1, [3]int64{0, 0, 1}}, {[]int{302}, 1, [3]int64{0, 0, 1}}, {[]int{500}, 1, [3]int64{0, 0, 1}},
	} {
		synctest.Test(t, func(t *testing.T) {
			to := &collector{statuses: c.statuses}
			tr, log := run(t, to, Bounds{}, func(tr *Tracer) {
				tr.Record(span())
				time.Sleep(time.Hour)
			})
			if got := counts(tr); got != c.counts || len(to.bodies) != c.requests {
				t.Errorf("%v: %v after %d requests", c.statuses, got, len(to.bodies))
			}
			if strings.Count(log, "exporting spans failed") != 1 || strings.Contains(log, "hunter2") {
				t.Errorf("%v: the log says %s", c.statuses, log)
			}
		})
	}
}

// TestAQueueThatIsFullDropsSpans: recording never waits for the collector.
func TestAQueueThatIsFullDropsSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := make([]int, 1000)
		tr, _ := run(t, &collector{statuses: away}, Bounds{Queue: 10, Batch: 5, Last: time.Nanosecond}, func(tr *Tracer) {
			for range 100 {
				tr.Record(span())
			}
		})
		got := counts(tr)
		if got[0] != 0 || got[1] < 80 || got[1]+got[2] != 100 {
			t.Errorf("exported, dropped, failed: %v of 100", got)
		}
	})
}
