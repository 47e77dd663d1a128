//go:build linux && prove

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"
)

// An idle server has one of Go's processors, and a server under load has more. The test runs alone:
// a server whose goroutines wait because other tests use the machine counts as busy.
func TestOneProcessorWhileIdle(t *testing.T) {
	c := newChild(t, program{}, t.TempDir())
	c.start()
	c.ready(30 * time.Second)
	processors := func() float64 { return c.metric("go_sched_gomaxprocs_threads") }
	eventually(t, 30*time.Second, "the idle server has one processor", func() bool { return processors() == 1 })

	ctx, stop := context.WithCancel(t.Context())
	var publishers sync.WaitGroup
	for p := range 8 {
		publishers.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				batch := make([]newEvent, 200) // which takes the server longer than the test
				for i := range batch {
					batch[i] = newEvent{ID: fmt.Sprint("busy-", p, "-", n, "-", i), Type: "note.added", Data: json.RawMessage(`{}`)}
				}
				c.publishBatch(ctx, batch)
			}
		})
	}
	eventually(t, 30*time.Second, "the busy server has more", func() bool { return processors() > 1 })
	stop()
	publishers.Wait()
	eventually(t, 30*time.Second, "it has one again", func() bool { return processors() == 1 })
}
