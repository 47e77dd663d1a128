package configuration

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store"
)

// Open says whether new work of a tenant may begin here.
func (c *Snapshot) Open(tenant string) bool {
	return len(c.tenancies) == 0 || c.tenancies[tenant].State.Open()
}

// setTenancies replaces the locations of tenants.
func (c *Snapshot) setTenancies(all []grapnel.Tenancy) {
	c.tenancies = make(map[string]grapnel.Tenancy, len(all))
	for _, t := range all {
		c.tenancies[t.Tenant] = t
	}
}

// Away is the error for work of a tenant that is not open here; nil: it is open.
func (c *Snapshot) Away(tenant string) error {
	switch t := c.tenancies[tenant]; {
	case t.State.Open():
		return nil
	case t.State == grapnel.TenancyGone:
		return grapnel.Moved(tenant, t.Other)
	}
	return store.ErrSealed
}

// AllHere is the error for a batch with an event of a tenant that is not open here.
func (c *Snapshot) AllHere(events []store.Incoming) error {
	if len(c.tenancies) == 0 {
		return nil
	}
	for i := range events {
		if err := c.Away(events[i].Event.Tenant); err != nil {
			return err
		}
	}
	return nil
}

// Turned returns the tenants that were opened, and those that were closed, since another
// configuration.
func (c *Snapshot) Turned(before *Snapshot) (opened, closed map[string]bool) {
	if len(c.tenancies) == 0 && len(before.tenancies) == 0 {
		return nil, nil
	}
	opened, closed = map[string]bool{}, map[string]bool{}
	for tenant, is := range c.tenancies {
		was := before.tenancies[tenant]
		switch {
		case is.State == was.State && is.Move == was.Move:
		case is.State.Open():
			opened[tenant] = true
		case was.State.Open():
			closed[tenant] = true
		}
	}
	for tenant, was := range before.tenancies {
		if _, known := c.tenancies[tenant]; !known && !was.State.Open() {
			opened[tenant] = true // its imported rows were dropped
		}
	}
	return opened, closed
}
