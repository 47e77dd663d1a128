package replay

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// away is a store that cannot be reached.
type away struct{ Store }

func (away) ReplayList(context.Context, store.Scope, store.ReplayQuery) ([]grapnel.Replay, error) {
	return nil, errors.New("away")
}

// TestAnOutageOfAnHourLogsFewLines: without replays too, every node reads the active ones.
func TestAnOutageOfAnHourLogsFewLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		ctx, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		New(Options{Store: away{}, Log: slog.New(slog.NewTextHandler(&log, nil))}).Run(ctx)
		if lines := strings.Count(log.String(), "active replays failed"); lines < 5 || lines > 12 {
			t.Errorf("logged %d lines", lines)
		}
	})
}
