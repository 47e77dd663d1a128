package sim

import (
	"context"
	"time"

	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// fresh passes heads that other nodes accepted, read from the store, to the core as hints.
func (m *member) fresh() {
	c := m.c
	if m.closing {
		return
	}
	m.later(time.Second, m.fresh)
	from := int64(0)
	if len(m.highest) > 3 {
		from, m.highest = m.highest[0], m.highest[1:]
	}
	var heads []store.Head
	var newest int64
	m.call(1, func() (err error) {
		for _, ep := range m.conf.Endpoints {
			if m.has(ep.ID) {
				for _, h := range m.glance(ep.ID) {
					if h.Delivery > from {
						heads = append(heads, h)
					}
				}
			}
		}
		_, newest, err = c.model.Version(context.Background())
		return err
	}, func(err error) {
		if err == nil {
			m.highest = append(m.highest, newest)
			if len(heads) > 0 {
				m.step(core.Arrived{Heads: heads})
			}
		}
	})
}
