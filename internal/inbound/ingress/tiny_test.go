package ingress

import (
	"fmt"
	"testing"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
)

// TestTinyBounds repeats the suite with bounds that each of its tests crosses. Providers get the
// same answers.
func TestTinyBounds(t *testing.T) {
	defer func() { under = ample }()
	for seed := range uint64(3) {
		under = bounds.Fill(bounds.Tiny[Bounds](seed))
		for name, test := range map[string]func(*testing.T){
			"release": TestReleaseAfterKills,
			"vectors": TestVectorsBecomeEvents, "repeated vectors": TestARepeatedVectorIsADuplicate,
			"tampered vectors": TestTamperedVectorsAreNotBelieved,
			"old vectors":      TestVectorsOfAnotherTimeAreNotBelieved, "secrets": TestWrongAndRolledSecrets,
			"nothing secret": TestNothingSecretIsKept,
			"limits":         TestLimitsOfRequests, "broken body": TestABrokenBodyIsNoEvent, "slow body": TestASlowBodyIsGivenUp,
			"rate":     TestRateLimit,
			"not kept": TestWhatCannotBeKeptIsNotTaken, "conflict": TestAConflictIsKeptAndIsNoEvent, "chain": TestTheChainOfWhatARequestIsKnownBy,
			"window": TestWhatIsKnownIsForgottenAfterTheWindow, "copies": TestOneOfManyCopiesWins, "types": TestTypesAndKeys,
			"media":     TestContentTypes,
			"greetings": TestGreetings, "quarantine": TestQuarantineCannotFillTheDisk, "counters": TestCounters, "log": TestRefusedSourcesAreLogged,
			"signatures": TestASignatureIsGoodForOneEvent, "the same bytes": TestTheSameBytesSignedTwice, "reserve": TestWhoVerifiesHasAReserve,
			"stores": TestOnRealStores, "restart": TestCopiesAcrossARestart, "lost answer": TestLostAnswer,
		} {
			t.Run(fmt.Sprint(seed, " ", name), test)
		}
	}
}
