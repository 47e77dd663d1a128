package server

import (
	"path/filepath"
	"runtime"
	"testing"
)

func TestRoomAt(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		room, err := roomAt(t.TempDir())
		if err != nil || room.Total != 0 {
			t.Errorf("%+v, %v", room, err)
		}
		return
	}
	room, err := roomAt(t.TempDir())
	if err != nil || room.Free == 0 || room.Total < room.Free || room.Total < 1<<20 {
		t.Errorf("%+v, %v", room, err)
	}
	if _, err := roomAt(filepath.Join(t.TempDir(), "absent")); err == nil {
		t.Error("a directory that is not there has room")
	}
}
