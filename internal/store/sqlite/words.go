package sqlite

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// Indexes of statuses that SQL names: the index of undelivered deliveries leaves out the delivered
// ones.
const (
	statusPending   = 1
	statusDelivered = 3
	statusFailed    = 4
)

// The words that columns store as indexes and no document does.
var (
	statuses = codec.Words[grapnel.Status]{"", grapnel.Pending, grapnel.Held, grapnel.Delivered, grapnel.Failed, grapnel.Dropped,
		grapnel.Discarded, grapnel.Skipped}
	reasonCodes = codec.Words[grapnel.ReasonCode]{grapnel.ReasonNone, grapnel.ReasonExhausted, grapnel.ReasonPermanent, grapnel.ReasonRejected,
		grapnel.ReasonExpired, grapnel.ReasonEndpointGone}
	asides = codec.Words[grapnel.AsideReason]{"", grapnel.AsideUnverified, grapnel.AsideConflict, grapnel.AsideRefused}
)

func readWord[W ~string](s *sqlite3.Stmt, column int, list codec.Words[W]) W {
	if s.IsText(column) {
		return W(s.String(column))
	}
	if i := s.Integer(column); i >= 0 && i < int64(len(list)) {
		return list[i]
	}
	return ""
}
