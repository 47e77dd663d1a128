package server

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

func TestSpaceAt(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		space, err := spaceAt(t.TempDir())
		if err != nil || space.Total != 0 {
			t.Errorf("%+v, %v", space, err)
		}
		return
	}
	space, err := spaceAt(t.TempDir())
	if err != nil || space.Free == 0 || space.Total < space.Free || space.Total < 1<<20 {
		t.Errorf("%+v, %v", space, err)
	}
	if _, err := spaceAt(filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("a directory that does not exist has space")
	}
}

// TestFileBehindALink: the log of a database is beside the file, not beside a link to it.
func TestFileBehindALink(t *testing.T) {
	file, link := filepath.Join(t.TempDir(), "grapnel.db"), filepath.Join(t.TempDir(), "link.db")
	for _, name := range []string{file, file + "-wal"} {
		if err := os.WriteFile(name, make([]byte, 100), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(file, link); err != nil {
		t.Fatal(err)
	}
	if size, err := (Place{path: link}).size(nil)(t.Context()); size != 200 || err != nil {
		t.Errorf("the database has %d bytes, %v", size, err)
	}
}
