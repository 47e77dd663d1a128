package server

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
)

// ParseBounds reads the value of --bounds.
func ParseBounds(text string) (b Bounds, err error) {
	if err := bounds.Parse(text, &b); err != nil {
		return Bounds{}, grapnel.Errorf(grapnel.CodeInvalid, "--bounds: %v", err)
	}
	return b, nil
}
