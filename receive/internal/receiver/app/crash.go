package app

import (
	"net/http"
	"os"
	"syscall"
	"time"

	"github.com/grapnelhq/grapnel/receive"
)

// crash kills the process at the step that CRASH names, once for each file CRASH_ONCE.
func (a *app) crash(step string) {
	once := a.env("CRASH_ONCE")
	if a.env("CRASH") != step || once == "" {
		return
	}
	file, err := os.OpenFile(once, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return
	}
	_ = file.Close()
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {} // the signal is on its way
}

// crashing crashes before the claim.
type crashing struct {
	receive.Verifier
	crash func(string)
}

func (c crashing) Verify(r *http.Request, body []byte, now time.Time) (receive.Verified, error) {
	v, err := c.Verifier.Verify(r, body, now)
	if err == nil {
		c.crash("before-claim")
	}
	return v, err
}

// answer crashes after the commit, before the first byte of the answer to a processed event.
type answer struct {
	http.ResponseWriter
	crash func(string)
}

func (a *answer) WriteHeader(status int) {
	if o := receive.Outcome(a.Header().Get("Webhook-Outcome")); o == receive.Processed || o == receive.Accepted {
		a.crash("after-commit")
	}
	a.ResponseWriter.WriteHeader(status)
}

func (a *answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }
