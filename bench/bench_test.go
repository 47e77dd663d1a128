//go:build linux

package main

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/e2e/process"
	"github.com/grapnelhq/grapnel/sign"
)

// The roles of a run are processes of the test's program.
func TestMain(m *testing.M) {
	playRole()
	os.Exit(m.Run())
}

// ask calls a verb as the orchestrator does.
func ask[T any](t *testing.T, v verbs, verb string, in any) (out T) {
	t.Helper()
	body, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := v[verb](body)
	if err != nil {
		t.Fatalf("%s: %v", verb, err)
	}
	text, err := json.Marshal(answer)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		t.Fatalf("%s: %v in %s", verb, err, text)
	}
	return out
}

// Accepted events arrive, in both loops, through the relay and at every endpoint.
func TestRelayDeliversWhatItAccepts(t *testing.T) {
	secret, err := sign.NewSecret(strings.NewReader(strings.Repeat("x", 64)))
	if err != nil {
		t.Fatal(err)
	}
	sink, relay, publisher := newSink(), newRelay(), newPublisher()
	at := ask[string](t, sink, "listen", nil)
	addr := ask[string](t, relay, "serve", relayOrder{Bearer: bearer, URLs: []string{"http://" + at + "/0", "http://" + at + "/1"},
		Secret: secret, Workers: 4})
	o := order{Addr: addr, Bearer: bearer, Connections: 4, Size: 1024, Keys: 10, Rate: 200, For: 200 * time.Millisecond}

	ask[any](t, publisher, "closed", o)
	arrived := func(want int64) {
		t.Helper()
		if err := process.Until(context.Background(), 10*time.Second, func() (bool, error) {
			return ask[int64](t, sink, "received",
				nil) >= want, nil
		}); err != nil {
			t.Fatalf("%d of %d deliveries arrived", ask[int64](t, sink, "received", nil), want)
		}
	}
	arrived(100)
	accepted := ask[int64](t, publisher, "stop", nil)
	arrived(2 * accepted)

	ask[any](t, sink, "time", nil)
	sent := ask[int64](t, publisher, "open", o)
	if sent != 40 {
		t.Errorf("%d events were sent at 200/s in 200 ms", sent)
	}
	arrived(2 * (accepted + sent))
	took := ask[[]time.Duration](t, sink, "times", nil)
	if int64(len(took)) != 2*sent || slices.Min(took) <= 0 {
		t.Errorf("%d latencies were noted for %d deliveries, the least is %v", len(took), 2*sent, slices.Min(took))
	}
}

// The relay refuses the input that Grapnel refuses: it must not be faster by skipping checks.
func TestRelayChecksItsInput(t *testing.T) {
	for _, body := range []string{`{`, `{"type":"a"}`, `{"data":1}`, `{"type":"a..b","data":1}`, `{"type":"a","data":1,"more":2}`,
		`{"type":"a","data":1,"key":"` + strings.Repeat("k", 300) + `"}`} {
		if _, err := readEvent([]byte(body)); err == nil {
			t.Errorf("%s was taken", body)
		}
	}
	e, err := readEvent([]byte(`{"type":"a.b","key":"k","data":{ "n": 1.50 }}`))
	if err != nil || string(e.Data) != `{ "n": 1.50 }` || e.Key != "k" {
		t.Errorf("read %+v, %v", e, err)
	}
}

// Requests to a source are signed so that the handler takes them, and it takes no others.
func TestHandlerVerifies(t *testing.T) {
	secret, err := newSecret()
	if err != nil {
		t.Fatal(err)
	}
	handler, publisher := newHandler(), newPublisher()
	addr := ask[string](t, handler, "serve", secret)
	o := order{Addr: addr, Path: "/in/bench", Secret: secret, Connections: 2, Size: 1024, Rate: 100, For: 100 * time.Millisecond}
	if sent := ask[int64](t, publisher, "open", o); sent != 10 {
		t.Errorf("%d of 10 requests were accepted", sent)
	}
	if o.Secret, err = newSecret(); err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := publisher["open"](body); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("requests with another secret: %v", err)
	}
}

func TestMessage(t *testing.T) {
	m := newMessage(strings.NewReader("HTTP/1.1 202 Accepted\r\nContent-length: 3\r\n\r\nabcPOST / HTTP/1.1\r\nX: y\r\n\r\n" +
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"))
	if err := m.read(); err != nil || m.status() != 202 || string(m.body) != "abc" {
		t.Errorf("read %q %q, %v", m.head, m.body, err)
	}
	if err := m.read(); err != nil || string(m.head) != "POST / HTTP/1.1" || len(m.body) != 0 {
		t.Errorf("read %q %q, %v", m.head, m.body, err)
	}
	if err := m.read(); err == nil {
		t.Error("a chunked message was taken for an empty one")
	}
}

func TestStatistics(t *testing.T) {
	times := make([]time.Duration, 100)
	for i := range times {
		times[i] = time.Duration(i+1) * time.Millisecond
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.5: 51, 0.99: 100, 1: 100} {
		if got := quantile(times, q); got != want*time.Millisecond {
			t.Errorf("quantile %v is %v", q, got)
		}
	}
	if m := median([]float64{3, 1, 2, 10}, func(f float64) float64 { return f }); m != 2.5 {
		t.Errorf("the median is %v", m)
	}
}
