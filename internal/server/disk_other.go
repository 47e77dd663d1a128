//go:build !linux && !darwin

package server

import (
	"math"

	"github.com/grapnelhq/grapnel/internal/send/engine"
)

// descriptors returns no limit: the system does not report one.
func descriptors() int { return math.MaxInt32 }

// spaceAt measures nothing here. Events are refused only once the disk is full.
func spaceAt(string) (engine.DiskSpace, error) { return engine.DiskSpace{}, nil }
