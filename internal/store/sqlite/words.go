package sqlite

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
	"github.com/grapnelhq/grapnel/policy"
)

// word is a text of a fixed set, kept as its place in a list. Places are in databases: lists only grow at their end. A text
// that is in no list is kept as it is.
type word interface{ ~string }

// Places of statuses that SQL names: the index of what was not delivered leaves out those that were.
const (
	statusPending   = 1
	statusDelivered = 3
	statusFailed    = 4
)

var (
	statuses = []grapnel.Status{"", grapnel.Pending, grapnel.Held, grapnel.Delivered, grapnel.Failed, grapnel.Dropped, grapnel.Discarded,
		grapnel.Skipped}
	reasonCodes = []grapnel.ReasonCode{grapnel.ReasonNone, grapnel.ReasonExhausted, grapnel.ReasonPermanent, grapnel.ReasonRejected,
		grapnel.ReasonExpired, grapnel.ReasonEndpointGone}
	triggers = []grapnel.Trigger{"", grapnel.TriggerSchedule, grapnel.TriggerManual, grapnel.TriggerReplay, grapnel.TriggerProbe,
		grapnel.TriggerTest}
	dedupeBys = []grapnel.DedupeBy{"", grapnel.ByEventID, grapnel.ByDeliveryID, grapnel.ByContent}
	asides    = []grapnel.AsideReason{"", grapnel.AsideUnverified, grapnel.AsideConflict, grapnel.AsideRefused}
	decisions = []policy.Decision{"", policy.Deliver, policy.Retry, policy.Fail, policy.Throttle, policy.DisableEndpoint}
	classes   = []policy.Class{"", policy.ClassNone, policy.ClassDNS, policy.ClassConnect, policy.ClassTLS, policy.ClassTimeout,
		policy.ClassReset, policy.ClassProtocol, policy.ClassRedirect, policy.ClassBlocked, policy.ClassStatus3xx, policy.ClassStatus4xx,
		policy.ClassStatus429, policy.ClassStatus5xx, policy.ClassInternal, policy.ClassNack, policy.ClassReject, policy.ClassLease}
)

// ordinal is a word's place in its list.
func ordinal[W word](list []W, w W) (int64, bool) {
	for i, known := range list {
		if known == w {
			return int64(i), true
		}
	}
	return 0, false
}

func bindWord[W word](s *sqlite3.Stmt, list []W, w W) *sqlite3.Stmt {
	if i, known := ordinal(list, w); known {
		return s.Int(i)
	}
	return s.Text(string(w))
}

func readWord[W word](s *sqlite3.Stmt, column int, list []W) W {
	if s.IsText(column) {
		return W(s.String(column))
	}
	if i := s.Integer(column); i >= 0 && i < int64(len(list)) {
		return list[i]
	}
	return ""
}
