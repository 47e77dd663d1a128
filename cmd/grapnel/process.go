package main

import (
	"io"
	"log"
	"os"
	"runtime/debug"
)

// settle sets what belongs to the whole process and not to a server in it. Called by commands that run a server.
func settle() {
	// What lives is small (windows, a bounded cache) and what passes through is a lot, so collecting at the default of twice
	// the living size is most of the time collecting for nothing.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400)
	}
	// net/http writes receivers' bytes to the standard log when a connection misbehaves. They have no place in our logs; what the
	// attempt came to is recorded with it.
	log.SetOutput(io.Discard)
}
