package codec

import (
	"slices"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// Words are the texts of a fixed set, each of which is stored as its index in the list. Indexes are
// in databases: a list only grows at its end. A text that is not in it is stored as it is.
type Words[W ~string] []W

// Place is a word's index.
func (list Words[W]) Place(w W) (int64, bool) {
	i := slices.Index(list, w)
	return int64(max(i, 0)), i >= 0
}

// The words of encoded values; stores also use some of them in columns.
var (
	Triggers = Words[grapnel.Trigger]{"", grapnel.TriggerSchedule, grapnel.TriggerManual, grapnel.TriggerReplay, grapnel.TriggerProbe,
		grapnel.TriggerTest}
	Classes = Words[policy.Class]{"", policy.ClassNone, policy.ClassDNS, policy.ClassConnect, policy.ClassTLS, policy.ClassTimeout,
		policy.ClassReset, policy.ClassProtocol, policy.ClassRedirect, policy.ClassBlocked, policy.ClassStatus3xx, policy.ClassStatus4xx,
		policy.ClassStatus429, policy.ClassStatus5xx, policy.ClassInternal, policy.ClassNack, policy.ClassReject, policy.ClassLease}

	decisions = Words[policy.Decision]{"", policy.Deliver, policy.Retry, policy.Fail, policy.Throttle, policy.DisableEndpoint}
	dedupeBys = Words[grapnel.DedupeBy]{"", grapnel.ByEventID, grapnel.ByDeliveryID, grapnel.ByContent}
)
