package engine

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel/internal/send/core"
)

// TestPatientChangesWait: changes for which nothing waits share a page, and no other change waits.
func TestPatientChangesWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := RecorderBounds{Page: 4, Patience: time.Second, Crowd: 3}
		p := newPages(b.Page, &b)
		began := time.Now()
		var got []string
		var running sync.WaitGroup
		running.Go(func() {
			p.run(func(page []core.Change) { got = append(got, fmt.Sprint(len(page), " after ", time.Since(began))) })
		})
		add := func(patient ...bool) {
			for _, is := range patient {
				p.add(core.Change{Patient: is})
			}
			synctest.Wait()
		}
		add(true)
		time.Sleep(time.Second / 2)
		add(true) // its time is that of the first
		time.Sleep(time.Second)
		add(true, true, true) // they are a crowd
		add(true, false)
		add(false)
		add(true)
		p.close()
		running.Wait()
		want := []string{"2 after 1s", "3 after 1.5s", "2 after 1.5s", "1 after 1.5s", "1 after 1.5s"}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("the pages were %q, want %q", got, want)
		}
	})
}
