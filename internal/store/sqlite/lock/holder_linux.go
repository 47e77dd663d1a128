package lock

import (
	"os"
	"strconv"
	"strings"
	"syscall"
)

// Holder returns the number of the process that uses the database at path; 0: none does, or it is
// of another container. It takes no lock, so a server can start meanwhile.
func Holder(path string) int {
	info, err := os.Stat(path + ".lock")
	if err != nil {
		return 0
	}
	is, ok := info.Sys().(*syscall.Stat_t)
	text, err := os.ReadFile("/proc/locks")
	if !ok || err != nil {
		return 0
	}
	inode := ":" + strconv.FormatUint(is.Ino, 10)
	for line := range strings.Lines(string(text)) { // 1: FLOCK ADVISORY WRITE 4711 fe:00:131 0 EOF
		if f := strings.Fields(line); len(f) > 5 && f[1] == "FLOCK" && strings.HasSuffix(f[5], inode) {
			pid, _ := strconv.Atoi(f[4])
			return max(pid, 0)
		}
	}
	return 0
}
