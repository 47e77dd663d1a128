//go:build linux && prove

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// TestPublishedConsumersRunUnchanged: two programs that were published for another service, in Node
// and in Python, consume from a queue. Only the address and the token differ, which they read from
// their environment. A message that they reject for good becomes a dead letter with their reason.
func TestPublishedConsumersRunUnchanged(t *testing.T) {
	beside(t, busy)
	c := newChild(t, program{}, t.TempDir())
	c.start()
	c.ready(20 * time.Second)
	var key struct{ Key string }
	c.must(http.StatusCreated, http.MethodPost, "/v1/keys", map[string]any{"name": "worker", "scopes": []string{"consume"}}, &key)
	programs := map[string][]string{
		"cons_node":   {"node", filepath.Join("testdata", "consumers", "consumer.mjs")},
		"cons_python": {"python3", filepath.Join("testdata", "consumers", "consumer.py")},
	}
	queues := map[string]string{}
	for name := range programs {
		var made struct{ ID string }
		c.must(http.StatusCreated, http.MethodPost, "/v1/queues", map[string]any{"name": name, "event_types": []string{"payment.*"}}, &made)
		queues[name] = made.ID
	}
	// The programs accept 12 of the payloads and reject 3.
	for i := range 15 {
		data := fmt.Sprintf(`{"id":"evt_theirs_%d","amount":%d}`, i, i)
		if i%5 == 4 {
			data = `"no object"`
		}
		c.must(http.StatusAccepted, http.MethodPost, "/v1/events",
			newEvent{ID: fmt.Sprintf("e%d", i), Type: "payment.done", Data: []byte(data)}.encode(), nil)
	}
	for name, args := range programs {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, args[0], args[1:]...)
			cmd.Env = append(os.Environ(), "HOOQUE_QUEUE_NEXT_URL=http://"+c.addr+"/queues/"+name+"/next", "HOOQUE_TOKEN="+key.Key)
			if exec.CommandContext(ctx, "python3", "-c", "import requests").Run() != nil {
				cmd.Env = append(cmd.Env, "PYTHONPATH="+filepath.Join("testdata", "consumers", "standin"))
			}
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("%v: %v\n%s", args, err, out)
			}
			became := map[grapnel.Status]int{}
			var page struct {
				Data []struct {
					row
					Reason string `json:"reason"`
				}
			}
			c.must(http.StatusOK, http.MethodGet, "/v1/endpoints/"+queues[name]+"/deliveries?limit=100", nil, &page)
			for _, r := range page.Data {
				became[r.Status]++
				if r.Status == grapnel.Failed && (r.ReasonCode != grapnel.ReasonRejected || !strings.Contains(r.Reason, "permanent: invalid payload")) {
					t.Errorf("the dead letter says %s: %s", r.ReasonCode, r.Reason)
				}
			}
			if became[grapnel.Delivered] != 12 || became[grapnel.Failed] != 3 || len(page.Data) != 15 {
				t.Errorf("of 15 payloads became %v", became)
			}
		})
	}
}

// bench is a developer's local server. It records the requests it gets.
type bench struct {
	mu   sync.Mutex
	seen map[string]int // body → number of times it was answered 200
	fail int            // number of further requests that get 500
}

func (b *bench) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err != nil || b.fail > 0 {
		b.fail--
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	b.seen[string(body)]++
}

func (b *bench) count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.seen)
}

// listener is one run of `grapnel listen`.
type listener struct {
	*exec.Cmd
	words *bytes.Buffer
	done  chan error
}

func (c *child) listen(args ...string) *listener {
	c.t.Helper()
	l := &listener{Cmd: exec.Command(c.program.path, append([]string{"listen"}, args...)...), words: &bytes.Buffer{},
		done: make(chan error, 1)}
	l.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + c.dir, "GRAPNEL_SERVER=http://" + c.addr, "GRAPNEL_KEY=" + adminKey}
	l.Stdout, l.Stderr = l.words, l.words
	if err := l.Start(); err != nil {
		c.t.Fatal(err)
	}
	go func() { l.done <- l.Wait() }()
	return l
}

func (l *listener) end(t *testing.T, signal syscall.Signal) {
	t.Helper()
	if err := l.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-l.done:
		if signal == syscall.SIGTERM && err != nil {
			t.Fatalf("listen ended with %v:\n%s", err, l.words)
		}
	case <-time.After(20 * time.Second):
		t.Fatalf("listen does not end:\n%s", l.words)
	}
}

// TestListenLosesNothing: a developer's command is killed, the server is killed, and the local
// server fails. Every request to the source still arrives there in the end.
func TestListenLosesNothing(t *testing.T) {
	beside(t, light)
	c := newChild(t, program{}, t.TempDir())
	c.start()
	c.ready(20 * time.Second)
	var source struct {
		ID  string
		URL string `json:"ingest_url"`
	}
	c.must(http.StatusCreated, http.MethodPost, "/v1/sources", map[string]any{"name": "shop", "verify": map[string]any{"scheme": "none"}},
		&source)
	b := &bench{seen: map[string]int{}, fail: 2}
	local := httptest.NewServer(b)
	t.Cleanup(local.Close)
	n := 0
	ingest := func(more int) {
		for range more {
			c.must(http.StatusAccepted, http.MethodPost, source.URL, fmt.Appendf(nil, `{"n":%d}`, n), nil)
			n++
		}
	}
	args := []string{local.URL + "/hooks", "--source", source.ID, "--forward-headers", "--policy", "standard"}
	l := c.listen(args...)
	var made struct{ Data []struct{ ID, Source string } }
	eventually(t, 10*time.Second, "the queue is there", func() bool {
		c.must(http.StatusOK, http.MethodGet, "/v1/queues", nil, &made)
		return len(made.Data) == 1 && made.Data[0].Source == source.ID
	})
	// What the killed command has leased comes back when the lease has expired.
	c.must(http.StatusOK, http.MethodPatch, "/v1/queues/"+made.Data[0].ID, map[string]any{"lease": "3s"}, nil)
	ingest(10)
	eventually(t, 20*time.Second, "some have arrived", func() bool { return b.count() >= 5 })
	l.end(t, syscall.SIGKILL)
	ingest(10) // while no command listens
	l = c.listen(args...)
	eventually(t, 60*time.Second, "what came meanwhile has arrived", func() bool { return b.count() >= 15 })
	c.kill()
	c.start()
	c.ready(20 * time.Second)
	ingest(10)
	eventually(t, 60*time.Second, "everything has arrived", func() bool { return b.count() == n })
	l.end(t, syscall.SIGTERM)
	var page struct{ Data []struct{ Name string } }
	c.must(http.StatusOK, http.MethodGet, "/v1/queues", nil, &page)
	if len(page.Data) != 0 {
		t.Errorf("the queue is still there: %v\n%s", page.Data, l.words)
	}
}
