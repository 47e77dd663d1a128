package torture

import (
	"context"
	"net/http"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"
)

// Options are a receiver and all that can be asked of it.
type Options struct {
	URL      string
	OtherURL string // of a second source; empty: T18 is not judged
	Scheme   Scheme
	Body     string // template of the payload; empty: the scheme's
	Secret   string
	Other    string // secret of the second source; empty: the same
	Probe    Probe  // nil: effects are not seen
	FaultURL string // makes handlers fail; see faultQuery
	ClockURL string // sets the receiver's clock
	Command  []string
	Only     []string // ids of cases; empty: all
	Language string   // of remedies; empty: guessed
	Bounds   Bounds

	// Tell gets each case as it ends, and again if effects that came later change its verdict; may be
	// nil.
	Tell func(*Result)
}

// Result is the outcome of one case.
type Result struct {
	ID       string        `json:"id"`
	Name     string        `json:"name"`
	Proves   string        `json:"proves"`
	Verdict  Verdict       `json:"verdict"`
	Reason   string        `json:"reason,omitempty"` // why it is not judged
	Took     time.Duration `json:"took"`
	Findings []Finding     `json:"findings,omitempty"`
	History  History       `json:"history"`
}

// Verdict is the outcome of a case in a word.
type Verdict string

// runner is one run over a receiver.
type runner struct {
	Options
	run      string // part of every id, so that two runs do not meet
	began    time.Time
	client   *http.Client
	receiver *process // nil: it is started by others
	sent     atomic.Int64
	typical  time.Duration   // of an answer
	offset   time.Duration   // of the receiver's clock
	broken   string          // why no further case can be judged
	hidden   map[string]bool // fields that the probe has not shown in the time to settle
}

// trial is one run of a case. Its methods record what they do in the history.
type trial struct {
	*runner
	result *Result
	began  time.Time
	stop   context.CancelCauseFunc

	mu     sync.Mutex // of the history
	events int
	reason string // why it is not judged, if nothing is found
}

// Finding is a broken invariant with its proof and its remedy.
type Finding struct {
	Invariant string   `json:"invariant"`
	Defect    string   `json:"defect"`
	Shown     string   `json:"shown"`
	Proof     []string `json:"proof"` // the requests that prove it, with times, statuses and effects
	Fix       []string `json:"fix"`
	Remedy    string   `json:"remedy"` // its name
}

// process is the receiver as a command that is started, killed and started again.
type process struct {
	command []string
	url     string
	within  time.Duration // for the port to answer

	cmd   *exec.Cmd
	ended chan struct{} // closed when the command has ended
	last  tail
}

// tail keeps the last lines of output.
type tail struct {
	mu   sync.Mutex
	last []byte
}

// Scheme is how a provider makes and signs its requests.
type Scheme struct {
	Name string
	// New makes an event in the provider's own form; nil: the payload of docs/torture.md.
	New func(now time.Time) (id string, header http.Header, body []byte, err error)
	// Sign returns all headers of a request, signed by each of the secrets.
	Sign      func(id string, at time.Time, header http.Header, body []byte, secrets ...string) (http.Header, error)
	Secret    func() string // makes a secret that the receiver does not have
	Signature string        // header with the signature
	SignsID   bool          // a header has the id, and it cannot be changed without the secret
	Timed     bool          // a time is signed
	Several   bool          // a request may carry several signatures, as in Standard Webhooks
}

// Bounds limit a run.
type Bounds struct {
	AckBudget   time.Duration `bound:"5s"`    // for an answer
	Settle      time.Duration `bound:"10s"`   // for an effect after the answer
	Patience    time.Duration `bound:"45s"`   // for a retry to be accepted; longer than common leases
	Hang        time.Duration `bound:"800ms"` // for a handler that is made to hang
	Start       time.Duration `bound:"30s"`   // for a command to listen
	Requests    int           `bound:"3000"`  // to the receiver in all, without those of the probe
	Copies      int           `bound:"20"`    // of one event at once
	Burst       int           `bound:"500"`   // events
	Lanes       int           `bound:"25"`    // keys of a burst, each with one request at a time
	Kills       int           `bound:"5"`     // moments between arrival and answer
	Drip        time.Duration `bound:"30s"`   // for one slow request
	Idle        int           `bound:"200"`   // connections without a request
	ReplayAfter time.Duration `bound:"180h"`  // 7 days and 12 hours: within the window of 8 days
	Large       int64         `bound:"20MiB"`
}
