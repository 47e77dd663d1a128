package api

import "github.com/grapnelhq/grapnel"

// delivery finds a delivery by the id in the path. A reading whose row id exists but whose time is
// another's is of an id that was guessed, or that another installation gave.
func (a *api) delivery(c *call, id string) (*grapnel.Delivery, error) {
	if reading, err := a.Engine.IDs().Read(id); err == nil {
		d, err := a.History.Delivery(c.Context(), c.scope, reading.Seq)
		switch {
		case grapnel.CodeOf(err) == grapnel.CodeNotFound:
		case err != nil:
			return nil, err
		case reading.Is(d):
			return d, nil
		}
	}
	return nil, grapnel.Errorf(grapnel.CodeNotFound, "delivery not found")
}
