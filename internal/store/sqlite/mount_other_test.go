//go:build !linux

package sqlite

import "testing"

func mountSmall(t *testing.T, _ string, _ int) {
	t.Skip("small file systems are made on Linux only; TestDatabaseFull shows the same with a small database")
}
