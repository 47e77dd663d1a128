package egress

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/transform"
	"github.com/grapnelhq/grapnel/policy"
	"github.com/grapnelhq/grapnel/sign"
)

var accepted = time.Date(2026, 1, 2, 3, 4, 6, 0, time.UTC)

// shapely is a delivery of an event with a known acceptance time.
func shapely(transform string) Delivery {
	d := delivery(endpoint("http://hooks.example/"))
	d.Endpoint.Transform = transform
	d.Event.AcceptedAt, d.CreatedAt = accepted, accepted
	return d
}

// TestTransformIsWhatIsSent: the body is the transform's result, in every format, and the signature
// covers it.
func TestTransformIsWhatIsSent(t *testing.T) {
	for _, format := range []grapnel.Format{grapnel.FormatStandard, grapnel.FormatRaw, grapnel.FormatCloudEvents} {
		d := shapely(`{id, kind: .type, at: .timestamp, amount: .data.amount}`)
		d.Endpoint.Format = format
		d.Event.Data = []byte(`{"amount": 1.50}`)
		raw, r := wire(t, Options{Now: at(1767323045)}, d)
		head, body, _ := strings.Cut(raw, "\r\n\r\n")
		if want := `{"amount":1.50,"at":"2026-01-02T03:04:05.678901Z","id":"evt_1","kind":"invoice.paid"}`; body != want ||
			r.Outcome.Status != 204 {
			t.Errorf("%s: sent %s, %+v", format, body, r)
		}
		if !strings.Contains(head, "Content-Type: application/json\r\n") ||
			strings.Contains(head, "Ce-Id") != (format == grapnel.FormatCloudEvents) {
			t.Errorf("%s: the head is\n%s", format, head)
		}
		signature, err := sign.Sign(d.Event.ID, time.Unix(1767323045, 0), []byte(body), testSecret)
		if err != nil || !strings.Contains(head, "Webhook-Signature: "+signature+"\r\n") {
			t.Errorf("%s: %q is not in the head, %v:\n%s", format, signature, err, head)
		}
	}
	d := shapely(`{id, has: has("data"), data_base64}`)
	d.Event.Data, d.Event.ContentType = []byte("<a/>"), "text/xml"
	if raw, _ := wire(t, Options{}, d); !strings.HasSuffix(raw, `{"data_base64":"PGEvPg==","has":false,"id":"evt_1"}`) {
		t.Errorf("what is no JSON was sent as %s", raw)
	}
}

// TestShapeOfAcceptance: an event keeps the transform and the format that were in force when it was
// accepted.
func TestShapeOfAcceptance(t *testing.T) {
	d := shapely(`"third"`)
	d.Endpoint.Former = []grapnel.Shape{
		{Until: accepted.Add(-time.Hour), Format: grapnel.FormatRaw},
		{Until: accepted.Add(time.Hour), Format: grapnel.FormatStandard, Transform: `"second"`},
	}
	for name, c := range map[string]struct {
		at   time.Time
		want string
	}{
		"first": {accepted.Add(-2 * time.Hour), `{"amount":1}`}, "second": {accepted, `"second"`},
		"as it ends": {accepted.Add(time.Hour), `"third"`}, "just before": {accepted.Add(time.Hour - time.Microsecond), `"second"`},
		// Stored times have microseconds.
		"less than a microsecond before": {accepted.Add(time.Hour - time.Nanosecond), `"second"`},
		"third":                          {accepted.Add(2 * time.Hour), `"third"`},
	} {
		d.Event.AcceptedAt, d.CreatedAt = c.at, c.at
		if name != "third" {
			d.CreatedAt = accepted.Add(9 * time.Hour) // a replay: the same
		}
		if raw, r := wire(t, Options{}, d); !strings.HasSuffix(raw, "\r\n\r\n"+c.want) {
			t.Errorf("%s: sent %s, %+v; want %s", name, raw, r, c.want)
		}
		if again, _, err := Rebuilt(d.Endpoint, d.Event, d.CreatedAt, transform.Bounds{}); string(again) != c.want || err != nil {
			t.Errorf("%s: made again as %s, %v; want %s", name, again, err, c.want)
		}
	}
}

// TestWithoutBody: an event without a body after its transform is not sent, and the reason is
// stated. A later delivery of it has the shape of its own time.
func TestWithoutBody(t *testing.T) {
	for text, part := range map[string]string{
		`.data + 1`: "cannot add", `last(repeat(.))`: "too much work", `error("no total")`: "no total", `empty`: "no result",
		`.id, .type`: "more than one result", `{`: "does not compile",
		`error("a\nb")`: "a",
	} {
		d := shapely(text)
		raw, r := wire(t, Options{}, d)
		if raw != "" || !strings.Contains(r.Unsendable, part) || strings.Contains(r.Unsendable, "\n") || r.Sent != nil || r.Deferred ||
			r.Outcome.Class != policy.ClassInternal {
			t.Errorf("%s: sent %q: %+v", text, raw, r)
		}
		d.Endpoint.Former = []grapnel.Shape{{Until: accepted.Add(time.Hour), Format: grapnel.FormatStandard, Transform: text}}
		d.Endpoint.Transform = `"mended"`
		if raw, r = wire(t, Options{}, d); raw != "" || r.Unsendable == "" {
			t.Errorf("%s, mended later: sent %q: %+v", text, raw, r)
		}
		d.CreatedAt = accepted.Add(2 * time.Hour)
		if raw, r = wire(t, Options{}, d); !strings.HasSuffix(raw, "\r\n\r\n\"mended\"") || r.Unsendable != "" {
			t.Errorf("%s, repeated: sent %q: %+v", text, raw, r)
		}
		if again, _, err := Rebuilt(d.Endpoint, d.Event, d.CreatedAt, transform.Bounds{}); string(again) != `"mended"` || err != nil {
			t.Errorf("%s, repeated: made again as %s, %v", text, again, err)
		}
	}
}

// TestPresetsBringTheirShape: an endpoint's own settings override the preset.
func TestPresetsBringTheirShape(t *testing.T) {
	for _, c := range []struct {
		preset    string
		headers   map[string]string
		transform string
		want      []string
		never     string
	}{
		{"sent", nil, "", []string{"\r\nX-Webhook-Id: evt_1\r\n", "\r\n\r\n{\"amount\":1}"}, `"id"`},
		{"sent, standard", nil, "", []string{"\r\nX-Webhook-Id: evt_1\r\n", `{"id":"evt_1","type"`}, "occurredAt"},
		{"webhookify", nil, "", []string{"\r\nX-Retry-Count: 2\r\n", "\r\nX-Webhook-Id: evt_1\r\n"}, "occurredAt"},
		{"parseo", nil, "", []string{`"occurredAt":"2026-01-02T03:04:05.678901Z","timestamp":`, `"data":{"amount":1}`, `"id":"evt_1"`},
			"X-Webhook"},
		{"sent", map[string]string{"x-webhook-id": "mine"}, `.type`, []string{"\r\nX-Webhook-Id: mine\r\n", "\r\n\r\n\"invoice.paid\""},
			"evt_1\r\nX-"},
		{"parseo", nil, `.`, []string{`{"data":`}, "occurredAt"},
		{"parseo, raw", nil, "", []string{"\r\n\r\n{\"amount\":1}"}, "occurredAt"},
		{"paylera", nil, "", []string{`{"id":"evt_1"`}, "X-"},
		{"mine", nil, "", []string{`{"id":"evt_1"`}, "X-"},
	} {
		d := shapely(c.transform)
		name, format, _ := strings.Cut(c.preset, ", ")
		d.Endpoint.Policy.Preset, d.Endpoint.Headers, d.Endpoint.Format = name, c.headers, grapnel.Format(format)
		raw, r := wire(t, Options{}, d)
		for _, part := range c.want {
			if !strings.Contains(raw, part) {
				t.Errorf("%s: %q is not in %s, %+v", c.preset, part, raw, r)
			}
		}
		if strings.Contains(raw, c.never) {
			t.Errorf("%s: %q is in %s", c.preset, c.never, raw)
		}
	}
	d := shapely("")
	d.Endpoint.Policy.Preset, d.Endpoint.Headers = "sent", map[string]string{}
	for i := range MaxCustomHeaders {
		d.Endpoint.Headers[fmt.Sprintf("X-%d", i)] = "x"
	}
	if raw, r := wire(t, Options{}, d); !strings.Contains(raw, "X-Webhook-Id: evt_1\r\n") {
		t.Errorf("with as many headers as there may be: %+v", r)
	}
}

// TestTransformsOfATenantShareAPart: a tenant that has used up its share waits until time has paid
// for it; other tenants do not.
func TestTransformsOfATenantShareAPart(t *testing.T) {
	clock := accepted
	srv := server(t, ok)
	s := sender(t, Options{Allow: loopback(), Bounds: Bounds{ShapePart: 20}, Now: func() time.Time {
		clock = clock.Add(10 * time.Millisecond) // every reading of the clock advances it
		return clock
	}})
	d := shapely(`.id`)
	d.Endpoint.URL = srv.URL
	count := func(tenant string, most int) (sent int, last Result) {
		d.Event.Tenant = tenant
		for sent = range most {
			if last = send(s, d); last.Deferred {
				return sent, last
			}
		}
		return most, last
	}
	first, r := count("acme", 1000)
	if first == 0 || first == 1000 || r.Outcome.Class != policy.ClassInternal || r.Unsendable != "" || r.Sent != nil {
		t.Fatalf("%d were sent, then %+v", first, r)
	}
	if other, r := count("other", first/2); other != first/2 {
		t.Errorf("another tenant got only %d of %d: %+v", other, first/2, r)
	}
	d.Endpoint.Transform = ""
	d.Endpoint.Revision++
	if r := send(s, d); r.Outcome.Status != http.StatusOK {
		t.Errorf("without transform: %+v", r)
	}
	d.Endpoint.Transform = `.`
	d.Endpoint.Revision++
	clock = clock.Add(time.Minute)
	if n, r := count("acme", 1); n != 1 {
		t.Errorf("after a minute: %+v", r)
	}
	if stats := s.Stats(); stats.Deferred == 0 || stats.Unsendable != 0 {
		t.Errorf("counted are %+v", stats)
	}
}

// TestWaitingTransformsShareThePartToo: evaluations that wait for a processor are not all let
// through for having come before the tenant had used up its share.
func TestWaitingTransformsShareThePartToo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clock atomic.Int64
		s := New(Options{Bounds: Bounds{ShapePart: 20, ShapeBurst: 100 * time.Millisecond}, Now: func() time.Time {
			return accepted.Add(time.Duration(clock.Add(10)) * time.Millisecond) // every reading of the clock advances it
		}})
		defer s.Close()
		const all = 100
		d := shapely(`.id`)
		r := s.prepare(d.Endpoint, "", accepted)
		for range cap(s.shaping) {
			s.shaping <- struct{}{}
		}
		var ended sync.WaitGroup
		var late atomic.Int64
		for range all {
			ended.Go(func() {
				if _, _, err := s.bodyOf(t.Context(), r, new(message), d); errors.As(err, new(deferred)) {
					late.Add(1)
				} else if err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		for range cap(s.shaping) {
			<-s.shaping
		}
		ended.Wait()
		if n := late.Load(); n < all/2 || n == all {
			t.Errorf("%d of %d were deferred", n, all)
		}
	})
}

// BenchmarkTransformed is BenchmarkRequest with the transform of the preset parseo.
func BenchmarkTransformed(b *testing.B) {
	s := sender(b, Options{Bounds: Bounds{ShapeBurst: 1000 * time.Hour}})
	d := shapely(policy.ShapeOf("parseo").Transform)
	d.Event.Data = []byte(`{"x":"` + string(bytes.Repeat([]byte("x"), 1024-8)) + `"}`)
	r := s.prepare(d.Endpoint, "", time.Now())
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := s.bodyOf(b.Context(), r, new(message), d); err != nil {
			b.Fatal(err)
		}
	}
}
