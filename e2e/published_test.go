//go:build linux && prove

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// published is a receiver whose source a preset's documents print, run as printed.
type published struct {
	file   string
	policy string
	data   []string // of the events, in order; all have one key
	check  func(t *testing.T, s receiverState, ids []string)
}

// receiverState is what a receiver reports about itself.
type receiverState struct {
	Processed []struct {
		ID         string    `json:"id"`
		OccurredAt time.Time `json:"occurredAt"`
		Timestamp  time.Time `json:"timestamp"`
		Field      string    `json:"field"`
		Payload    struct {
			MessageID string `json:"message_id"`
		} `json:"payload"`
	} `json:"processed"`
	Jobs []struct {
		EventID string `json:"eventId"`
		Field   string `json:"field"`
	} `json:"jobs"`
	Dead []struct {
		Event      struct{ ID string } `json:"event"`
		RetryCount int                 `json:"retryCount"`
	} `json:"dead"`
	Orders map[string]struct {
		Status  string `json:"status"`
		Version int    `json:"version"`
	} `json:"orders"`
}

// messages are events as the program Sent prints them.
var messages = []string{
	`{"field":"messages","timestamp":"2026-01-02T03:04:05Z","payload":{"message_id":"msg_1","message_status":"SENT"}}`,
	`{"field":"messages","timestamp":"2026-01-02T03:04:06Z","payload":{"message_id":"msg_2","message_status":"SENT"}}`,
	`{"field":"messages","timestamp":"2026-01-02T03:04:07Z","payload":{"message_id":"msg_3","message_status":"SENT"}}`,
}

// each checks that every event was processed once and that its repetition was recognised.
func each(t *testing.T, s receiverState, ids []string) {
	var got []string
	for _, p := range s.Processed {
		got = append(got, p.ID)
	}
	if slices.Sort(got); !slices.Equal(got, ids) { // two of the documents promise no order
		t.Errorf("processed were %v, want %v", got, ids)
	}
}

func eachMessage(t *testing.T, s receiverState, _ []string) {
	var got []string
	for _, p := range s.Processed {
		got = append(got, p.Payload.MessageID)
	}
	// Go's sample reads no message_id: its type is open.
	slices.Sort(got)
	if want := []string{"msg_1", "msg_2", "msg_3"}; !slices.Equal(got, want) {
		t.Errorf("processed were %v, want %v", got, want)
	}
}

// TestPublishedReceiversRunUnchanged: the receivers in the presets' documents run as printed, with
// only the preset and the address set, and then with every field of the preset edited once. Each
// event is processed once, and its repetition is recognised. Stand-ins fill what the samples leave
// open: framework, database, queue.
func TestPublishedReceiversRunUnchanged(t *testing.T) {
	beside(t, busy)
	c := newChild(t, program{}, t.TempDir())
	c.start()
	c.ready(20 * time.Second)
	three := []string{`{"n":1}`, `{"n":2}`, `{"n":3}`}
	for _, p := range []published{
		{"sent.ts", "sent", messages, eachMessage},
		{"sent.py", "sent", messages, eachMessage},
		{"sent.go.txt", "sent", messages, eachMessage},
		{"sent_queue.js", "sent", messages, func(t *testing.T, s receiverState, ids []string) {
			var got []string
			for _, job := range s.Jobs {
				got = append(got, job.EventID)
			}
			slices.Sort(got)
			if want := append([]string{ids[0]}, ids...); !slices.Equal(got, want) {
				t.Errorf("the jobs have the ids %v, want %v", got, want)
			}
		}},
		{"parseo.js", "parseo", three, func(t *testing.T, s receiverState, ids []string) {
			each(t, s, ids)
			for _, p := range s.Processed {
				if p.OccurredAt.IsZero() || !p.OccurredAt.Equal(p.Timestamp) {
					t.Errorf("%s occurred at %v, its time is %v", p.ID, p.OccurredAt, p.Timestamp)
				}
			}
		}},
		{"webhookify_redis.js", "webhookify", three, each},
		{"webhookify_postgres.js", "webhookify", three, each},
		{"webhookify_hash.js", "webhookify", three, each},
		{"webhookify_sequence.js", "webhookify", []string{
			`{"order_id":"ord_1","version":1,"status":"open"}`, `{"order_id":"ord_1","version":3,"status":"paid"}`,
			`{"order_id":"ord_1","version":2,"status":"stale"}`,
		}, func(t *testing.T, s receiverState, _ []string) {
			if is := s.Orders["ord_1"]; is.Version != 3 || is.Status != "paid" {
				t.Errorf("the order is %+v", is)
			}
		}},
	} {
		t.Run(p.file, func(t *testing.T) {
			url := runReceiver(t, p.file)
			endpoint := c.publishedEndpoint(p, url)
			c.editedOnce(endpoint, p.policy)
			ids := c.publishTo(p)
			delivered := c.delivered(t, endpoint, len(ids))
			// The first event is sent again, as a replay does.
			c.must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+delivered[ids[0]]+"/retry", nil, nil)
			c.delivered(t, endpoint, len(ids)+1)
			p.check(t, stateOf(t, url), ids)
			c.must(http.StatusNoContent, http.MethodDelete, "/v1/endpoints/"+endpoint, nil, nil)
		})
	}
	t.Run("webhookify_dlq.js", func(t *testing.T) { testPublishedDeadLetters(t, c) })
	t.Run("parseo calls", func(t *testing.T) { testPublishedCalls(t, c) })
}

// testPublishedDeadLetters: the sample gives up on an event at its fifth retry, which it reads from
// x-retry-count.
func testPublishedDeadLetters(t *testing.T, c *child) {
	p := published{file: "webhookify_dlq.js", policy: "webhookify", data: []string{`{"n":1}`}}
	url := runReceiver(t, p.file)
	endpoint := c.publishedEndpoint(p, url)
	c.editedOnce(endpoint, p.policy)
	ids := c.publishTo(p)
	var id string
	for attempts := 1; attempts <= 6; attempts++ {
		eventually(t, 20*time.Second, fmt.Sprintf("attempt %d is over", attempts), func() bool {
			var page struct{ Data []row }
			c.must(http.StatusOK, http.MethodGet, "/v1/endpoints/"+endpoint+"/deliveries", nil, &page)
			if len(page.Data) != 1 || page.Data[0].Attempts != attempts {
				return false
			}
			id = page.Data[0].ID
			return true
		})
		if attempts < 6 { // the test does not wait for the schedule
			c.must(http.StatusOK, http.MethodPost, "/v1/deliveries/"+id+"/retry", nil, nil)
		}
	}
	c.delivered(t, endpoint, 1)
	if dead := stateOf(t, url).Dead; len(dead) != 1 || dead[0].RetryCount != 5 || dead[0].Event.ID != ids[0] {
		t.Errorf("the receiver's dead letters are %+v", dead)
	}
	c.must(http.StatusNoContent, http.MethodDelete, "/v1/endpoints/"+endpoint, nil, nil)
}

// testPublishedCalls: failed deliveries are listed, and an event is sent as a test as its receiver
// got it, including occurredAt.
func testPublishedCalls(t *testing.T, c *child) {
	p := published{file: "parseo.js", policy: "parseo", data: []string{`{"n":1.50}`}}
	url := runReceiver(t, p.file)
	endpoint := c.publishedEndpoint(p, url)
	c.must(http.StatusOK, http.MethodPatch, "/v1/endpoints/"+endpoint, map[string]any{"transform": `error("not yet")`}, nil)
	c.publishTo(p)
	var failed struct {
		Data []struct {
			row
			Reason string `json:"reason"`
		}
	}
	eventually(t, 20*time.Second, "it has failed", func() bool {
		c.must(http.StatusOK, http.MethodGet, "/webhooks/"+endpoint+"/deliveries?status=failed", nil, &failed)
		return len(failed.Data) == 1
	})
	if d := failed.Data[0]; d.ReasonCode != grapnel.ReasonPermanent || !strings.Contains(d.Reason, "not yet") || d.Attempts != 0 {
		t.Errorf("it failed as %+v", d)
	}
	c.must(http.StatusOK, http.MethodPatch, "/v1/endpoints/"+endpoint, map[string]any{"transform": nil}, nil)
	c.must(http.StatusOK, http.MethodPost, "/webhooks/"+endpoint+"/test",
		[]byte(`{"id":"evt_4D3c2B","type":"order.made","occurredAt":"2026-01-02T03:04:05Z",`+
			`"timestamp":"2026-01-02T03:04:05Z","data":{"n":1.50}}`), nil)
	eventually(t, 20*time.Second, "the test has arrived", func() bool { return len(stateOf(t, url).Processed) == 1 })
	if got := stateOf(t, url).Processed[0]; got.ID == "evt_4D3c2B" || got.OccurredAt.IsZero() {
		t.Errorf("the test arrived as %+v", got)
	}
	c.must(http.StatusNoContent, http.MethodDelete, "/v1/endpoints/"+endpoint, nil, nil)
}

// publishedEndpoint creates the endpoint of a receiver, with an event type of its own.
func (c *child) publishedEndpoint(p published, url string) string {
	c.t.Helper()
	var made struct{ ID string }
	c.must(http.StatusCreated, http.MethodPost, "/v1/endpoints",
		map[string]any{"url": url + p.path(), "policy": p.policy, "event_types": []string{"order.made"}}, &made)
	return made.ID
}

// editedOnce edits every field of the endpoint's preset, each with a PATCH of its own.
func (c *child) editedOnce(endpoint, preset string) {
	c.t.Helper()
	edits := map[string]any{
		"timeout": "9s", "jitter": 0.2, "max_attempts": 11, "max_age": "47h", "success": []string{"200-204"},
		"schedule": map[string]any{"mode": "since_previous", "delays": []string{"0s", "20s", "40s"}, "tail": "repeat"},
		"classify": map[string]any{"418": "fail"}, "retry_after": "ignore", "on_exhausted": "dead_letter", "then": "block",
		"disable": map[string]any{"consecutive": 70}, "breaker": false,
		"limits": []map[string]any{{"codes": []string{"409"}, "attempts": 2}},
	}
	var fields, changed map[string]any
	c.must(http.StatusOK, http.MethodGet, "/v1/policies/"+preset, nil, &fields)
	for field := range fields {
		if slices.Contains([]string{"id", "name", "tenant", "preset", "changes", "created_at", "updated_at"}, field) {
			continue
		}
		edit, known := edits[field]
		if !known {
			c.t.Errorf("the test has no edit of %s", field)
		}
		c.must(http.StatusOK, http.MethodPatch, "/v1/endpoints/"+endpoint, map[string]any{"policy": map[string]any{field: edit}}, &changed)
	}
	if rules, own := changed["policy"].(map[string]any); !own || rules["preset"] != preset || rules["timeout"] != "9s" {
		c.t.Errorf("the edited policy is %v", changed["policy"])
	}
}

// path is where the sample listens.
func (p published) path() string {
	if p.policy == "sent" {
		return "/webhooks/sent"
	}
	return "/parseo-webhook"
}

func (c *child) publishTo(p published) (ids []string) {
	c.t.Helper()
	for i, data := range p.data {
		e := newEvent{ID: fmt.Sprintf("evt_%s_%d", strings.ReplaceAll(p.file, ".", "_"), i), Type: "order.made", Key: "k", Data: []byte(data)}
		if p.file == "parseo.js" && len(p.data) == 1 {
			e.ID += "_calls"
		}
		c.must(http.StatusAccepted, http.MethodPost, "/v1/events", e.encode(), nil)
		ids = append(ids, e.ID)
	}
	return ids
}

// delivered waits until an endpoint has n deliveries, all delivered, and returns the first of each
// event.
func (c *child) delivered(t *testing.T, endpoint string, n int) map[string]string {
	t.Helper()
	first := map[string]string{}
	eventually(t, 30*time.Second, fmt.Sprintf("%d are delivered", n), func() bool {
		var page struct {
			Data []row
		}
		c.must(http.StatusOK, http.MethodGet, "/v1/endpoints/"+endpoint+"/deliveries?status=delivered", nil, &page)
		for _, d := range page.Data { // newest first
			first[d.EventID] = d.ID
		}
		return len(page.Data) == n
	})
	return first
}

// runReceiver starts a sample and returns its address.
func runReceiver(t *testing.T, file string) (url string) {
	t.Helper()
	unchanged(t, file)
	ctx, cancel := context.WithCancel(context.Background())
	sample, standin := filepath.Join("testdata", "receivers", file), filepath.Join("testdata", "receivers", "standin")
	var cmd *exec.Cmd
	switch filepath.Ext(strings.TrimSuffix(file, ".txt")) {
	case ".py":
		cmd = exec.CommandContext(ctx, "python3", filepath.Join(standin, "receiver.py"), sample)
	case ".go":
		cmd = exec.CommandContext(ctx, buildReceiver(t, sample, filepath.Join(standin, "receiver.go.txt")))
	default:
		cmd = exec.CommandContext(ctx, "node", filepath.Join(standin, "receiver.cjs"), sample)
	}
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
	})
	port, err := lines.ReadString('\n')
	if err != nil {
		t.Fatalf("%s says no port: %v", file, err)
	}
	if _, err := strconv.Atoi(strings.TrimSpace(port)); err != nil {
		t.Fatalf("%s says %q", file, port)
	}
	return "http://127.0.0.1:" + strings.TrimSpace(port)
}

// buildReceiver compiles a sample in Go. The sample has neither package clause nor imports, so it
// is put into a file with both.
func buildReceiver(t *testing.T, sample, standin string) string {
	t.Helper()
	dir := t.TempDir()
	text, err := os.ReadFile(sample)
	if err != nil {
		t.Fatal(err)
	}
	around, err := os.ReadFile(standin)
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"go.mod": "module receiver\n\ngo 1.24\n", "main.go": string(around),
		"sample.go": "package main\n\nimport (\n\t\"log\"\n\t\"time\"\n)\n\n" + string(text),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "receiver")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".")
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

func stateOf(t *testing.T, url string) (s receiverState) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/state", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(resp.Body).Decode(&s); err != nil {
		t.Fatal(err)
	}
	return s
}

// documents is the directory of the documents beside the project, if they are there.
const documents = "../../shared/seeds"

// unchanged compares a sample with the document that prints it, if the documents are beside the
// project. Elsewhere it logs that only the copy here was used.
func unchanged(t *testing.T, file string) {
	t.Helper()
	sample, err := os.ReadFile(filepath.Join("testdata", "receivers", file))
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(documents, "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if len(pages) == 0 {
		t.Logf("%s is not compared: no documents in %s", file, documents)
		return
	}
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), strings.TrimSpace(string(sample))) {
			return
		}
	}
	t.Errorf("%s is in none of the documents in %s", file, documents)
}
