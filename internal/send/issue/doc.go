// Package issue counts failed attempts by what they have in common, and keeps the counts as
// documents that people can acknowledge, mute and resolve.
//
// An issue is the failures of one endpoint with one error class, one status code and one
// fingerprint of the answer's body (Group). Its id follows from these, so every node that sees such
// a failure means the same document.
//
// A Tally collects failures in memory: adding one is a few comparisons under a mutex, without I/O.
// A Keeper takes the collected deltas every few seconds, merges them into the documents and
// resolves issues whose endpoint delivers again. Merging is commutative and associative, so the
// order of nodes and flushes does not matter.
//
// It does not promise exact counts. A crash loses the deltas of the last seconds, and the numbers
// of deliveries and keys are estimates above Bounds.Exact. The deliveries are the truth.
package issue

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"strings"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/policy"
)

// Kind is the kind of the documents.
const Kind = "issue"

// AnswerBytes is how much of an answer's body is read for its fingerprint.
const AnswerBytes = 300

// ClassOther is the class of an endpoint's failures that got no issue of their own, because there
// are too many different ones.
const ClassOther policy.Class = "other"

// The sizes of an issue are part of its form: nodes that disagreed about them would undo each
// other's merges.
const (
	exact    = 128 // deliveries, and keys, that are counted exactly; above, the count is an estimate
	examples = 5   // newest deliveries that an issue names
	hours    = 48  // whose failures are counted one by one
)

// Bounds are the sizes and time limits of this package; see package bounds.
type Bounds struct {
	// Deltas in memory between two flushes. A failure beyond Endpoint joins the endpoint's other
	// failures; one beyond Tenant or All is not counted.
	Endpoint int `bound:"64"`
	Tenant   int `bound:"512"`
	All      int `bound:"8192"`

	// Issues in the store. Beyond the first two, new kinds of failures join the endpoint's other
	// failures; beyond Stored, a new issue replaces the resolved one that is oldest.
	OpenAtEndpoint int `bound:"20"`
	OpenOfTenant   int `bound:"200"`
	Stored         int `bound:"400"`

	Successes int `bound:"20" tiny:"20"` // of the endpoint, after which an issue without failures is resolved
	Doublings int `bound:"9" tiny:"9"`   // each regression doubles that number, this many times at most

	Flush  time.Duration `bound:"3s" tiny:"20ms"`    // between two flushes
	Rescan time.Duration `bound:"10m" tiny:"200ms"`  // between two readings of all issues
	Within time.Duration `bound:"10s" tiny:"10s"`    // of one flush
	Last   time.Duration `bound:"2s" tiny:"2s"`      // of the one when the engine stops
	Kept   time.Duration `bound:"2160h" tiny:"720h"` // an issue that nothing has changed for this long is deleted

	Batch int `bound:"32"` // issues written in one transaction
	// issues that are resolved at the same time: their reads and commits are shared
	Together int `bound:"8"`
	Tries    int `bound:"5" least:"3"`      // of a transaction that others overtake
	Page     int `bound:"200" tiny:"2"`     // issues read at once
	Clear    int `bound:"1000" least:"100"` // issues deleted at once
}

func (b Bounds) filled() Bounds { return bounds.Fill(b) }

// Group is what the failures of an issue have in common.
type Group struct {
	Tenant, Endpoint string
	Class            policy.Class
	Status           int    // 0: no answer
	Answer           string // fingerprint of its body
}

// Other is the group of an endpoint's failures that got no issue of their own.
func (g Group) Other() Group {
	return Group{Tenant: g.Tenant, Endpoint: g.Endpoint, Class: ClassOther}
}

// ID is the id of the group's issue. The first half of its bits follows from the endpoint, the
// second from the rest, so the issues of one endpoint are neighbours.
func (g Group) ID() string {
	half := func(sum [32]byte) uint64 { return binary.BigEndian.Uint64(sum[:8]) }
	rest := fmt.Sprintf("%s\x00%d\x00%s", g.Class, g.Status, g.Answer)
	return idOf(half(endpointSum(g.Tenant, g.Endpoint)), half(sha256.Sum256([]byte(rest))))
}

// Range are the bounds, both exclusive, between which all ids of an endpoint's issues are.
func Range(tenant, endpoint string) (after, before string) {
	sum := endpointSum(tenant, endpoint)
	first := binary.BigEndian.Uint64(sum[:8])
	return idOf(first, 0), idOf(first, 1<<64-1)
}

func endpointSum(tenant, endpoint string) [32]byte {
	return sha256.Sum256([]byte(tenant + "\x00" + endpoint))
}

func idOf(first, second uint64) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], first)
	binary.BigEndian.PutUint64(b[8:], second)
	return grapnel.NewToken(grapnel.IssuePrefix, bytes.NewReader(b[:]))
}

// IsID says whether a text has the form of an issue's id.
func IsID(id string) bool { return strings.HasPrefix(id, grapnel.IssuePrefix+"_") }

// Failure is one failed attempt.
type Failure struct {
	Group
	At       time.Time
	Delivery string // its public id, which survives moves of the tenant
	Key      string
	// creation of the delivery; it is not before the event's acceptance
	Created time.Time
	Again   bool // a replay or a person asked for the delivery, so its event may be much older
}
