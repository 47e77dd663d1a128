package sqlite

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/rows"
)

// An outcome packs a delivery's result into one number: the status code of its last attempt, 5 bits
// for the class, 3 for the reason code. Lists that ask for one of them read from an index which
// outcomes occur, and read only the deliveries of those that match.
const (
	otherClass  = 31 // a class or a reason code outside its list: the row names it
	otherReason = 7
)

func outcomeOf(last grapnel.Last) int64 {
	class, known := codec.Classes.Place(last.Class)
	if !known {
		class = otherClass
	}
	return int64(last.StatusCode)<<8 | class<<3
}

// withReason is the outcome of a finished delivery.
func withReason(outcome int64, reason grapnel.ReasonCode) int64 {
	code, known := rows.ReasonCodes.Place(reason)
	if !known {
		code = otherReason
	}
	return outcome&^7 | code
}

// tried sets the outcome of an attempt.
func (d *place) tried(attempt []byte) error {
	last, err := codec.DecodeLast(attempt)
	d.outcome = outcomeOf(last)
	return err
}
