package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/policy"
)

// queue is a server with one queue, as far as consumers see it. Its clock is that of the bubble.
type queue struct {
	mu      sync.Mutex
	waiting []string             // bodies without a lease
	leased  map[string]time.Time // by token: when it ends
	length  time.Duration        // of a lease
	log     []string             // requests, without those that only wait
	granted int
	asked   []int // max of each next
	// a request to answer with a broken connection, after it was carried out; nil: none
	fault  func(string) bool
	away   bool   // every request is refused
	refuse int    // next is answered with this; 0: it is not
	urls   string // what ack_url and its like say
}

func newQueue(bodies ...string) *queue {
	return &queue{waiting: bodies, leased: map[string]time.Time{}, length: 30 * time.Second, urls: "http://elsewhere.example/x"}
}

func (q *queue) serve(r *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(r.Body)
	verb := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	var resp *http.Response
	if verb == "next" {
		resp = q.next(r)
	} else {
		resp = q.lease(r, verb, body)
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fault != nil && q.fault(verb) {
		return nil, io.ErrUnexpectedEOF
	}
	return resp, r.Context().Err()
}

// next answers at once if there is a message, else at the end of the wait. A message that comes
// during the wait is not handed out by it; no test needs that.
func (q *queue) next(r *http.Request) *http.Response {
	wait, _ := time.ParseDuration(r.URL.Query().Get("wait"))
	n, _ := strconv.Atoi(r.URL.Query().Get("max"))
	q.mu.Lock()
	defer q.mu.Unlock()
	q.asked = append(q.asked, n)
	switch {
	case q.away:
		return answer(503, `{"code":"unavailable"}`)
	case q.refuse != 0:
		return answer(q.refuse, `{"code":"x","detail":"no"}`)
	}
	if len(q.waiting) == 0 {
		q.mu.Unlock()
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-r.Context().Done():
		}
		q.mu.Lock()
		return answer(204, "")
	}
	var items []string
	for ; len(items) < n && len(q.waiting) > 0; q.waiting = q.waiting[1:] {
		q.granted++
		token, end := fmt.Sprintf("lse_%d", q.granted), time.Now().Add(q.length)
		q.leased[token] = end
		items = append(items, fmt.Sprintf(`{"meta":{"lease":%q,"event_id":"evt_%s","attempt":1,"lease_expires_at":%q,"ack_url":%q},"body":%s}`,
			token, q.waiting[0], end.UTC().Format(time.RFC3339Nano), q.urls, q.waiting[0]))
	}
	return answer(200, `{"data":[`+strings.Join(items, ",")+`]}`, "Date", time.Now().UTC().Format(http.TimeFormat))
}

func (q *queue) lease(r *http.Request, verb string, body []byte) *http.Response {
	token := strings.Split(r.URL.Path, "/")[3]
	q.mu.Lock()
	defer q.mu.Unlock()
	q.log = append(q.log, strings.TrimSpace(verb+" "+token+" "+string(body)))
	end, there := q.leased[token]
	switch {
	case q.away:
		return answer(503, "")
	case !there || !time.Now().Before(end):
		return answer(409, `{"code":"conflict","detail":"the lease is over"}`)
	case verb == "extend":
		var in struct{ By string }
		_ = json.Unmarshal(body, &in)
		by, _ := time.ParseDuration(in.By)
		q.leased[token] = time.Now().Add(by)
		return answer(200, `{"lease_expires_at":"`+q.leased[token].UTC().Format(time.RFC3339Nano)+`"}`)
	}
	delete(q.leased, token)
	return answer(204, "")
}

func (q *queue) seen() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return append([]string(nil), q.log...)
}

// onceAcked stops a consumer with its first message, which must be acked.
func onceAcked(t *testing.T, stop func()) client.ConsumeOptions {
	return client.ConsumeOptions{Settled: func(s client.Settled) {
		stop()
		if s.Err != nil || s.Outcome != client.Acked {
			t.Errorf("told %+v", s)
		}
	}}
}

// consume consumes until everything that was settled is n, or for a minute.
func (q *queue) consume(t *testing.T, n int, o client.ConsumeOptions, handle client.Handler) []client.Settled {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var mu sync.Mutex
	var all []client.Settled
	o.Settled = func(s client.Settled) {
		mu.Lock()
		defer mu.Unlock()
		if all = append(all, s); len(all) == n {
			stop()
		}
	}
	if err := with(t, q.serve).Consume(ctx, "orders", handle, o); err != nil {
		t.Fatal(err)
	}
	if len(all) != n {
		t.Fatalf("%d messages were settled, want %d", len(all), n)
	}
	return all
}

func TestConsumeSettlesByError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("1", "2", "3", "4", "5")
		failed := errors.New("the database is away")
		all := q.consume(t, 5, client.ConsumeOptions{}, func(_ context.Context, m *client.Message) error {
			switch string(m.Body) {
			case "2":
				return client.Reject(fmt.Errorf("no customer: %w", failed))
			case "3":
				return client.RetryAfter(90*time.Second, failed)
			case "4":
				return failed
			case "5":
				panic("a nil map")
			}
			return nil
		})
		want := []string{
			"ack lse_1",
			`reject lse_2 {"reason":"no customer: the database is away"}`,
			`nack lse_3 {"delay":"1m30s","reason":"the database is away"}`,
			`nack lse_4 {"reason":"the database is away"}`,
			`nack lse_5 {"reason":"panic: a nil map"}`,
		}
		if d := cmp.Diff(want, q.seen()); d != "" {
			t.Error(d)
		}
		if all[0].Outcome != client.Acked || all[1].Outcome != client.Rejected || all[4].Outcome != client.Nacked || all[3].Err != nil {
			t.Errorf("told %+v", all)
		}
	})
}

func TestConsumeAsksOnlyForWhatItHasHandlersFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("1", "2", "3", "4", "5", "6", "7")
		var mu sync.Mutex
		running, most := 0, 0
		q.consume(t, 7, client.ConsumeOptions{Concurrency: 3}, func(context.Context, *client.Message) error {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			<-time.After(time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			return nil
		})
		if most != 3 {
			t.Errorf("%d handlers ran at once, want 3", most)
		}
		for _, n := range q.asked {
			if n < 1 || n > 3 {
				t.Errorf("it asked for %d messages with 3 handlers", n)
			}
		}
	})
}

func TestConsumeExtendsTheLeasesOfSlowHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("1")
		all := q.consume(t, 1, client.ConsumeOptions{}, func(ctx context.Context, _ *client.Message) error {
			<-time.After(50 * time.Second)
			return ctx.Err()
		})
		if all[0].Err != nil || all[0].Outcome != client.Acked {
			t.Errorf("told %+v", all[0])
		}
		want := []string{`extend lse_1 {"by":"30s"}`, `extend lse_1 {"by":"30s"}`, `extend lse_1 {"by":"30s"}`, "ack lse_1"}
		if d := cmp.Diff(want, q.seen()); d != "" {
			t.Error(d)
		}
	})
}

// What extends leases must not be thrown off by a consumer's clock that is wrong by an hour.
func TestConsumeDoesNotTrustItsOwnClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("1")
		skewed := func(r *http.Request) (*http.Response, error) {
			resp, err := q.serve(r)
			if err != nil || !strings.HasSuffix(r.URL.Path, "/next") {
				return resp, err
			}
			body, _ := io.ReadAll(resp.Body)
			end := time.Now().Add(q.length).UTC()
			text := strings.ReplaceAll(string(body), end.Format(time.RFC3339Nano), end.Add(-time.Hour).Format(time.RFC3339Nano))
			return answer(resp.StatusCode, text, "Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat)), nil
		}
		ctx, stop := context.WithCancel(t.Context())
		err := with(t, skewed).Consume(ctx, "orders", func(ctx context.Context, _ *client.Message) error {
			<-time.After(20 * time.Second)
			return context.Cause(ctx)
		}, onceAcked(t, stop))
		if err != nil {
			t.Fatal(err)
		}
		if seen := q.seen(); len(seen) != 2 || !strings.HasPrefix(seen[0], "extend lse_1 ") {
			t.Errorf("it asked for %q", seen)
		}
	})
}

// slow is a body whose first byte comes late.
type slow struct {
	io.ReadCloser
	by time.Duration
}

func (s *slow) Read(p []byte) (int, error) {
	time.Sleep(s.by)
	s.by = 0
	return s.ReadCloser.Read(p)
}

// A large answer over a slow line takes a part of the leases in it; it is no sign of a clock that
// is wrong.
func TestConsumeCountsTheTimeInWhichMessagesArrive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("1")
		late := func(r *http.Request) (*http.Response, error) {
			resp, err := q.serve(r)
			if err == nil && resp.StatusCode == http.StatusOK && strings.HasSuffix(r.URL.Path, "/next") {
				resp.Body = &slow{ReadCloser: resp.Body, by: 20 * time.Second}
			}
			return resp, err
		}
		ctx, stop := context.WithCancel(t.Context())
		err := with(t, late).Consume(ctx, "orders", func(ctx context.Context, _ *client.Message) error {
			<-time.After(15 * time.Second)
			return context.Cause(ctx)
		}, onceAcked(t, stop))
		if err != nil {
			t.Fatal(err)
		}
		if seen := q.seen(); seen[len(seen)-1] != "ack lse_1" {
			t.Errorf("it asked for %q", seen)
		}
	})
}

// An answer that takes half of its leases' time, or more than the client waits, is too large for
// the line. Asking for as many again would never end: the leases of each answer expire on the way.
func TestConsumeAsksForLessWhereAnswersTakeLong(t *testing.T) {
	for name, cut := range map[string]bool{"slow": false, "cut off": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				q := newQueue(strings.Split(strings.Repeat("1", 240), "")...)
				narrow := func(r *http.Request) (*http.Response, error) {
					resp, err := q.serve(r)
					if err == nil && strings.HasSuffix(r.URL.Path, "/next") {
						n, _ := strconv.Atoi(r.URL.Query().Get("max"))
						if took := time.Duration(n) * 200 * time.Millisecond; !cut {
							resp.Body = &slow{ReadCloser: resp.Body, by: took}
						} else if took > 15*time.Second {
							<-r.Context().Done()
							return nil, r.Context().Err()
						}
					}
					return resp, err
				}
				ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
				defer stop()
				o := client.ConsumeOptions{Concurrency: 100}
				if err := with(t, narrow).Consume(ctx, "orders", func(context.Context, *client.Message) error { return nil }, o); err != nil {
					t.Fatal(err)
				}
				if q.asked[0] != 100 || slices.Max(q.asked[1:4]) > 52 || slices.Max(q.asked[1:6]) < 50 {
					t.Errorf("it asked for %d messages", q.asked)
				}
			})
		})
	}
}

// A clock that is a second or two behind must not make a short lease look twice as long.
func TestConsumeExtendsAShortLeaseByAClockThatIsBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("1")
		q.length = time.Second
		ahead := func(r *http.Request) (*http.Response, error) {
			resp, err := q.serve(r)
			if err != nil || !strings.HasSuffix(r.URL.Path, "/next") {
				return resp, err
			}
			body, _ := io.ReadAll(resp.Body)
			end, by := time.Now().Add(q.length).UTC(), 1500*time.Millisecond
			text := strings.ReplaceAll(string(body), end.Format(time.RFC3339Nano), end.Add(by).Format(time.RFC3339Nano))
			return answer(resp.StatusCode, text, "Date", time.Now().Add(by).UTC().Format(http.TimeFormat)), nil
		}
		ctx, stop := context.WithCancel(t.Context())
		err := with(t, ahead).Consume(ctx, "orders", func(ctx context.Context, _ *client.Message) error {
			<-time.After(3 * time.Second)
			return context.Cause(ctx)
		}, onceAcked(t, stop))
		if err != nil {
			t.Fatal(err)
		}
	})
}

// A lease of the longest duration looks longer to a clock that is a little behind, and a server
// refuses to extend a lease by more than that.
func TestConsumeExtendsTheLongestLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("1")
		q.length = grapnel.MaxLease
		ahead := func(r *http.Request) (*http.Response, error) {
			switch {
			case strings.HasSuffix(r.URL.Path, "/next"):
				resp, err := q.serve(r)
				if err != nil || resp.StatusCode != http.StatusOK {
					return resp, err
				}
				body, _ := io.ReadAll(resp.Body)
				end := time.Now().Add(q.length).UTC()
				text := strings.ReplaceAll(string(body), end.Format(time.RFC3339Nano), end.Add(time.Second).Format(time.RFC3339Nano))
				return answer(resp.StatusCode, text, "Date", time.Now().Add(time.Second).UTC().Format(http.TimeFormat)), nil
			case strings.HasSuffix(r.URL.Path, "/extend"):
				var in struct{ By policy.Duration }
				body, _ := io.ReadAll(r.Body)
				if err := json.Unmarshal(body, &in); err != nil || in.By.Std() > grapnel.MaxLease {
					return answer(422, `{"code":"invalid"}`), nil
				}
				r.Body = io.NopCloser(strings.NewReader(string(body)))
			}
			return q.serve(r)
		}
		ctx, stop := context.WithCancel(t.Context())
		err := with(t, ahead).Consume(ctx, "orders", func(ctx context.Context, _ *client.Message) error {
			select {
			case <-ctx.Done():
			case <-time.After(13 * time.Hour):
			}
			return context.Cause(ctx)
		}, onceAcked(t, stop))
		if err != nil {
			t.Fatal(err)
		}
	})
}

func TestConsumeTellsTheHandlerThatItsLeaseIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("1")
		all := q.consume(t, 1, client.ConsumeOptions{}, func(ctx context.Context, _ *client.Message) error {
			q.mu.Lock()
			delete(q.leased, "lse_1") // an operator has given it to another consumer
			q.mu.Unlock()
			<-ctx.Done()
			return context.Cause(ctx)
		})
		if !errors.Is(all[0].Err, client.ErrLeaseLost) {
			t.Errorf("told %+v", all[0])
		}
		if seen := q.seen(); len(seen) != 1 {
			t.Errorf("it went on with a lease that was lost: %q", seen)
		}
	})
}

// A connection can be dead without a sign: requests have no answer. One such request must not cost
// the lease, and without any answer the handler must stop when the lease ends, not when a request
// is given up.
func TestConsumeKnowsTheEndOfItsLeaseWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, lost := range []int{1, 1 << 30} {
			q, left := newQueue("1"), lost
			dead := func(r *http.Request) (*http.Response, error) {
				if strings.HasSuffix(r.URL.Path, "/extend") && left > 0 {
					left--
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
				return q.serve(r)
			}
			var ended time.Duration // after which the handler's context ended
			ctx, stop := context.WithCancel(t.Context())
			err := with(t, dead).Consume(ctx, "orders", func(ctx context.Context, _ *client.Message) error {
				began := time.Now()
				select {
				case <-ctx.Done():
					ended = time.Since(began)
				case <-time.After(50 * time.Second):
				}
				return context.Cause(ctx)
			}, client.ConsumeOptions{Settled: func(one client.Settled) {
				stop()
				if errors.Is(one.Err, client.ErrLeaseLost) != (lost > 1) {
					t.Errorf("%d requests without an answer: told %+v", lost, one)
				}
			}})
			if err != nil || lost > 1 && (ended < 29*time.Second || ended > 30*time.Second+100*time.Millisecond) {
				t.Errorf("%d requests without an answer: %v; with a lease of 30s the handler was stopped after %v", lost, err, ended)
			}
		}
	})
}

func TestConsumeRepeatsAnAckWhoseAnswerWasLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("1")
		lose := 4 // more than one call repeats by itself
		q.fault = func(verb string) bool {
			if verb == "ack" && lose > 0 {
				lose--
				if lose > 0 {
					q.leased["lse_1"] = time.Now().Add(time.Minute) // not carried out either
				}
				return true
			}
			return false
		}
		all := q.consume(t, 1, client.ConsumeOptions{}, func(context.Context, *client.Message) error { return nil })
		// The last one was carried out and its answer lost. The repetition is told that the lease
		// is used, which does not say by whom.
		var refused *client.Error
		if seen := q.seen(); len(seen) != 5 || !errors.As(all[0].Err, &refused) || refused.Status != 409 {
			t.Errorf("%q, told %+v", seen, all[0])
		}
	})
}

// A dead connection must not cost an ack: another one is tried while the lease is valid.
func TestConsumeRepeatsAnAckWithoutAnAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q, tries := newQueue("1"), 0
		dead := func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/ack") {
				if tries++; tries == 1 {
					<-r.Context().Done()
					return nil, r.Context().Err()
				}
			}
			return q.serve(r)
		}
		ctx, stop := context.WithCancel(t.Context())
		err := with(t, dead).Consume(ctx, "orders", func(context.Context, *client.Message) error { return nil },
			client.ConsumeOptions{Settled: func(one client.Settled) {
				stop()
				if one.Err != nil {
					t.Errorf("told %+v", one)
				}
			}})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{"ack lse_1"}, q.seen()); d != "" {
			t.Error(d)
		}
	})
}

func TestConsumeStopsInGoodOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("1", "2", "3")
		ctx, stop := context.WithCancel(t.Context())
		began := time.Now()
		both := make(chan struct{})
		err := with(t, q.serve).Consume(ctx, "orders", func(ctx context.Context, m *client.Message) error {
			if string(m.Body) == "1" {
				<-both
				stop()
				<-time.After(5 * time.Second)
				return nil
			}
			close(both)
			<-ctx.Done() // never done by itself
			return ctx.Err()
		}, client.ConsumeOptions{Concurrency: 2, Drain: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 10*time.Second {
			t.Errorf("stopping took %v", took)
		}
		want := []string{"ack lse_1", `nack lse_2 {"reason":"context canceled"}`}
		if d := cmp.Diff(want, q.seen()); d != "" {
			t.Error(d)
		}
		if len(q.waiting) != 1 {
			t.Errorf("%d messages are left, want the one that there was no handler for", len(q.waiting))
		}
	})
}

func TestConsumeLeasesNoMoreThanItsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("1", "2", "3", "4", "5")
		err := with(t, q.serve).Consume(t.Context(), "orders", func(ctx context.Context, _ *client.Message) error {
			<-time.After(5 * time.Second)
			return ctx.Err()
		}, client.ConsumeOptions{Concurrency: 2, Count: 3, Drain: time.Second})
		if err != nil || len(q.waiting) != 2 {
			t.Errorf("%v; %d messages are left, want 2", err, len(q.waiting))
		}
		seen := q.seen()
		slices.Sort(seen)
		if d := cmp.Diff([]string{"ack lse_1", "ack lse_2", "ack lse_3"}, seen); d != "" {
			t.Error(d)
		}
	})
}

func TestConsumeGivesBackWhatCameTooLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("1")
		ctx, stop := context.WithCancel(t.Context())
		late := func(r *http.Request) (*http.Response, error) {
			if strings.HasSuffix(r.URL.Path, "/next") {
				resp, _ := q.serve(r)
				stop() // while the answer is on its way
				return resp, nil
			}
			return q.serve(r)
		}
		err := with(t, late).Consume(ctx, "orders", func(context.Context, *client.Message) error {
			t.Error("a handler was started after the stop")
			return nil
		}, client.ConsumeOptions{})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff([]string{`nack lse_1 {"delay":"0s","reason":"the consumer is being stopped"}`}, q.seen()); d != "" {
			t.Error(d)
		}
	})
}

func TestConsumeWaitsForAServerThatIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("1")
		q.away = true
		told := 0
		go func() {
			<-time.After(30 * time.Second)
			q.mu.Lock()
			defer q.mu.Unlock()
			q.away = false
		}()
		q.consume(t, 1, client.ConsumeOptions{Trouble: func(error) { told++ }}, func(context.Context, *client.Message) error { return nil })
		if told < 3 || len(q.asked) > 60 {
			t.Errorf("it told of trouble %d times and asked %d times in half a minute", told, len(q.asked))
		}
	})
}

// The pause that a server asks for is a minimum, of questions and of settlements: jitter only adds
// to it.
func TestConsumeRestsAsLongAsTheServerAsks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("1")
		var last time.Time
		refusals := map[string]int{"next": 20, "ack": 3}
		c := with(t, func(r *http.Request) (*http.Response, error) {
			verb := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
			if since := time.Since(last); !last.IsZero() && since < 6*time.Second {
				t.Errorf("%s: asked again after %v", verb, since)
			}
			if last = (time.Time{}); refusals[verb] > 0 {
				refusals[verb]--
				last = time.Now()
				return answer(503, `{"code":"overloaded"}`, "Retry-After", "6"), nil
			}
			return q.serve(r)
		})
		err := c.Consume(t.Context(), "orders", func(context.Context, *client.Message) error { return nil }, client.ConsumeOptions{Count: 1})
		if seen := q.seen(); err != nil || refusals["next"]+refusals["ack"] != 0 || len(seen) != 1 {
			t.Errorf("%v, the server saw %v, and %v were not asked for", err, seen, refusals)
		}
	})
}

func TestConsumeEndsWhenAskingAgainIsNoUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, status := range []int{401, 403, 404, 422} {
			q := newQueue()
			q.refuse = status
			err := with(t, q.serve).Consume(t.Context(), "orders", nil, client.ConsumeOptions{})
			var refused *client.Error
			if !errors.As(err, &refused) || refused.Status != status || len(q.asked) != 1 {
				t.Errorf("%d: %v after %d questions", status, err, len(q.asked))
			}
		}
	})
}

// An answer that is empty at once, again and again, must not become a loop without a pause.
func TestConsumeDoesNotSpin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		err := with(t, func(*http.Request) (*http.Response, error) {
			asked++
			return answer(204, ""), nil
		}).Consume(ctx, "orders", nil, client.ConsumeOptions{})
		if err != nil || asked > 30 {
			t.Errorf("%v after %d questions in a minute", err, asked)
		}
	})
}

func TestConsumeStaysWithItsServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue("1")
		hosts := map[string]bool{}
		ctx, stop := context.WithCancel(t.Context())
		err := with(t, func(r *http.Request) (*http.Response, error) {
			q.mu.Lock()
			hosts[r.URL.Host] = true
			q.mu.Unlock()
			return q.serve(r)
		}).Consume(ctx, "orders", func(context.Context, *client.Message) error { return nil },
			client.ConsumeOptions{Settled: func(client.Settled) { stop() }})
		if err != nil || len(hosts) != 1 || !hosts["127.0.0.1:8420"] {
			t.Errorf("%v; it asked %v", err, hosts)
		}
	})
}

// A body ends with a line break where its provider's encoder writes one. It is signed with it, so a
// consumer that verifies needs it.
func TestMessagesKeepTheSpaceAroundTheirBodies(t *testing.T) {
	c, err := client.New(here)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateQueue(t.Context(), client.NewQueue{Name: "spaces", EventTypes: []string{"space.*"}}); err != nil {
		t.Fatal(err)
	}
	bodies := []string{"{\"n\":1}\n", " 1", "{\r\n\"n\": 1\r\n}", "{\n}"}
	for _, body := range bodies {
		ev := client.RawEvent{Type: "space.kept", Data: []byte(body), ContentType: "application/json"}
		if _, err := c.PublishRaw(t.Context(), ev); err != nil {
			t.Fatal(err)
		}
	}
	got, err := c.Next(t.Context(), "spaces", client.Take{Max: 10, Wait: 10 * time.Second})
	if err != nil || len(got) != len(bodies) {
		t.Fatal(got, err)
	}
	for i, m := range got {
		if string(m.Body) != bodies[i] {
			t.Errorf("%q came as %q", bodies[i], m.Body)
		}
	}
}

func TestMessagesKeepTheirBytes(t *testing.T) {
	body := `{"data":[{"meta":{"lease":"lse_1","type":"a.b","content_type":"application/json"},"body":{ "n": 1.00, "x":"<&>" }},` +
		`{"meta":{"lease":"lse_2"},"body_base64":"AAE="}]}`
	c := with(t, func(r *http.Request) (*http.Response, error) {
		if r.URL.RequestURI() != "/v1/queues/a%2Fb/next?consumer=me&max=5&wait=2s" {
			t.Errorf("asked %s", r.URL.RequestURI())
		}
		return answer(200, body), nil
	})
	got, err := c.Next(t.Context(), "a/b", client.Take{Max: 5, Wait: 2 * time.Second, Consumer: "me"})
	if err != nil || len(got) != 2 {
		t.Fatal(got, err)
	}
	if string(got[0].Body) != `{ "n": 1.00, "x":"<&>" }` || got[0].Type != "a.b" || string(got[1].Body) != "\x00\x01" {
		t.Errorf("read %q and %q", got[0].Body, got[1].Body)
	}
}
