package main

// job has the flags.
type job struct {
	to, binary, dir string
	only            string   // parts of a picture's name
	shown           []string // names of the pictures to take; nil: all
	queued          int      // messages of the long queue
}
