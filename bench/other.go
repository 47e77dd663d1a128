//go:build !linux

// Command bench measures the cost of durability. It reads processor times and file systems as Linux
// shows them.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "bench: this runs on Linux only")
	os.Exit(1)
}
