package codec

import (
	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/policy"
)

// word is a text of a fixed set, kept as its place in a list. Places are in databases: lists only grow at their end. A text
// that is in no list is kept as it is.
type word interface{ ~string }

var (
	triggers = []grapnel.Trigger{"", grapnel.TriggerSchedule, grapnel.TriggerManual, grapnel.TriggerReplay, grapnel.TriggerProbe,
		grapnel.TriggerTest}
	dedupeBys = []grapnel.DedupeBy{"", grapnel.ByEventID, grapnel.ByDeliveryID, grapnel.ByContent}
	decisions = []policy.Decision{"", policy.Deliver, policy.Retry, policy.Fail, policy.Throttle, policy.DisableEndpoint}
	classes   = []policy.Class{"", policy.ClassNone, policy.ClassDNS, policy.ClassConnect, policy.ClassTLS, policy.ClassTimeout,
		policy.ClassReset, policy.ClassProtocol, policy.ClassRedirect, policy.ClassBlocked, policy.ClassStatus3xx, policy.ClassStatus4xx,
		policy.ClassStatus429, policy.ClassStatus5xx, policy.ClassInternal}
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
