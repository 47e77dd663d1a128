package app

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/store/postgres/pgtest"
	"github.com/grapnelhq/grapnel/sign"
)

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

var server *pgtest.Server

func TestMain(m *testing.M) {
	var err error
	if server, err = pgtest.Start(context.Background(), pgtest.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	code := m.Run()
	if err := server.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// receiver is a running receiver.
type receiver struct {
	t   *testing.T
	url string
}

func start(t *testing.T, store, mode string) receiver {
	t.Helper()
	env := map[string]string{"STORE": store, "MODE": mode, "SECRET": secret, "SECRET2": secret, "PORT": "0"}
	switch store {
	case "sqlite":
		env["DSN"] = t.TempDir() + "/receiver.db"
	case "postgres", "pgx":
		dsn, err := server.Create(t.Context(), store+"_"+mode)
		if err != nil {
			t.Fatal(err)
		}
		env["DSN"] = dsn
	}
	ctx, stop := context.WithCancel(context.Background())
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := Run(ctx, func(name string) string { return env[name] }, in, Stores)
		_ = in.CloseWithError(err)
		ended <- err
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return receiver{t, strings.TrimSpace(strings.TrimPrefix(line, "listening on "))}
}

// post sends a signed event, and returns the answer's status and outcome.
func (r receiver) post(path, id, data string, at time.Time) (int, string) {
	r.t.Helper()
	body := fmt.Sprintf(`{"type":"invoice.paid","timestamp":"2026-01-02T03:04:05Z","data":%s}`, data)
	signature, err := sign.Sign(id, at, []byte(body), secret)
	if err != nil {
		r.t.Fatal(err)
	}
	q, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	q.Header.Set("webhook-id", id)
	q.Header.Set("webhook-timestamp", strconv.FormatInt(at.Unix(), 10))
	q.Header.Set("webhook-signature", signature)
	answer, err := http.DefaultClient.Do(q)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	return answer.StatusCode, answer.Header.Get("Webhook-Outcome")
}

func (r receiver) order(path string) {
	r.t.Helper()
	answer, err := http.Post(r.url+path, "", nil)
	if err != nil || answer.StatusCode != http.StatusNoContent {
		r.t.Fatalf("%s: %v, %v", path, answer, err)
	}
	_ = answer.Body.Close()
}

// found is the probe's answer.
type found struct {
	Effects, Version int
	State            string
}

func (r receiver) ask(query string) (got found) {
	r.t.Helper()
	answer, err := http.Get(r.url + "/_probe?" + query)
	if err != nil {
		r.t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if err := json.NewDecoder(answer.Body).Decode(&got); err != nil {
		r.t.Fatal(err)
	}
	return got
}

func (r receiver) probe(query string, effects int, version int, state string) {
	r.t.Helper()
	if got, want := r.ask(query), (found{effects, version, state}); got != want {
		r.t.Errorf("%s: %+v; want %+v", query, got, want)
	}
}

// await asks until an invoice has its effects.
func (r receiver) await(query string, effects int) {
	r.t.Helper()
	for end := time.Now().Add(30 * time.Second); r.ask(query).Effects != effects; {
		if time.Now().After(end) {
			r.t.Fatalf("%s: %+v; want %d effects", query, r.ask(query), effects)
		}
	}
}

func (r receiver) want(path, id, data, outcome string) {
	r.t.Helper()
	if status, got := r.post(path, id, data, time.Now()); got != outcome {
		r.t.Errorf("%s: the answer is %d %s; want %s", id, status, got, outcome)
	}
}

// TestReceiver: each store in each mode has one effect for each event, and does as it is told.
func TestReceiver(t *testing.T) {
	for store := range Stores {
		t.Run(store+"/inbox", func(t *testing.T) { inbox(t, start(t, store, "inbox")) })
		for _, mode := range []string{"transaction", "claim"} {
			t.Run(store+"/"+mode, func(t *testing.T) {
				r := start(t, store, mode)
				var copies sync.WaitGroup
				for range 8 {
					copies.Go(func() {
						const data = `{"invoice":"inv_1","amount":500,"version":3,"status":"paid"}`
						if status, outcome := r.post("/hooks", "evt_1", data, time.Now()); status != 200 {
							t.Errorf("a copy is answered %d %s", status, outcome)
						}
					})
				}
				copies.Wait()
				r.probe("event=evt_1", 1, 3, "paid")
				r.want("/hooks", "evt_2", `{"invoice":"inv_1","amount":400,"version":2,"status":"open"}`, "stale")
				r.probe("key=inv_1", 1, 3, "paid")
				r.want("/other", "evt_1", `{"invoice":"inv_2","amount":500,"status":"open"}`, "processed")
				r.want("/other", "evt_3", `{"invoice":"inv_2","amount":500,"status":"paid"}`, "processed")
				r.want("/other", "evt_4", `{"invoice":"inv_2","amount":500,"status":"draft"}`, "stale")
				r.want("/other", "evt_1", `{"invoice":"inv_2","amount":501,"status":"open"}`, "conflict")
				r.probe("key=inv_2", 2, 0, "paid")
				r.want("/hooks", "evt_5", `{"invoice":"inv_3","amount":1,"occurred_at":"2026-01-02T03:04:05.000000002Z"}`, "processed")
				r.want("/hooks", "evt_6", `{"invoice":"inv_3","amount":1,"occurred_at":"2026-01-02T03:04:05.000000001Z"}`, "stale")

				r.order("/_fault?event=evt_7&kind=transient&times=2")
				for _, outcome := range []string{"retryable", "retryable", "processed", "duplicate"} {
					r.want("/hooks", "evt_7", `{"invoice":"inv_4","amount":1}`, outcome)
				}
				r.probe("event=evt_7", 1, 0, "")
				r.order("/_fault?event=evt_8&kind=permanent")
				for range 2 {
					r.want("/hooks", "evt_8", `{"invoice":"inv_5","amount":1}`, "dead_lettered")
				}
				r.probe("event=evt_8", 0, 0, "")

				later := time.Now().Add(24 * time.Hour)
				r.order(fmt.Sprintf("/_clock?now=%d", later.Unix()))
				r.want("/hooks", "evt_9", `{"invoice":"inv_6","amount":1}`, "expired")
				if status, outcome := r.post("/hooks", "evt_9", `{"invoice":"inv_6","amount":1}`, later); status != 200 {
					t.Errorf("tomorrow the answer is %d %s", status, outcome)
				}
				r.order("/_clock?now=0")
				r.want("/hooks", "evt_9", `{"invoice":"inv_6","amount":1}`, "duplicate")
				r.probe("event=evt_9", 1, 0, "")
			})
		}
	}
}

// inbox: requests are answered at once, and workers make one effect for each.
func inbox(t *testing.T, r receiver) {
	r.order("/_fault?event=evt_1&kind=transient&times=2")
	r.want("/hooks", "evt_1", `{"invoice":"inv_1","amount":500,"version":1}`, "accepted")
	r.want("/hooks", "evt_1", `{"invoice":"inv_1","amount":500,"version":1}`, "duplicate")
	r.want("/hooks", "evt_2", `{"invoice":"inv_1","amount":500,"version":2}`, "accepted")
	r.order("/_fault?event=evt_3&kind=permanent")
	r.want("/other", "evt_3", `{"invoice":"inv_2","amount":500}`, "accepted")
	r.await("key=inv_1", 2)
	r.probe("event=evt_1", 1, 2, "")
	r.probe("event=evt_3", 0, 0, "")
}
