package engine

import (
	"strings"
	"testing"

	"github.com/grapnelhq/grapnel"
)

func TestCacheKeepsToItsBound(t *testing.T) {
	c := newCache(100 << 10)
	for seq := range int64(1000) {
		c.put(seq, &grapnel.Event{Data: make([]byte, 1<<10), Metadata: map[string]string{"a": strings.Repeat("x", 1<<10)}})
	}
	kept := 0
	for seq := range int64(1000) {
		if c.get(seq) != nil {
			kept++
		}
	}
	if kept < 20 || kept > 45 || c.get(999) == nil || c.get(0) != nil {
		t.Errorf("%d events of 2.6 KiB are kept in 100 KiB", kept)
	}
	for range 1000 {
		c.put(999, c.get(999)) // again and again: it counts once
	}
	if c.bytes > 100<<10 || len(c.queue) != len(c.byseq) {
		t.Errorf("%d bytes, %d in line, %d kept", c.bytes, len(c.queue), len(c.byseq))
	}
}

func TestCacheForgetsOldEvents(t *testing.T) {
	c := newCache(1 << 20)
	for seq := range int64(5) {
		c.put(seq, &grapnel.Event{ID: "evt", Data: []byte("{}")})
		if seq == 2 {
			c.age()
		}
	}
	if c.age(); c.get(2) != nil || c.get(3) == nil || c.bytes != 2*cost(c.get(3)) || len(c.queue) != 2 {
		t.Errorf("after two ages the cache has %d events of %d bytes; want the two that came between them", len(c.queue), c.bytes)
	}
	if c.age(); c.bytes != 0 || len(c.byseq) != 0 || len(c.queue) != 0 {
		t.Errorf("%d events of %d bytes stay", len(c.byseq), c.bytes)
	}
}
