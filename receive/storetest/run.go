package storetest

import (
	"testing"

	"github.com/grapnelhq/grapnel/receive"
)

// Run tests a store, its dead letters if it is a receive.Letters, and its inbox if it is a
// receive.InboxStore. open returns an empty store for each test.
func Run(t *testing.T, open func(t *testing.T) receive.Store) {
	for name, test := range map[string]func(*testing.T, receive.Store){
		"OneOfManyWins":             oneOfManyWins,
		"ALeaseThatPassed":          aLeaseThatPassed,
		"TheOldOwnerChangesNothing": theOldOwnerChangesNothing,
		"ReleasedAndTakenAgain":     releasedAndTakenAgain,
		"DoneUntilTheWindowEnds":    doneUntilTheWindowEnds,
		"CleanTakesBatches":         cleanTakesBatches,
		"SourcesDoNotMeet":          sourcesDoNotMeet,
		"ADeadKeyIsReplayedOnce":    aDeadKeyIsReplayedOnce,
	} {
		t.Run(name, func(t *testing.T) { test(t, open(t)) })
	}
	if _, ok := open(t).(receive.Letters); ok {
		t.Run("DeadLetters", func(t *testing.T) { deadLetters(t, open(t).(receive.Letters)) })
		t.Run("AConflictIsKept", func(t *testing.T) { aConflictIsKept(t, open(t).(receive.Letters)) })
	}
	if _, ok := open(t).(receive.InboxStore); ok {
		for name, test := range map[string]func(*testing.T, receive.InboxStore){
			"AcceptedOnce":  acceptedOnce,
			"LeasesOfItems": leasesOfItems,
			"OrderOfItems":  orderOfItems,
			"DeadItems":     deadItems,
			"WorkersAtOnce": workersAtOnce,
		} {
			t.Run(name, func(t *testing.T) { test(t, open(t).(receive.InboxStore)) })
		}
	}
}
