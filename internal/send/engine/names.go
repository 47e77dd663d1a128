package engine

import (
	"context"
	"log/slog"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/backoff"
	"github.com/grapnelhq/grapnel/internal/nodes/configuration"
	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// namer reads the events of changes that cause operational events, because those name them.
type namer struct {
	store  Store
	events *cache
	log    *slog.Logger
	bounds RecorderBounds
	over   <-chan struct{}
}

// nameless says whether a change causes operational events and its event has to be read first,
// because they name it.
func nameless(conf *configuration.Snapshot, ch *core.Change) bool {
	if len(ch.News) == 0 || ch.Subject.ID != "" || ch.Subject.Event == 0 {
		return false
	}
	ep := conf.At(ch.Endpoint)
	return ep != nil && conf.Wanted(ep, types(ch.News))
}

// name reads the events that changes lack. An unreadable event does not delay the outcome for long:
// after Tries reads the operational event is recorded without a name.
func (n *namer) name(page []core.Change) {
	for try := 1; ; try++ {
		err := n.readNames(page)
		if err == nil {
			break
		}
		if try == n.bounds.Tries {
			n.log.Error("reading events failed; operational events will not name them", "changes", len(page), "err", err)
			break
		}
		backoff.Wait(n.over, backoff.Store.After(try))
	}
	for i := range page {
		page[i].Subject.Event = 0 // it was tried
	}
}

// readNames looks for events in memory, then in the store, all at once. If an event's payload is
// damaged, its id, type and key are read from the delivery's row.
func (n *namer) readNames(page []core.Change) error {
	var seqs []int64
	var of []int
	for i := range page {
		s := &page[i].Subject
		if s.ID != "" || s.Event == 0 {
			continue
		}
		if ev := n.events.get(s.Event); ev != nil {
			s.Named = core.Named{ID: ev.ID, Type: ev.Type, Key: ev.Key}
			continue
		}
		seqs, of = append(seqs, s.Event), append(of, i)
	}
	if len(seqs) == 0 {
		return nil
	}
	events, err := n.store.Events(context.Background(), seqs)
	if err != nil {
		return err
	}
	for i, ev := range events {
		s := &page[of[i]].Subject
		if ev != nil {
			s.Named = core.Named{ID: ev.ID, Type: ev.Type, Key: ev.Key}
			continue
		}
		d, err := n.store.Delivery(context.Background(), store.Everyone(), page[of[i]].Delivery)
		switch {
		case err == nil:
			s.Named = core.Named{ID: d.EventID, Type: d.Type, Key: d.Key}
		case grapnel.CodeOf(err) != grapnel.CodeNotFound: // else the change will not apply either
			return err
		}
	}
	return nil
}
