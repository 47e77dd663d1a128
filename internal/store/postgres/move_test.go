package postgres

import (
	"testing"

	"github.com/grapnelhq/grapnel/internal/store"
	"github.com/grapnelhq/grapnel/internal/store/storetest"
)

// TestMoves plays histories of a tenant that moves to and fro.
func TestMoves(t *testing.T) {
	used := make(map[string]*Store)
	storetest.Moves(t, storetest.Harness{Histories: 3, Open: func(t *testing.T) store.Store {
		for url, s := range used {
			if isClosed(s) {
				empty(t, url)
				used[url] = open(t, url, Options{CallersClock: true})
				return used[url]
			}
		}
		url := database(t)
		used[url] = open(t, url, Options{CallersClock: true})
		return used[url]
	}})
}
