package sim

import (
	"context"

	"github.com/grapnelhq/grapnel/internal/send/core"
	"github.com/grapnelhq/grapnel/internal/store"
)

// A node learns of changes of the configuration in the same way as in package engine.

// catchUp reads the configuration if it has changed.
func (m *member) catchUp(done func(error)) {
	conf, known := store.Config{}, m.conf.Version
	m.call(0.2, func() error {
		version, _, err := m.c.model.Version(context.Background())
		if err == nil && version > known {
			conf = m.c.configuration()
		}
		return err
	}, func(err error) {
		if err == nil {
			m.know(conf)
		}
		done(err)
	})
}

// know applies a configuration if it is newer than the node's.
func (m *member) know(conf store.Config) {
	if conf.Version <= m.conf.Version {
		return
	}
	before := m.conf
	m.conf = conf
	for i := range conf.Endpoints {
		if ep := &conf.Endpoints[i]; ep.Revision != before.Endpoints[i].Revision {
			delete(m.must, ep.ID)
			if m.has(ep.ID) {
				m.step(core.Configured{Endpoint: ep, Newest: conf.Newest})
			}
		}
	}
}
