package api

import "time"

// Bounds are the sizes and time limits inside this room; see package bounds. What the contract
// tells callers (the length of pages and batches, the largest bodies, what a count goes up to) has
// a tiny form that is its default: there is no server with another. Lengths of single fields are
// part of the API's document and are constants beside what they bound.
type Bounds struct {
	// Connections. A caller that is slow to send or to read holds one connection and nothing else, and
	// not for ever. Handlers that are slow on purpose (a long poll, a stream) lengthen their own
	// deadline with http.ResponseController.
	ReadHeader  time.Duration `bound:"5s"`
	Read        time.Duration `bound:"30s"` // of a whole request; a batch of 16 MiB needs 5 Mbit/s
	Write       time.Duration `bound:"60s"`
	IdleTime    time.Duration `bound:"2m"` // of a connection between requests
	HeaderBytes int           `bound:"64KiB" tiny:"64KiB"`

	// Bodies. The body of a publish is its data and an envelope, most of which can be metadata:
	// 32 values of 1 KiB that may be written with escapes. A replay can name a thousand keys and
	// types.
	ManagementBody int64 `bound:"256KiB" tiny:"256KiB"`
	EnvelopeBody   int64 `bound:"256KiB" tiny:"256KiB"` // besides the data of one event
	BatchBody      int64 `bound:"16MiB" tiny:"16MiB"`
	ReplayBody     int64 `bound:"1MiB" tiny:"1MiB"`
	SettleBody     int64 `bound:"1MiB" tiny:"1MiB"`

	// Bytes that are read of a body that is too large, so that a caller that writes all of it
	// before it reads gets the answer.
	Discard     int64         `bound:"64MiB" tiny:"4KiB"`
	DiscardTime time.Duration `bound:"5s"`

	Release time.Duration `bound:"5s"` // for the requests that waited for a source's secret; the rest is released after the answer

	KeysCached time.Duration `bound:"5m"` // of an endpoint's public keys, at the receivers

	FailureLog time.Duration `bound:"1m"` // between two log lines about requests that the store could not serve

	// Lists.
	PageDefault int `bound:"50" tiny:"50"`           // entries of a page if the query does not say
	PageMost    int `bound:"500" tiny:"500"`         // entries of a page, whatever the query says
	BatchEvents int `bound:"1000" tiny:"1000"`       // events of one batch
	LeaseMost   int `bound:"100" tiny:"100"`         // messages of one answer
	SettleMost  int `bound:"1000" tiny:"1000"`       // leases settled together
	HeldMost    int `bound:"1000000" tiny:"1000000"` // deliveries counted of one endpoint that holds them

	// Pages of events are shorter where events are large.
	PageData   int64 `bound:"4MiB" tiny:"1KiB"` // bytes of the events of one page
	EventsRead int   `bound:"50"`               // events read by one query of the store
	InboxScan  int   `bound:"2000"`             // events looked at for one page of the inbox, to find those of a source

	AuditPage int `bound:"500" tiny:"2"`  // audit entries that a search reads at once
	AuditScan int `bound:"5000" tiny:"4"` // entries that it looks at for one page
	NameScan  int `bound:"100" tiny:"3"`  // newest entries of a deleted thing in which its deletion is looked for

	Things int `bound:"20" tiny:"3"` // things that a search by name answers with

	EventScan int   `bound:"2000" tiny:"7"`     // events whose data are searched for one page
	ScanData  int64 `bound:"32MiB" tiny:"1KiB"` // bytes of them

	LaneEndpoints    int `bound:"100" tiny:"1"`    // endpoints looked at for one page of the stuck keys of all of them
	SignedBody       int `bound:"16KiB" tiny:"64"` // bytes of a signed body that the check of its signature shows
	PreviewEndpoints int `bound:"200" tiny:"200"`  // endpoints of a tenant whose filters a preview runs
	DeliveryScan     int `bound:"2000" tiny:"7"`   // deliveries looked at for one page, to find those that took long

	ExportPage int           `bound:"500"` // deliveries that an export reads and holds at once
	ExportSlow time.Duration `bound:"60s"` // for which one of its pages may take to be sent

	// Feeds of endpoints.
	FeedPoll       time.Duration `bound:"500ms" tiny:"1ms"` // between two reads for a caller that waits
	FeedTransforms int           `bound:"100" tiny:"2"`     // of the events of one page

	// Consumers.
	LeaseData   int64         `bound:"64MiB" tiny:"1KiB"` // bytes of the messages leased together, beyond the first
	LongestWait time.Duration `bound:"60s"`               // of a long poll
	AnswerTime  time.Duration `bound:"30s"`               // after the wait, for sending the answer
	StreamBatch int           `bound:"16"`                // messages leased together, and all that a stream keeps in memory
	// Heartbeat is how long a stream says nothing: many take a connection that is silent for longer
	// for broken.
	Heartbeat time.Duration `bound:"15s" tiny:"200ms"`
	// StreamNothing is within what time finding nothing means that the server is about to stop. It is
	// shorter than Heartbeat, or each silence would end the stream.
	StreamNothing time.Duration `bound:"1s" tiny:"20ms"`
	StreamSlow    time.Duration `bound:"10s"`             // for which a caller may take nothing in
	OpenStreams   int           `bound:"500" tiny:"20"`   // of one tenant's queues at once
	Streams       int           `bound:"1000"`            // streams remembered after their end
	StreamKept    time.Duration `bound:"15m"`             // for which each of them is
	StreamSent    int           `bound:"10000" least:"2"` // leases remembered of one stream, of which half are forgotten at a time

	// Portal links. A tenant may make LinkBurst at once, and one more in each LinkPause.
	LinkBurst int           `bound:"300" tiny:"300"`
	LinkPause time.Duration `bound:"200ms" tiny:"200ms"`

	// Idempotency keys.
	AnswerKept   time.Duration `bound:"48h"` // for which an answer is given again
	RememberTime time.Duration `bound:"5s"`  // for storing one afterwards, also for a caller who has left
	RetryTime    time.Duration `bound:"1m"`  // for which a retry's result is awaited after its caller has left

	FormerShapes int `bound:"32"` // values of format and transform that an endpoint had and that deliveries still have

	// The catalogue of one tenant.
	EventTypes     int `bound:"1000" tiny:"1000"`
	TypeVersions   int `bound:"100" tiny:"100"`   // of one event type
	CatalogueBytes int `bound:"4MiB" tiny:"4MiB"` // schemas and examples; every node has them in memory

	// Records of one tenant that every node has in memory, and copies with each change of one of them.
	Sources  int `bound:"10000" tiny:"10000"`
	Policies int `bound:"1000" tiny:"1000"`
	Contacts int `bound:"20" tiny:"20"`
	Keys     int `bound:"10000" tiny:"10000"`
	// SignOuts are the sessions that were signed out and would not have ended yet. While there are
	// more, signing out ends all sessions of the same person, key or subject.
	SignOuts int `bound:"1000" tiny:"2"`

	Counted int64 `bound:"20000" tiny:"3"` // heads, and dead letters, that an overview counts

	Simulations int `bound:"2"` // simulations at once; each takes a processor from delivering

	// Causes of failures.
	Explanations  int           `bound:"1"`              // at once
	Compared      int           `bound:"1000" tiny:"50"` // newest deliveries that are compared
	LeastCompared int           `bound:"256" tiny:"7"`   // of them, however long that takes
	Comparing     time.Duration `bound:"15ms" tiny:"1m"` // for reading them
	Explained     int           `bound:"200" tiny:"20"`  // failures, and successes, whose attempts are read
	Changes       int           `bound:"100" tiny:"2"`   // newest audit entries that are read
	Issues        int           `bound:"2000"`           // issues that a list reads to sort them

	// Memory for the bodies of requests under way, of all tenants together; see Gate. It grows with
	// what arrives.
	Bodies    int64         `bound:"128MiB" tiny:"64MiB"`
	BodyFirst int64         `bound:"4KiB" tiny:"1"` // first buffer of a body; a full one is replaced by one four times as large
	BodyRetry time.Duration `bound:"1s"`            // Retry-After when there is no memory

	// Requests that are refused because of their keys are counted by address.
	Strangers int `bound:"4096"` // addresses that are remembered
	// between two log lines about one address; an address without refusals in this time may be
	// forgotten
	StrangerLog time.Duration `bound:"1m"`

	// Wrong keys from one address are slowed; a key that was valid from there before never is.
	Wrong      int           `bound:"20"`            // wrong keys answered without delay; one more for each WrongDelay that passes
	WrongDelay time.Duration `bound:"1s" tiny:"1ms"` // before each further answer
	WrongLate  int           `bound:"64"`            // delayed answers at once; further requests are refused without looking the key up
	Seen       int           `bound:"65536"`         // pairs of a valid key and an address that are remembered

	// Refusals (4xx) of one tenant, or of one source: RefusalBurst are answered at once, and one more
	// in each RefusalPause; the others after RefusalWait.
	RefusalBurst int           `bound:"1000" tiny:"2"`
	RefusalPause time.Duration `bound:"5ms" tiny:"5ms"`
	RefusalWait  time.Duration `bound:"1s" tiny:"1ms"`

	Connections int `bound:"65536" tiny:"256"` // of callers at once; fewer if that is more than half of the descriptors
}
