package receive_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel/receive"
)

// TestUnknownOutcomesHaveAnAnswer: neither a row that a later version of a kit has written, nor a
// classifier's mistake, is an answer without a status.
func TestUnknownOutcomesHaveAnAnswer(t *testing.T) {
	for mode, endpoint := range modes {
		k, _ := kit(t, receive.Options{Classify: func(error) receive.Outcome { return "odd" }})
		h := endpoint(k, func(context.Context, *receive.Delivery) error { return errFault })
		if o := send(t, h, request(t, "evt_1", "{}")); o != receive.Failed {
			t.Errorf("%s: the answer is %s", mode, o)
		}
	}
	for state, outcome := range map[receive.State]receive.Outcome{receive.Done: receive.Duplicate, receive.Free: receive.Failed} {
		synctest.Test(t, func(t *testing.T) {
			k, o := kit(t, receive.Options{})
			h := k.Claim(func(context.Context, *receive.Delivery) error { return nil })
			later := time.Now().Add(time.Hour)
			c, err := o.Store.Claim(t.Context(), receive.Bid{Key: receive.Key{Source: "acme", ID: "evt_1"}, Owner: "other",
				BodyHash: "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a", LeaseUntil: later, KeepUntil: later})
			if err != nil {
				t.Fatal(err)
			}
			var copies sync.WaitGroup
			copies.Go(func() { want(t, h, request(t, "evt_1", "{}"), outcome) })
			synctest.Wait()
			if err := o.Store.Settle(t.Context(), c, state, "odd", time.Now()); err != nil {
				t.Error(err)
			}
			copies.Wait()
		})
	}
}

// TestFailuresAreLogged: without an observer an operator finds failures in the log, and no request
// that anybody can forge.
func TestFailuresAreLogged(t *testing.T) {
	var text strings.Builder
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&text, nil)))
	defer slog.SetDefault(before)
	k, _ := kit(t, receive.Options{})
	h := k.Claim(func(_ context.Context, d *receive.Delivery) error {
		if d.ID == "evt_1" {
			return errFault
		}
		return nil
	})
	forged := request(t, "evt_3", "{}")
	forged.Body = http.NoBody
	want(t, h, request(t, "evt_1", "{}"), receive.Failed)
	want(t, h, request(t, "evt_2", "{}"), receive.Processed)
	want(t, h, forged, receive.Unverified)
	if got := text.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "id=evt_1 outcome=retryable") {
		t.Errorf("the log is %s", got)
	}
}

// TestAPanicReleasesTheKey: the sender gets an answer, and the next delivery runs the handler.
func TestAPanicReleasesTheKey(t *testing.T) {
	for mode, endpoint := range modes {
		t.Run(mode, func(t *testing.T) {
			k, _ := kit(t, receive.Options{})
			panics := true
			h := endpoint(k, func(context.Context, *receive.Delivery) error {
				if panics {
					panic("inv_1")
				}
				return nil
			})
			want(t, h, request(t, "evt_1", "{}"), receive.Failed)
			panics = false
			want(t, h, request(t, "evt_1", "{}"), receive.Processed)
		})
	}
}

// TestObserversChangeNoAnswer: neither a panic nor an observer that hangs.
func TestObserversChangeNoAnswer(t *testing.T) {
	answered, observed := make(chan struct{}), make(chan receive.Observation, 2)
	k, _ := kit(t, receive.Options{Observe: func(o receive.Observation) {
		<-answered
		observed <- o
		panic("metrics are down")
	}})
	server := httptest.NewServer(k.Claim(func(context.Context, *receive.Delivery) error { return nil }))
	defer server.Close()
	r := request(t, "evt_1", "{}")
	r.URL, _ = r.URL.Parse(server.URL)
	r.RequestURI = ""
	answer, err := http.DefaultClient.Do(r)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("the answer is %v, %v", answer, err)
	}
	_ = answer.Body.Close()
	close(answered)
	if o := <-observed; o.ID != "evt_1" || o.Outcome != receive.Processed || o.Attempt != 1 || o.Generation != 1 {
		t.Errorf("the observation is %+v", o)
	}
	want(t, server.Config.Handler, request(t, "evt_1", "{}"), receive.Duplicate) // the panic does not come here
}
