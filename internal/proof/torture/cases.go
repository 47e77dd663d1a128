package torture

import "context"

// need is what a case needs of the options.
type need uint8

const (
	seen    need = 1 << iota // a probe; without it the case is run, and its answers are judged
	command                  // the command of the receiver
	fault                    // a URL that makes handlers fail
	clock                    // a URL that moves the receiver's clock
	other                    // a second source
)

// Case is one case: what it is called, proves, needs and costs.
type Case struct {
	ID, Name string
	Proves   string
	needs    need
	fields   string           // of the payload that it changes
	requests func(Bounds) int // at most, without retries after a crash
	run      func(context.Context, *trial)
}

func times(n int) func(Bounds) int { return func(Bounds) int { return n } }

// Cases are all cases, in the order in which they run.
var Cases = []Case{
	{"T01", "sequential duplicate", "an event that is sent again has no second effect", seen, "", times(2), sequentialDuplicate},
	{"T02", "concurrent duplicate", "copies that arrive at the same moment have one effect together", seen, "",
		func(b Bounds) int { return b.Copies + 10 }, concurrentDuplicate},
	{"T03", "copy during a failure", "a copy is not accepted while the first one may still fail", seen | fault, "", times(30),
		copyDuringFailure},
	{"T04", "crash while working", "a request that a crash interrupted can be sent again, and has one effect then", seen | command, "",
		func(b Bounds) int { return 10 * (b.Kills + 1) }, crashWhileWorking},
	{"T05", "crash after the answer", "an event that was answered 2xx survives a crash", seen | command, "", times(60),
		crashAfterAnswer},
	{"T06", "older versions late", "an older version that arrives late does not overwrite a newer one", seen, "version", times(4),
		olderVersions},
	{"T07", "update before create", "an update that arrives before its object exists is not lost", seen, "version type", times(2),
		updateBeforeCreate},
	{"T08", "status going backwards", "a late status does not move an object back or out of a final state", seen, "status", times(10),
		statusBackwards},
	{"T09", "equal timestamps", "of two events of one instant neither is lost", seen, "occurred_at amount", times(3), equalTimestamps},
	{"T10", "deep difference", "payloads that differ only deep inside are two events", seen, "timestamp", times(4), deepDifference},
	{"T11", "equal payloads", "two events with the same payload are two events", seen, "timestamp", times(2), equalPayloads},
	{"T12", "large numbers", "numbers beyond 2^53 keep their last digit", seen, "amount timestamp", times(2), largeNumbers},
	{"T13", "same id, other body", "another body under a known id has no effect of its own", seen, "", times(2), otherBody},
	{"T14", "tampered request", "body, id and time cannot be changed without the secret", 0, "", times(3), tampered},
	{"T15", "stale and future time", "a signature is only good for a few minutes", 0, "", times(2), staleTime},
	{"T16", "rotation of secrets", "one good signature of several is enough, and none is not", 0, "", times(7), rotation},
	{"T17", "forged request first", "a forged request does not use up the id of the genuine one", seen, "", times(2), forgedFirst},
	{"T18", "same id from two sources", "ids of two sources do not collide", seen | other, "", times(2), twoSources},
	{"T19", "slow and idle connections", "slow clients do not keep others out", 0, "", times(14), slowClients},
	{"T20", "oversize bodies", "a body has a limit, also when it is compressed or has no length", 0, "", times(7), oversize},
	{"T21", "malformed bodies", "a body that cannot be parsed is refused for good, and crashes nothing", 0, "", times(12), malformed},
	{"T22", "unknown types and fields", "an event of an unknown type is taken, so that it is not sent for ever", 0, "type", times(3),
		unknownTypes},
	{"T23", "burst", "many events at once are answered in time, each with one effect, in order for each key", seen, "",
		func(b Bounds) int { return b.Burst + b.Burst/2 }, burst},
	{"T24", "classes of errors", "a failure that passes is retried, one that does not pass is not", seen | fault, "", times(12),
		errorClasses},
	{"T25", "replay after days", "an event that a sender replays within its span is still recognised", seen | clock, "", times(2),
		lateReplay},
	{"T26", "other methods", "only POST has effects, and a redirect loses nothing", 0, "", times(4), otherMethods},
}
