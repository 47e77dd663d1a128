package alarm

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/policy"
)

type told chan string

func (c told) Send(_ context.Context, d egress.Delivery) (r egress.Result) {
	c <- d.Endpoint.ID
	r.Outcome.Class = policy.ClassNone
	return r
}

// TestADiskThatHangs: while a round waits for the write of the file, a last message is sent.
func TestADiskThatHangs(t *testing.T) {
	path, sent := filepath.Join(t.TempDir(), "alarms"), make(told, 1)
	k := New(Options{Bounds: Bounds{Every: 10 * time.Millisecond, Last: time.Minute}, Sender: sent, Path: path, Log: slog.New(slog.DiscardHandler),
		Name: func() string { return "here" },
		Look: func(context.Context) Health { return Health{Listeners: []Listener{listener("a")}} }})
	if err := syscall.Mkfifo(path, 0o600); err != nil { // to open it for writing waits for a reader
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var working sync.WaitGroup
	before := k.open.Load()
	working.Go(func() { k.Run(ctx) })
	for looked := time.Tick(time.Millisecond); k.open.Load() == before; <-looked { // a step is followed by the write
	}
	working.Go(func() { k.Last(t.Context(), Trouble{Rule: StoreBroken, Text: "a write failed"}) })
	select {
	case <-sent:
	case <-time.After(20 * time.Second):
		t.Error("a last message waits for the disk")
	}
	cancel()
	reader, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	working.Wait()
	_ = reader.Close()
}
