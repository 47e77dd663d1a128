package main

import (
	"io"
	"log"
)

// floor is memory that is never touched, so it costs none, but counts as living when the collector decides when to run next.
// What lives is small (windows, a bounded cache) and what passes through is a lot; without the floor the collector would run
// whenever a few MiB have passed. A higher GOGC would do the same for a small heap, but let a large one grow several-fold.
const floor = 48 << 20

// settle sets what belongs to the whole process and not to a server in it. Called by commands that run a server; the caller keeps
// what it returns alive as long as the server runs.
func settle() (keep []byte) {
	// net/http writes receivers' bytes to the standard log when a connection misbehaves. They have no place in our logs; what the
	// attempt came to is recorded with it.
	log.SetOutput(io.Discard)
	return make([]byte, floor)
}
