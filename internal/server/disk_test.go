package server

import (
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
