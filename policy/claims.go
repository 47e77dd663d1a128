package policy

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Claims are the promises of a document about its webhooks, extracted from its sentences, or those
// that follow from a policy's settings. Lint compares them with each other. An empty field means
// that the document is silent.
type Claims struct {
	Document string `json:"document,omitempty"`
	// the contract of one sender: an omission is a gap
	Sender   bool            `json:"sender,omitempty"`
	Schedule ScheduleClaims  `json:"schedule,omitzero"`
	Ending   EndingClaims    `json:"ending,omitzero"`
	Answers  AnswerClaims    `json:"answers,omitzero"`
	Disable  *DisableClaims  `json:"disable,omitempty"`
	Ordering OrderingClaims  `json:"ordering,omitzero"`
	Latency  []LatencyClaim  `json:"latency,omitempty"`
	Keeping  KeepingClaims   `json:"keeping,omitzero"`
	Replay   ReplayClaims    `json:"replay,omitzero"`
	Receive  []ReceiveClaims `json:"receive,omitempty"`
	Queue    *QueueClaims    `json:"queue,omitempty"`
	Facts    []FactClaim     `json:"facts,omitempty"`
}

// ScheduleClaims are statements about the times of attempts.
type ScheduleClaims struct {
	Table    []Duration    `json:"table,omitempty"`
	Mode     Mode          `json:"mode,omitempty"` // how the column of the table is named
	Tail     Tail          `json:"tail,omitempty"`
	Formula  *FormulaClaim `json:"formula,omitempty"`
	Attempts int           `json:"attempts,omitempty"` // in words
	// in words: "retry window", "total budget"
	Window      Duration `json:"window,omitempty"`
	MaxAge      Duration `json:"max_age,omitempty"`      // a rule that ends the retries
	MaxAttempts int      `json:"max_attempts,omitempty"` // a rule that ends the retries
	// how late an attempt can start by schedule, if that is known
	Longest Duration `json:"longest,omitempty"`
	// every statement about it, even that there is none
	Jitter string `json:"jitter,omitempty"`
}

// FormulaClaim is a formula that is claimed to produce the table.
type FormulaClaim struct {
	Base   Duration `json:"base,omitempty"`   // 0: any
	Factor float64  `json:"factor,omitempty"` // 0: any, as in "exponential backoff"
	Max    Duration `json:"max,omitempty"`
}

// EndingClaims are statements about exhausted deliveries.
type EndingClaims struct {
	Words    []string `json:"words,omitempty"` // dead_letter, failed, abandoned, discarded
	Recorded bool     `json:"recorded,omitempty"`
	Notice   string   `json:"notice,omitempty"`   // who is notified: other_endpoints, operators
	Fallback string   `json:"fallback,omitempty"` // who is notified if Notice has none
}

// AnswerClaims are statements about the answers of a receiver.
type AnswerClaims struct {
	Success   []string      `json:"success,omitempty"`
	Failures  []AnswerClaim `json:"failures,omitempty"`   // answers that are called failures
	Permanent []string      `json:"permanent,omitempty"`  // not retried
	Retried   []string      `json:"retried,omitempty"`    // said to be retried
	TimeoutAs string        `json:"timeout_as,omitempty"` // the status that a timeout is shown as
}

// AnswerClaim is an answer with a property: a 204 with a body.
type AnswerClaim struct {
	Status string `json:"status"`
	With   string `json:"with"`
}

// DisableClaims are statements about disabling an endpoint.
type DisableClaims struct {
	Consecutive int      `json:"consecutive,omitempty"`
	Of          []string `json:"of,omitempty"` // status families or error classes that count
	After       Duration `json:"after,omitempty"`
	// each attempt of a delivery, or the delivery once
	CountsAttempts *bool   `json:"counts_attempts,omitempty"`
	CountsTimeouts *bool   `json:"counts_timeouts,omitempty"`
	Pending        Pending `json:"pending,omitempty"`
	Inspect        bool    `json:"inspect,omitempty"`  // pending deliveries can be inspected
	Recorded       bool    `json:"recorded,omitempty"` // and the document says how
}

// OrderingClaims are statements about order.
type OrderingClaims struct {
	Guarantee string `json:"guarantee,omitempty"` // none, per_key
	Never     bool   `json:"never,omitempty"`     // "you will never see them out of order"
	Exhausted Then   `json:"exhausted,omitempty"` // effect on the key of an exhausted event
	// how a person gets rid of a stuck event, in words
	Skip    string `json:"skip,omitempty"`
	SkipAPI bool   `json:"skip_api,omitempty"` // and there is a call for it
	// how stale events are told apart: "strict" drops equal timestamps
	Newer string `json:"newer,omitempty"`
	// statuses, the lowest first, of which only a higher one is applied
	Rank   []string `json:"rank,omitempty"`
	Finals []string `json:"finals,omitempty"` // those that end the matter
}

// LatencyClaim is a percentile of a latency.
type LatencyClaim struct {
	Of         string   `json:"of"`
	Percentile float64  `json:"percentile"`
	Within     Duration `json:"within"`
}

// KeepingClaims are statements about the retention of deliveries.
type KeepingClaims struct {
	DeadLetters Duration `json:"dead_letters,omitempty"`
	Log         Duration `json:"log,omitempty"`
	From        string   `json:"from,omitempty"` // dispatch or death
}

// ReplayClaims are statements about redelivery.
type ReplayClaims struct {
	Offered bool     `json:"offered,omitempty"`
	Payload []string `json:"payload,omitempty"` // frozen, caller
	Routes  []string `json:"routes,omitempty"`
	Order   string   `json:"order,omitempty"`
	Steps   []string `json:"steps,omitempty"`   // of a sample: claim, work, mark
	Headers string   `json:"headers,omitempty"` // stored headers: all, redacted
}

// ReceiveClaims are one way to receive that a document recommends, often a code sample.
type ReceiveClaims struct {
	Name string `json:"name"`
	// in order: ack, check, record, claim (both at once), store (a durable queue), work
	Steps   []string `json:"steps,omitempty"`
	Atomic  bool     `json:"atomic,omitempty"`  // record and work are one transaction
	Forgets bool     `json:"forgets,omitempty"` // the record is removed when the work fails
	Key     string   `json:"key,omitempty"`     // key for recognising duplicates
	// the document's name for that key: event, delivery
	KeyIs   string   `json:"key_is,omitempty"`
	Window  Duration `json:"window,omitempty"`  // how far back duplicates are looked for
	Cleanup Duration `json:"cleanup,omitempty"` // when records are deleted
	Cleans  string   `json:"cleans,omitempty"`  // only records in this state are
	// effect of recording an event twice: duplicate, error
	Conflict string `json:"conflict,omitempty"`
	// the part of the content that a content key covers: all, top_level
	Covers   string `json:"covers,omitempty"`
	Defaults []int  `json:"defaults,omitempty"` // of a retry count read from a header
}

// QueueClaims are statements about a pull queue and its consumers.
type QueueClaims struct {
	Nack  string   `json:"nack,omitempty"` // when a nacked message comes back
	Lease Duration `json:"lease,omitempty"`
	// action of a consumer on an empty answer: waits, exits
	Empty string `json:"empty,omitempty"`
	// effect of an unexpected error of a consumer: retry, reject
	UnknownError string   `json:"unknown_error,omitempty"`
	AckChecked   bool     `json:"ack_checked,omitempty"`
	Rejected     Duration `json:"rejected,omitempty"` // retention of rejected messages
	DeadReplay   string   `json:"dead_replay,omitempty"`
	Order        string   `json:"order,omitempty"`
	Copies       string   `json:"copies,omitempty"` // whether each consumer gets its own
}

// FactClaim is a document's statement about another provider.
type FactClaim struct {
	Provider string   `json:"provider"`
	Retries  int      `json:"retries,omitempty"`
	Window   Duration `json:"window,omitempty"`
}

// ParseClaims reads claims from JSON.
func ParseClaims(raw []byte) (Claims, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var c Claims
	if err := d.Decode(&c); err != nil {
		return Claims{}, fmt.Errorf("policy: claims: %w", err)
	}
	return c, nil
}

// Claims are the promises of deliveries under this policy. A caller that adds the statements to
// receivers (a window of deduplication, say) can have Lint compare the two.
func (p *Policy) Claims() Claims {
	reach, no := p.Reach(), false
	c := Claims{
		Document: p.Name, Sender: true,
		Schedule: ScheduleClaims{
			Table: p.Schedule.Delays, Mode: p.Schedule.Mode, Tail: p.Schedule.Tail, Attempts: reach.Attempts, Window: Duration(reach.Nominal),
			Longest: Duration(reach.Longest),
			MaxAge:  p.MaxAge, MaxAttempts: p.MaxAttempts, Jitter: p.Jitter.String(),
		},
		Ending:  EndingClaims{Words: []string{string(p.OnExhausted)}, Recorded: true, Notice: "other_endpoints", Fallback: "operators"},
		Answers: AnswerClaims{Success: p.Success, Retried: []string{"4xx"}, TimeoutAs: string(ClassTimeout)},
		Disable: &DisableClaims{
			Consecutive: p.Disable.Consecutive, Of: []string{string(p.Disable.Of)}, After: p.Disable.After,
			CountsAttempts: &no, CountsTimeouts: &no, Pending: p.Disable.Pending, Inspect: true, Recorded: true,
		},
		Keeping: KeepingClaims{From: "death"},
		Replay:  ReplayClaims{Offered: true, Payload: []string{"frozen"}, Order: "original", Headers: "redacted"},
	}
	if p.Schedule.Mode == Exponential {
		c.Schedule.Formula = &FormulaClaim{Base: p.Schedule.Base, Factor: p.Schedule.Factor, Max: p.Schedule.Max}
	}
	return c
}

// rule finds one kind of contradiction. Its check returns a detail for every case it finds.
type rule struct {
	code, text string
	check      func(c *Claims) []string
}
