//go:build full

package brokers

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// bucket keeps the files that are written to it, or refuses them.
type bucket struct {
	mu      sync.Mutex
	files   map[string]string
	refuses atomic.Bool
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	text, _ := io.ReadAll(r.Body)
	if b.refuses.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.files[r.URL.Path] = string(text)
}

// bodies are the bodies in each file, in the order of their text.
func (b *bucket) bodies(t *testing.T) (all [][]string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for path, text := range b.files {
		if !strings.HasPrefix(path, "/bucket/a/v-webhook-timestamp-") || !strings.HasSuffix(path, ".jsonl") {
			t.Errorf("a file is named %s", path)
		}
		var in []string
		for line := range strings.Lines(text) {
			var is struct {
				Headers map[string]string
				Body    string
				Base64  []byte `json:"body_base64"`
			}
			if err := json.Unmarshal([]byte(line), &is); err != nil || is.Headers["webhook-id"] != "v-webhook-id" {
				t.Errorf("%v: the line is %s", err, line)
			}
			in = append(in, is.Body+string(is.Base64))
		}
		slices.Sort(in)
		all = append(all, in)
	}
	slices.SortFunc(all, func(x, y []string) int { return strings.Compare(x[0], y[0]) })
	return all
}

// TestBatches: messages that are sent together are in one file, which is written when it is full or
// its time has come. A message whose sender has given up is in none.
func TestBatches(t *testing.T) {
	b := &bucket{files: map[string]string{}}
	s := httptest.NewServer(b)
	defer s.Close()
	target := awsTargets(s.Listener.Addr().String())["s3"]
	target.Name = "a/"
	open := func(wait string) *s3Driver {
		target.Options = map[string]string{OptionBatch: "3", OptionWait: wait}
		k, place, faults := Read(target)
		if len(faults) > 0 {
			t.Fatal(faults[0])
		}
		d, err := k.Open(target, place, bare(new(atomic.Int32)))
		if err != nil {
			t.Fatal(err)
		}
		return d.(*s3Driver)
	}
	within, cancel := context.WithTimeout(t.Context(), time.Minute) // as every attempt has it
	defer cancel()
	send := func(ctx context.Context, d Driver, body string) error {
		m := cloudMessage(target)
		m.Body = []byte(body)
		receipt, err := d.Send(ctx, m)
		if err == nil && !strings.HasPrefix(receipt["object"], "a/") {
			t.Errorf("the receipt is %v", receipt)
		}
		return err
	}
	together := func(d Driver, bodies ...string) (all []error) {
		errs := make(chan error)
		for _, body := range bodies {
			go func() { errs <- send(within, d, body) }()
		}
		for range bodies {
			all = append(all, <-errs)
		}
		return all
	}
	d := open("3600000") // what follows does not wait for it
	if err := errors.Join(together(d, "1", "2 <\n", "3\xff")...); err != nil {
		t.Error(err)
	}
	if err := errors.Join(together(d, strings.Repeat("9", 200))...); err != nil { // more than Network.Batch
		t.Error(err)
	}
	ctx, giveUp := context.WithCancel(within)
	gone := make(chan error, 1)
	go func() { gone <- send(ctx, d, "gone") }()
	for joined := false; !joined; {
		d.batches.mu.Lock()
		joined = len(d.batches.open) == 1
		d.batches.mu.Unlock()
	}
	giveUp()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("the one that gave up: %v", err)
	}
	if err := errors.Join(together(d, "4", "5", "6")...); err != nil {
		t.Error(err)
	}
	d.Close()
	d = open("1")
	if err := send(within, d, "7"); err != nil {
		t.Error(err)
	}
	b.refuses.Store(true)
	for _, err := range together(d, "8", "8", "8") {
		if is, refused := errors.AsType[*Refusal](err); !refused || is.Status != 503 {
			t.Errorf("a file that is refused: %v", err)
		}
	}
	d.Close()
	want := [][]string{{"1", "2 <\n", "3\xff"}, {"4", "5", "6"}, {"7"}, {strings.Repeat("9", 200)}}
	if got := b.bodies(t); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("the files have %q", got)
	}
}

// TestBatchesOfSlowBuckets: a batch waits for no longer than half of its first sender's time, and
// what was given up is waited for when the driver closes.
func TestBatchesOfSlowBuckets(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(asked)
		<-release
	}))
	defer s.Close()
	defer close(release)
	target := awsTargets(s.Listener.Addr().String())["s3"]
	target.Options = map[string]string{OptionBatch: "3", OptionWait: "3600000"}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := sendTo(ctx, t, target, bare(new(atomic.Int32)), cloudMessage(target)); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v", err)
	}
	<-asked
}
