package api

import (
	"fmt"
	"testing"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
)

// TestTinyBounds runs the suite's tests of whole lists, streams and repetitions once more with
// bounds that each of them crosses many times: callers get the same.
func TestTinyBounds(t *testing.T) {
	defer func() { under = ample }()
	for seed := range uint64(2) {
		under = bounds.Fill(bounds.Tiny[Bounds](seed))
		for name, test := range map[string]func(*testing.T){
			"access":          TestListsShowOnlyTheTenantsOwn,
			"bad input":       TestBadInputChangesNothingAndSaysWhatIsWrong,
			"bodies":          TestGoodBodiesFollowTheDocument,
			"pages":           TestPagesHoldEverythingOnce,
			"filters":         TestFiltersReachTheStore,
			"search":          TestSearchGoesOnBehindWhatItLookedAt,
			"export":          TestExportIsTheWholeList,
			"broken export":   TestExportThatBreaksOff,
			"dead letters":    TestDeadLetters,
			"lanes":           TestStuckLanes,
			"inbox":           TestInboxListsBothHalvesByTime,
			"moving inbox":    TestInboxPagesAreNotDisturbedByWhatComesIn,
			"long inbox":      TestInboxDoesNotSearchForEver,
			"publish":         TestPublishKeepsEveryByteOfData,
			"publish again":   TestPublishingAnIDAgain,
			"batch":           TestBatchAnswersInOrderAndKeepsWhatIsRight,
			"lines":           TestNDJSONLinesFailAlone,
			"events":          TestEventsKeepLittleMoreThanThemselves,
			"same key":        TestTheSameAnswerForTheSameKey,
			"another request": TestAnotherRequestWithTheSameKey,
			"many at once":    TestManyAtOnceMakeOne,
			"lost answers":    TestLostAnswers,
			"history":         TestTheHistoryOfAnEndpointOutlivesIt,
			"held":            TestHeldIsCountedSoFar,
			"health":          TestHealthInListsIsCheap,
			"queue":           TestQueueIsMadeAndChanged,
			"messages":        TestMessageAsItIsAndInAList,
			"lease":           TestLeaseCanBeUsedOnce,
			"stream":          TestStreamGoesOnWhereItWasBroken,
			"slow stream":     TestStreamOfWhoDoesNotRead,
			"quiet stream":    TestStreamThatIsQuiet,
			"long poll":       TestLongPollIsNotCutOff,
			"replay":          TestReplayFromPlanToReport,
			"named replay":    TestReplayOfNamedDeliveries,
			"stats":           TestStatsCountEverythingOnce,
			"parseo":          TestCallsOfParseo,
			"paylera":         TestCallsOfPaylera,
			"sent":            TestCallsOfSent,
			"hooque":          TestCallsOfHooque,
			"webhookify":      TestCallsOfWebhookify,
		} {
			t.Run(fmt.Sprint(seed, " ", name), test)
		}
	}
}
