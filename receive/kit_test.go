package receive_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel/receive"
	"github.com/grapnelhq/grapnel/receive/memstore"
	"github.com/grapnelhq/grapnel/sign"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

var errFault = errors.New("a fault that names inv_1")

// kit makes a kit with a store in memory, unless o has others.
func kit(t *testing.T, o receive.Options) (*receive.Kit, receive.Options) {
	t.Helper()
	o.Source, o.Verifier = "acme", receive.StandardWebhooks(secret)
	if o.Store == nil {
		o.Store = memstore.New()
	}
	k, err := receive.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return k, o
}

// request is a request signed now.
func request(t *testing.T, id, body string) *http.Request {
	t.Helper()
	now := time.Now()
	signature, err := sign.Sign(id, now, []byte(body), secret)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, "/hooks", strings.NewReader(body))
	r.Header.Set("webhook-id", id)
	r.Header.Set("webhook-timestamp", strconv.FormatInt(now.Unix(), 10))
	r.Header.Set("webhook-signature", signature)
	return r
}

// send sends a request, and returns its answer's outcome.
func send(t *testing.T, h http.Handler, r *http.Request) receive.Outcome {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	o := receive.Outcome(w.Header().Get("Webhook-Outcome"))
	var body struct{ Outcome, Reason string }
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != o.Status() || body.Outcome != string(o) {
		t.Fatalf("the answer is %d %v %q, %v", w.Code, w.Header(), w.Body, err)
	}
	if strings.Contains(w.Body.String(), "inv_1") {
		t.Errorf("the answer has data of the event: %s", w.Body)
	}
	return o
}

func want(t *testing.T, h http.Handler, r *http.Request, outcome receive.Outcome) {
	t.Helper()
	if got := send(t, h, r); got != outcome {
		t.Errorf("the answer is %s; want %s", got, outcome)
	}
}

// modes are the two modes that answer after the handler, over a store in memory.
var modes = map[string]func(*receive.Kit, func(context.Context, *receive.Delivery) error) *receive.Endpoint{
	"claim": (*receive.Kit).Claim,
	"transaction": func(k *receive.Kit, handle func(context.Context, *receive.Delivery) error) *receive.Endpoint {
		return receive.Transaction(k, func(ctx context.Context, _ *memstore.Tx, d *receive.Delivery) error { return handle(ctx, d) })
	},
}

// TestEachErrorHasItsAnswer: what the handler returns decides the answer, and whether a repetition
// runs it again.
func TestEachErrorHasItsAnswer(t *testing.T) {
	for mode, endpoint := range modes {
		for _, c := range []struct {
			err    error
			first  receive.Outcome
			second receive.Outcome
			runs   int
		}{
			{nil, receive.Processed, receive.Duplicate, 1},
			{receive.ErrStale, receive.Stale, receive.Duplicate, 1},
			{receive.ErrParked, receive.Parked, receive.Duplicate, 1},
			{errFault, receive.Failed, receive.Failed, 2},
			{receive.Retryable(receive.ErrStale), receive.Failed, receive.Failed, 2},
			{receive.Permanent(errFault), receive.DeadLettered, receive.DeadLettered, 1},
			{receive.ErrGone, receive.Gone, receive.Gone, 2},
		} {
			t.Run(mode+"/"+string(c.first), func(t *testing.T) {
				k, _ := kit(t, receive.Options{})
				runs := 0
				h := endpoint(k, func(context.Context, *receive.Delivery) error { runs++; return c.err })
				want(t, h, request(t, "evt_1", "inv_1"), c.first)
				want(t, h, request(t, "evt_1", "inv_1"), c.second)
				if runs != c.runs {
					t.Errorf("the handler ran %d times; want %d", runs, c.runs)
				}
			})
		}
	}
}

// TestDeliveriesOfAKeyAreBounded: a key whose handler keeps failing ends as a dead letter, by the
// kit's own count.
func TestDeliveriesOfAKeyAreBounded(t *testing.T) {
	for mode, endpoint := range modes {
		for _, none := range []bool{false, true} {
			t.Run(mode, func(t *testing.T) {
				k, _ := kit(t, receive.Options{MaxDeliveries: 3, NoDeadLetters: none})
				runs := 0
				h := endpoint(k, func(context.Context, *receive.Delivery) error { runs++; return errFault })
				last := receive.DeadLettered
				if none {
					last = receive.Rejected
				}
				for _, o := range []receive.Outcome{receive.Failed, receive.Failed, last, last} {
					want(t, h, request(t, "evt_1", "{}"), o)
				}
				if runs != 3 {
					t.Errorf("the handler ran %d times; want 3", runs)
				}
			})
		}
	}
}

// TestForgedRequestsChangeNothing: a request that is refused leaves no row, so it cannot use up the
// id of a genuine one.
func TestForgedRequestsChangeNothing(t *testing.T) {
	k, o := kit(t, receive.Options{MaxBody: 100})
	ran := 0
	h := k.Claim(func(context.Context, *receive.Delivery) error { ran++; return nil })
	forged, old, noID, unsigned := request(t, "evt_1", "{}"), request(t, "evt_1", "{}"), request(t, "evt_1", "{}"), request(t, "evt_1", "{}")
	forged.Body = http.NoBody
	old.Header.Set("webhook-timestamp", strconv.FormatInt(time.Now().Add(-time.Hour).Unix(), 10))
	noID.Header.Del("webhook-id")
	unsigned.Header.Del("webhook-signature")
	for r, outcome := range map[*http.Request]receive.Outcome{forged: receive.Unverified, old: receive.Expired, noID: receive.Malformed,
		unsigned: receive.Unverified, request(t, "evt_1", strings.Repeat("x", 101)): receive.TooLarge,
		request(t, "evt_\x01", "{}"): receive.Malformed, request(t, "evt_\xff", "{}"): receive.Malformed} {
		want(t, h, r, outcome)
	}
	if c, err := o.Store.Look(t.Context(), receive.Key{Source: "acme", ID: "evt_1"}); err != nil || c != (receive.Claim{}) || ran != 0 {
		t.Errorf("refused requests have left %+v, %v; the handler ran %d times", c, err, ran)
	}
	want(t, h, request(t, "evt_1", "{}"), receive.Processed)
}

// TestAnotherBodyIsAConflict: the same id with another body is answered, stored and not processed.
func TestAnotherBodyIsAConflict(t *testing.T) {
	for mode, endpoint := range modes {
		t.Run(mode, func(t *testing.T) {
			k, o := kit(t, receive.Options{})
			h := endpoint(k, func(context.Context, *receive.Delivery) error { return nil })
			want(t, h, request(t, "evt_1", "first"), receive.Processed)
			r := request(t, "evt_1", "second")
			r.Header.Set("Authorization", "Bearer inv_1")
			r.Header.Set("Cookie", "inv_1")
			want(t, h, r, receive.Conflict)
			l, found, err := o.Store.(receive.Letters).Letter(t.Context(), receive.Key{Source: "acme", ID: "evt_1"})
			if err != nil || !found || string(l.Body) != "second" || !strings.HasPrefix(l.Error, "conflict") || l.Header["webhook-id"] != "evt_1" ||
				l.Header["authorization"]+l.Header["cookie"] != "" {
				t.Errorf("the letter is %+v (%v), %v", l, found, err)
			}
			if _, err := h.Replay(t.Context(), "evt_1"); !errors.Is(err, receive.ErrNotDead) {
				t.Errorf("a conflict was replayed: %v", err)
			}
		})
	}
}

// TestCopiesAtOnceHaveOneEffect: of many copies at once one handler runs, and all are answered 200.
func TestCopiesAtOnceHaveOneEffect(t *testing.T) {
	for mode, endpoint := range modes {
		t.Run(mode, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				k, _ := kit(t, receive.Options{})
				runs := 0
				h := endpoint(k, func(context.Context, *receive.Delivery) error {
					runs++
					time.Sleep(time.Second)
					return nil
				})
				var copies sync.WaitGroup
				for range 20 {
					copies.Go(func() {
						if o := send(t, h, request(t, "evt_1", "{}")); o.Status() != http.StatusOK {
							t.Errorf("a copy is answered %s", o)
						}
					})
				}
				copies.Wait()
				if runs != 1 {
					t.Errorf("the handler ran %d times", runs)
				}
			})
		})
	}
}

// TestACopyGetsTheRunningOnesAnswer: it waits for the owner and answers with its outcome; after
// Wait the answer is in_progress.
func TestACopyGetsTheRunningOnesAnswer(t *testing.T) {
	for _, c := range []struct {
		takes time.Duration
		err   error
		want  receive.Outcome
	}{{time.Second, nil, receive.Processed}, {time.Second, errFault, receive.Failed}, {time.Second, receive.ErrStale, receive.Stale},
		{time.Second, receive.Permanent(errFault), receive.DeadLettered}, {time.Minute, nil, receive.InProgress}} {
		synctest.Test(t, func(t *testing.T) {
			k, _ := kit(t, receive.Options{})
			runs := 0
			h := k.Claim(func(context.Context, *receive.Delivery) error {
				runs++
				time.Sleep(c.takes)
				return c.err
			})
			var first sync.WaitGroup
			first.Go(func() { send(t, h, request(t, "evt_1", "{}")) })
			synctest.Wait()
			began := time.Now()
			want(t, h, request(t, "evt_1", "{}"), c.want)
			if took := time.Since(began); took > receive.DefaultWait || c.want == receive.InProgress && took != receive.DefaultWait {
				t.Errorf("the copy waited %s", took)
			}
			first.Wait()
			if runs != 1 {
				t.Errorf("the handler ran %d times", runs)
			}
		})
	}
}

// TestTheLeaseIsRenewed: a handler that ignores the end of its context keeps its claim as long as
// it runs; its context ends at Timeout.
func TestTheLeaseIsRenewed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := kit(t, receive.Options{})
		runs := 0
		var ended time.Duration
		h := k.Claim(func(ctx context.Context, _ *receive.Delivery) error {
			runs++
			began := time.Now()
			<-ctx.Done()
			ended = time.Since(began)
			time.Sleep(10 * time.Minute)
			return nil
		})
		var first sync.WaitGroup
		first.Go(func() { want(t, h, request(t, "evt_1", "{}"), receive.Processed) })
		for range 10 {
			time.Sleep(time.Minute)
			want(t, h, request(t, "evt_1", "{}"), receive.InProgress)
		}
		first.Wait()
		want(t, h, request(t, "evt_1", "{}"), receive.Duplicate)
		if runs != 1 || ended != receive.DefaultTimeout {
			t.Errorf("the handler ran %d times; its context ended after %s", runs, ended)
		}
	})
}

// TestALostClaim: an owner that was replaced stops, changes nothing, and says that the event is in
// progress.
func TestALostClaim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen receive.Observation
		k, o := kit(t, receive.Options{Observe: func(o receive.Observation) { seen = o }})
		h := k.Claim(func(ctx context.Context, d *receive.Delivery) error {
			later := time.Now().Add(time.Hour)
			c, err := o.Store.Claim(ctx, receive.Bid{Key: receive.Key{Source: d.Source, ID: d.ID}, Owner: "thief", Now: later,
				LeaseUntil: later.Add(time.Hour), KeepUntil: later.Add(time.Hour)})
			if err != nil || c.Owner != "thief" || c.Generation != d.Generation+1 {
				t.Errorf("the thief's claim is %+v, %v", c, err)
			}
			<-ctx.Done()
			if !errors.Is(context.Cause(ctx), receive.ErrLostClaim) {
				t.Errorf("the handler's context ended by %v", context.Cause(ctx))
			}
			return nil
		})
		want(t, h, request(t, "evt_1", "{}"), receive.InProgress)
		if !errors.Is(seen.Err, receive.ErrLostClaim) {
			t.Errorf("the observer got %v", seen.Err)
		}
		c, err := o.Store.Look(t.Context(), receive.Key{Source: "acme", ID: "evt_1"})
		if err != nil || c.Owner != "thief" || c.State != receive.Busy {
			t.Errorf("the row is %+v, %v", c, err)
		}
	})
}

// TestTheSenderMayLeave: a handler goes on if the client's connection ends, so the repetition is a
// duplicate.
func TestTheSenderMayLeave(t *testing.T) {
	for mode, endpoint := range modes {
		t.Run(mode, func(t *testing.T) {
			k, _ := kit(t, receive.Options{})
			ctx, leave := context.WithCancel(t.Context())
			h := endpoint(k, func(ctx context.Context, _ *receive.Delivery) error {
				leave()
				return ctx.Err()
			})
			want(t, h, request(t, "evt_1", "{}").WithContext(ctx), receive.Processed)
			want(t, h, request(t, "evt_1", "{}"), receive.Duplicate)
		})
	}
}

// TestTooManyAtOnce: a request beyond Concurrency is answered without being read.
func TestTooManyAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, _ := kit(t, receive.Options{Concurrency: 2})
		h := k.Claim(func(context.Context, *receive.Delivery) error { time.Sleep(time.Second); return nil })
		var running sync.WaitGroup
		for _, id := range []string{"evt_1", "evt_2"} {
			running.Go(func() { want(t, h, request(t, id, "{}"), receive.Processed) })
		}
		synctest.Wait()
		want(t, h, request(t, "evt_3", "{}"), receive.Overloaded)
		running.Wait()
		want(t, h, request(t, "evt_3", "{}"), receive.Processed)
	})
}
