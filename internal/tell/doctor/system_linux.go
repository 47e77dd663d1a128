package doctor

import (
	"io/fs"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"

	"github.com/grapnelhq/grapnel/internal/store/sqlite/lock"
)

// kinds are file systems by their numbers in statfs(2), as far as a check names them.
var kinds = map[int64]string{0x6969: "nfs", 0xff534d42: "cifs", 0xfe534d42: "smb2", 0x517b: "smb2", 0x65735546: "fuse",
	0x01021997: "9p", 0x00c36400: "ceph", 0x01021994: "tmpfs"}

// Here is the running system.
func Here() System {
	return System{User: os.Getuid(), Sync: syncTime, Holder: lock.Holder, Disk: disk, Owner: owner, Files: files, Memory: memory}
}

func disk(dir string) (Disk, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(dir, &s); err != nil {
		return Disk{}, err
	}
	kind := kinds[s.Type&0xffffffff]
	if kind == "" {
		kind = "local"
	}
	block := uint64(s.Bsize)
	return Disk{kind, s.Bavail * block, (s.Blocks - s.Bfree + s.Bavail) * block, s.Ffree, s.Files}, nil
}

func owner(info fs.FileInfo) (int, bool) {
	is, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, false
	}
	return int(is.Uid), true
}

func files() int {
	var is syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_NOFILE, &is) != nil {
		return 0
	}
	return int(min(is.Cur, 1<<30))
}

// memory is the least of the limits of the control group and of GOMEMLIMIT.
func memory() int64 {
	least := debug.SetMemoryLimit(-1)
	for _, path := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		text, err := os.ReadFile(path)
		if n, bad := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err == nil && bad == nil {
			least = min(least, n)
		}
	}
	if least >= 1<<62 {
		return 0
	}
	return least
}
