package words

import (
	"cmp"
	"strconv"

	"github.com/grapnelhq/grapnel/policy"
)

// failure is how sentences speak of a class of failed attempts: as a noun, as what the endpoint
// did at one attempt, and as what it has done for some time. Empty: the noun, or the class, serves.
type failure struct{ noun, did, has string }

// otherFailures is the class of issues about failures that got no issue of their own.
const otherFailures policy.Class = "other"

var failures = map[policy.Class]failure{
	policy.ClassNone:      {noun: "ack"}, // of a queue's consumer: an answer of HTTP has its status
	policy.ClassDNS:       {"name not found", "could not be found by its name", "has had a name that cannot be resolved"},
	policy.ClassConnect:   {"connection refused", "refused the connection", "has refused connections"},
	policy.ClassTLS:       {"TLS failed", "failed the TLS handshake", "has failed in the TLS handshake"},
	policy.ClassTimeout:   {"timeout", "timed out", "has not answered in time"},
	policy.ClassReset:     {"connection reset", "broke the connection off", "has broken connections off"},
	policy.ClassProtocol:  {"not HTTP", "", "has answered with something that is not HTTP"},
	policy.ClassRedirect:  {"redirect", "", ""},
	policy.ClassBlocked:   {"address blocked", "", "has had an address that is not allowed"},
	policy.ClassStatus3xx: {noun: "status 3xx"},
	policy.ClassStatus4xx: {noun: "status 4xx"},
	policy.ClassStatus429: {noun: "status 429, too many requests"},
	policy.ClassStatus5xx: {noun: "status 5xx"},
	policy.ClassInternal:  {noun: "fault of this server"},
	policy.ClassNack:      {noun: "handed back by a consumer"},
	policy.ClassReject:    {noun: "rejected by a consumer"},
	policy.ClassLease:     {noun: "lease ended"},
	policy.ClassProxy:     {"proxy failed", "was not reached: the proxy failed", "has not been reached because the proxy fails"},
	policy.ClassToken:     {"no token", "was not asked, or refused its token", "has had no token that it accepts"},
	otherFailures:         {"other failures", "", "has failed in further ways"},
}

// Failure is a class of failed attempts as a noun: "connection refused".
func Failure(class policy.Class) string { return cmp.Or(failures[class].noun, string(class)) }

// Result is what an attempt ended in: its status, or what kept it from having one.
func Result(status int, class policy.Class) string {
	if status != 0 {
		return strconv.Itoa(status)
	}
	return Failure(class)
}

// Did is what an endpoint did at one attempt: "answered 503".
func Did(status int, class policy.Class) string {
	if status != 0 {
		return "answered " + strconv.Itoa(status)
	}
	return cmp.Or(failures[class].did, "ended with: "+Failure(class))
}

// hasDone is what an endpoint has done for some time: "has answered with status 503".
func hasDone(status int, class policy.Class) string {
	if status != 0 {
		return "has answered with status " + strconv.Itoa(status)
	}
	return cmp.Or(failures[class].has, "has failed with the error "+string(class))
}
