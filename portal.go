package grapnel

import "time"

// Portal is how the portal of a tenant looks, and where it may be framed.
type Portal struct {
	Name           string   `json:",omitzero"`  // in the place of Grapnel's
	Logo           string   `json:",omitzero"`  // a data: URL of a picture
	Accent         string   `json:",omitzero"`  // #rrggbb
	FrameAncestors []string `json:",omitempty"` // origins; empty: the portal is framed nowhere
	UpdatedAt      time.Time
}
