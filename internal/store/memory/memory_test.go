package memory_test

import (
	"testing"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/memory"
	"github.com/grapnelhq/grapnel/internal/store/storetest"
)

func TestStore(t *testing.T) {
	storetest.Run(t, storetest.Harness{
		Open:      func(*testing.T) store.Store { return memory.New() },
		Reopen:    func(_ *testing.T, s store.Store) store.Store { return s },
		Histories: 300,
	})
}

func TestChanges(t *testing.T) { storetest.RunChanges(t, memory.New(), 64, 0) }
