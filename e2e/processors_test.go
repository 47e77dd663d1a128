//go:build linux

package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/sim/history"
)

// An idle server has one of Go's processors, and a server under load has more.
func TestOneProcessorWhileIdle(t *testing.T) {
	beside(t, light)
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
				r, refused := c.publish(ctx, newEvent{ID: fmt.Sprint("busy-", p, "-", n), Type: "note.added", Data: json.RawMessage(`{}`)})
				if r != history.OK && ctx.Err() == nil {
					t.Errorf("%v %s", r, refused)
					return
				}
			}
		})
	}
	eventually(t, 30*time.Second, "the busy server has more", func() bool { return processors() > 1 })
	stop()
	publishers.Wait()
	eventually(t, 30*time.Second, "it has one again", func() bool { return processors() == 1 })
}
