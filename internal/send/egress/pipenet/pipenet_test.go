package pipenet

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestDaysInMilliseconds runs a retry schedule of two days through a real client and a real server.
func TestDaysInMilliseconds(t *testing.T) {
	delays := []time.Duration{0, 15 * time.Second, time.Hour, 44 * time.Hour}
	began := time.Now()
	synctest.Test(t, func(t *testing.T) {
		n := New()
		defer n.Close()
		start := time.Now()
		arrived := make(chan time.Duration, len(delays))
		n.Handle("hooks.example", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			arrived <- time.Since(start)
			if len(arrived) == 2 {
				<-r.Context().Done() // hangs until the client gives up
				return
			}
			_, _ = w.Write(body)
		}))
		transport := &http.Transport{DialContext: n.Dial}
		defer transport.CloseIdleConnections()
		client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
		for i, delay := range delays {
			time.Sleep(delay)
			resp, err := client.Post("http://hooks.example/", "text/plain", strings.NewReader("hello"))
			if timedOut := i == 1; timedOut != (err != nil) {
				t.Fatalf("attempt %d: %v", i, err)
			}
			if err == nil {
				body, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if string(body) != "hello" {
					t.Errorf("got %q", body)
				}
			}
		}
		close(arrived)
		var arrivals []time.Duration
		for at := range arrived {
			arrivals = append(arrivals, at)
		}
		if want := []time.Duration{
			0,
			15 * time.Second,
			time.Hour + 25*time.Second,
			45*time.Hour + 25*time.Second,
		}; !slices.Equal(
			arrivals,
			want,
		) {
			t.Errorf("requests arrived at %v", arrivals)
		}
	})
	if took := time.Since(began); took > time.Hour { // fake time would show here
		t.Errorf("it took %v", took)
	}
}

func TestHostsThatCannotBeReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		defer n.Close()
		if _, err := n.Dial(t.Context(), "tcp", "nobody.example:80"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a host that is not there: %v", err)
		}

		l := n.Listen("closed.example:80")
		_ = l.Close()
		if _, err := n.Dial(t.Context(), "tcp", "closed.example:80"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a host that was closed: %v", err)
		}

		n.Listen("busy.example")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := n.Dial(ctx, "tcp", "busy.example:80"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a host that does not accept: %v", err)
		}
		if n.Dials("busy.example") != 1 || n.Dials("closed.example") != 1 {
			t.Error("dials are not counted")
		}
	})
}

func TestFaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := New()
		defer n.Close()
		fault := errors.New("the cable is cut")
		dial := func() error {
			c, err := n.Dial(t.Context(), "tcp", "hooks.example:80")
			if err == nil {
				_ = c.Close()
			}
			return err
		}
		n.Fail("hooks.example", func() error { return fault })
		if err := dial(); !errors.Is(err, fault) {
			t.Errorf("before the host is there: %v", err)
		}
		n.Handle("hooks.example", http.NotFoundHandler())
		if err := dial(); !errors.Is(err, fault) {
			t.Errorf("with the host: %v", err)
		}
		n.Fail("hooks.example", func() error { return nil })
		if err := dial(); err != nil {
			t.Errorf("a fault that is over: %v", err)
		}
		n.Fail("hooks.example", nil)
		if err := dial(); err != nil {
			t.Errorf("no fault: %v", err)
		}
	})
}
