package receivetest_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/receive"
	"github.com/grapnelhq/grapnel/receive/memstore"
	"github.com/grapnelhq/grapnel/receive/receivetest"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// service is a small invoice service in memory.
type service struct {
	mu     sync.Mutex
	ledger map[string]int // effects by event
	rows   map[string]receivetest.Invoice
	latest map[string]string // time and event of the last change
	faults map[string][]func(context.Context) error
	skew   time.Duration
}

func newService() *service {
	return &service{ledger: map[string]int{}, rows: map[string]receivetest.Invoice{}, latest: map[string]string{},
		faults: map[string][]func(context.Context) error{}}
}

var edges = map[string][]string{"": {"draft"}, "draft": {"open"}, "open": {"paid", "void"}, "paid": {"refunded"}}

// handle applies an event when its transaction commits.
func (s *service) handle(ctx context.Context, tx *memstore.Tx, d *receive.Delivery) error {
	var event struct {
		Data struct {
			Invoice, Status string
			Version, Amount json.Number
			OccurredAt      string `json:"occurred_at"`
		}
	}
	if err := d.Decode(&event); err != nil {
		return err
	}
	s.mu.Lock()
	var fault func(context.Context) error
	if next := s.faults[d.ID]; len(next) > 0 {
		fault, s.faults[d.ID] = next[0], next[1:]
	}
	s.mu.Unlock()
	if fault != nil {
		if err := fault(ctx); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	i, was := event.Data, s.rows[event.Data.Invoice]
	version, _ := i.Version.Int64()
	newest, _ := json.Number(cmp.Or(was.Version, "0")).Int64()
	at := i.OccurredAt + " " + d.ID
	switch {
	case i.Version != "" && version <= newest,
		i.Status != "" && !slices.Contains(edges[was.Status], i.Status),
		i.OccurredAt != "" && at <= s.latest[i.Invoice]:
		return receive.ErrStale
	}
	tx.OnCommit(func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.ledger[d.ID]++
		s.latest[i.Invoice] = at
		s.rows[i.Invoice] = receivetest.Invoice{Effects: was.Effects + 1, Version: i.Version.String(), Status: i.Status,
			Amount: i.Amount.String()}
	})
	return nil
}

// options show all that the cases need.
func (s *service) options() receivetest.Options {
	return receivetest.Options{
		Path: "/hooks", OtherPath: "/other", Secret: secret, Settle: time.Second, AckBudget: 3 * time.Second,
		Effects: func(event string) int {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.ledger[event]
		},
		Key: func(invoice string) receivetest.Invoice {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.rows[invoice]
		},
		SetClock: func(now time.Time) {
			s.mu.Lock()
			defer s.mu.Unlock()
			if s.skew = 0; !now.IsZero() {
				s.skew = time.Until(now)
			}
		},
		Fail: func(event, kind string, times int, pause time.Duration) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.faults[event] = slices.Repeat([]func(context.Context) error{func(ctx context.Context) error {
				timer := time.NewTimer(pause)
				defer timer.Stop()
				select {
				case <-timer.C:
				case <-ctx.Done():
				}
				passing := receive.Retryable(errors.New("for now"))
				return map[string]error{"transient": passing, "hang": passing, "permanent": receive.Permanent(errors.New("for good"))}[kind]
			}}, times)
		},
	}
}

// handler is the service behind a kit for each source.
func (s *service) handler(t *testing.T) http.Handler {
	t.Helper()
	mux := http.NewServeMux()
	for path, source := range map[string]string{"/hooks": "acme", "/other": "other"} {
		now := func() time.Time {
			s.mu.Lock()
			defer s.mu.Unlock()
			return time.Now().Add(s.skew)
		}
		kit, err := receive.New(receive.Options{Source: source, Verifier: receive.StandardWebhooks(secret), Store: memstore.New(), Now: now,
			Batches: true})
		if err != nil {
			t.Fatal(err)
		}
		mux.Handle("POST "+path, receive.Transaction(kit, s.handle))
	}
	return mux
}

// TestTheKitPasses: a service behind the kit passes every case, and none is left out but those that
// need a command. The subtests are run in another process, whose output says what they came to.
func TestTheKitPasses(t *testing.T) {
	s := newService()
	if os.Getenv("RECEIVETEST") == "kit" {
		receivetest.Run(t, s.handler(t), s.options())
		return
	}
	passed, failed, skipped := again(t, "kit")
	if passed != 24 || failed != 0 || skipped != 0 {
		t.Errorf("passed %d, failed %d, skipped %d of 24", passed, failed, skipped)
	}
}

// TestAHandlerWithoutDedupe: the cases about duplicates fail; without more options, those that need
// them are skipped.
func TestAHandlerWithoutDedupe(t *testing.T) {
	s := newService()
	if os.Getenv("RECEIVETEST") == "naive" {
		naive := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.ledger[r.Header.Get("webhook-id")]++
		})
		o := receivetest.Options{Secret: secret, Effects: s.options().Effects, Only: []string{"T01", "T02", "T11", "T18", "T25"}}
		receivetest.Run(t, naive, o)
		return
	}
	if passed, failed, skipped := again(t, "naive"); passed != 1 || failed != 2 || skipped != 2 {
		t.Errorf("passed %d, failed %d, skipped %d; want 1, 2, 2", passed, failed, skipped)
	}
}

// again runs the calling test in a process of its own and counts what its subtests came to.
func again(t *testing.T, as string) (passed, failed, skipped int) {
	t.Helper()
	run := exec.Command(os.Args[0], "-test.run", "^"+t.Name()+"$", "-test.v") //nolint:gosec // the test itself
	run.Env = append(os.Environ(), "RECEIVETEST="+as)
	out, _ := run.CombinedOutput() // its exit code is among the counts
	count := func(word string) int {
		return len(regexp.MustCompile(`(?m)^    --- `+word+`: `+t.Name()+`/T\d\d_`).FindAll(out, -1))
	}
	passed, failed, skipped = count("PASS"), count("FAIL"), count("SKIP")
	if !strings.Contains(string(out), "/T01_sequential_duplicate") || failed > 0 && as == "kit" {
		t.Logf("%s", out)
	}
	return passed, failed, skipped
}
