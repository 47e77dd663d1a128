//go:build race

package sqlite

// slow says that the race detector is on: SQLite, which is one goroutine's at a time, becomes
// twenty times slower by it. Tests that are long for the sake of the data are shorter then.
const slow = true
