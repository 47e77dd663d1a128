package memstore

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"testing"

	"github.com/grapnelhq/grapnel/receive"
	"github.com/grapnelhq/grapnel/receive/storetest"
)

func TestWindowsOfTheKits(t *testing.T) {
	text, err := os.ReadFile("../../sdk/conformance/windows.json")
	if err != nil {
		t.Fatal(err)
	}
	storetest.RunWindows(t, text, func(*testing.T) receive.Store { return New() })
}

func TestStore(t *testing.T) {
	storetest.Run(t, func(*testing.T) receive.Store { return New() })
	storetest.RunTransactor(t, func(*testing.T) (receive.Transactor[*Tx], func(context.Context, *Tx) error, func() int) {
		effects := 0
		effect := func(_ context.Context, tx *Tx) error {
			tx.OnCommit(func() { effects++ })
			return nil
		}
		return New(), effect, func() int { return effects }
	})
}

// TestAStoreInMemorySaysSo: one line in the log, and none in tests.
func TestAStoreInMemorySaysSo(t *testing.T) {
	var log bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
	defer slog.SetDefault(before)
	if New(); log.Len() > 0 {
		t.Errorf("a test gets %s", &log)
	}
	if empty(false); bytes.Count(log.Bytes(), []byte("a restart forgets them")) != 1 {
		t.Errorf("a program gets %q", &log)
	}
}
