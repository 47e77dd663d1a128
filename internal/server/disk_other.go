//go:build !linux && !darwin

package server

import "github.com/grapnelhq/grapnel/internal/engine"

// roomAt does not know: nothing is refused because the disk is nearly full, only once it is full.
func roomAt(string) (engine.Room, error) { return engine.Room{}, nil }
