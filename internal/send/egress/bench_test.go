package egress

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// BenchmarkSend delivers 1 KiB to a receiver on loopback, with the endpoint's concurrency. The
// receiver runs in the same process, so the figures include both sides; BenchmarkPlainClient is the
// same exchange with a bare http.Client.
func BenchmarkSend(b *testing.B) {
	srv := server(b, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	s := sender(b, Options{Allow: loopback()})
	d := delivery(endpoint(srv.URL))
	d.Event = event(`{"x":"` + strings.Repeat("x", 1024-8) + `"}`)
	b.ReportAllocs()
	b.SetParallelism(16)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if r := send(s, d); r.Outcome.Status != http.StatusOK {
				b.Errorf("%+v", r)
				return
			}
		}
	})
	b.StopTimer()
	stats := s.Stats()
	b.ReportMetric(float64(stats.Reused)/float64(stats.Attempts), "reused/op")
}

func BenchmarkPlainClient(b *testing.B) {
	srv := server(b, func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) })
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 32, DisableCompression: true}}
	body := strings.Repeat("x", 1024)
	b.ReportAllocs()
	b.SetParallelism(16)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			resp, err := client.Post(srv.URL, "application/json", strings.NewReader(body))
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
	})
}

// BenchmarkRequest is the sender's own part of an attempt: body, signature, headers.
func BenchmarkRequest(b *testing.B) {
	s := sender(b, Options{Node: "n1"})
	d := delivery(endpoint("https://hooks.example/"))
	d.Event = event(`{"x":"` + strings.Repeat("x", 1024-8) + `"}`)
	r := s.prepare(d.Endpoint, "", time.Now())
	b.ReportAllocs()
	for b.Loop() {
		body, contentType, err := s.bodyOf(b.Context(), r, new(message), d)
		if err != nil {
			b.Fatal(err)
		}
		m := s.message()
		if err := r.request(m, time.Now(), d, body, contentType); err != nil {
			b.Fatal(err)
		}
		m.render(body, s.bounds.LongBody)
		s.forget(m)
	}
}
