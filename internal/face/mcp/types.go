package mcp

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/grapnelhq/grapnel/client"
)

// Options are the Grapnel server that the tools ask, and what an agent may do with it.
type Options struct {
	Client     *client.Client
	AllowWrite bool // tools that change something are listed too
	// Torture sends the requests of the cases; nil: the tool is not listed.
	Torture func(ctx context.Context, t Trial, tell func(Case)) (*Verdict, error)
	// TortureHosts are hosts that may be tortured besides this machine.
	TortureHosts []string
	Bounds       Bounds
	Clock        func() time.Time // nil: the machine's
	Log          *slog.Logger     // nil: none
}

// Bounds limit what one agent can ask for.
type Bounds struct {
	Calls    int           `bound:"8"`                 // calls of tools at once; more are refused
	Call     time.Duration `bound:"60s"`               // for a call of a tool, but for torture
	Torture  time.Duration `bound:"5m"`                // for a torture
	TestWait time.Duration `bound:"10s"`               // for the outcome of a test event
	Answer   int           `bound:"64KiB" tiny:"2KiB"` // bytes of an answer, text and structure together
	Rows     int           `bound:"50"`                // rows of each list
	Text     int           `bound:"600" least:"16"`    // bytes of a text of others
	Payload  int           `bound:"4KiB" least:"16"`   // bytes of an event's data or of a receiver's answer
	Requests int           `bound:"64"`                // HTTP requests at once; more get 503
	Request  int64         `bound:"1MiB" tiny:"64KiB"` // bytes of an HTTP request's body
	Arrival  time.Duration `bound:"10s"`               // for an HTTP request to arrive
	Idle     time.Duration `bound:"2m"`                // for a connection without a request
	Leaving  time.Duration `bound:"5s"`                // for requests in progress when the server ends
}

// Trial is a receiver to torture.
type Trial struct {
	URL, Secret, Probe string
	Only               []string // ids of cases; empty: all
}

// Case is the result of one case of a torture.
type Case struct {
	ID, Name, Verdict, Reason string
	Findings                  []string // each with its proof
	Done, Of                  int      // cases that ended, of how many
}

// Verdict is the result of a torture.
type Verdict struct {
	Passed, Failed, NotJudged int
	Grade                     string // empty: too little was judged
	Cases                     []Case
}

// room is one server with its options filled in.
type room struct {
	Options
	slots chan struct{} // of calls
}

// call is one call of a tool.
type call struct {
	*room
	arguments json.RawMessage // as they came, with the digits of their numbers
	tell      func(done, of int, text string)
}
