//go:build linux

package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// disk is the database's disk, and the cost of an fsync there.
type disk struct {
	kind string
	sync time.Duration
}

// Magic numbers of file systems, from statfs(2).
const (
	tmpfsMagic = 0x01021994
	extMagic   = 0xef53
	xfsMagic   = 0x58465342
)

var errMemory = errors.New("the database would be in memory (tmpfs), where fsync does nothing; choose another -dir")

// inspect refuses directories where durability would cost nothing, and times fsync.
func inspect(dir string) (disk, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return disk{}, err
	}
	d := disk{kind: fmt.Sprintf("file system %#x", fs.Type)}
	switch fs.Type {
	case tmpfsMagic:
		return d, errMemory
	case extMagic:
		d.kind = "ext4"
	case xfsMagic:
		d.kind = "xfs"
	}
	file, err := os.CreateTemp(dir, "sync")
	if err != nil {
		return d, err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	const times = 200
	block := make([]byte, 4096)
	start := time.Now()
	for range times {
		if _, err := file.Write(block); err != nil {
			return d, errors.Join(err, file.Close())
		}
		if err := file.Sync(); err != nil {
			return d, errors.Join(err, file.Close())
		}
	}
	d.sync = time.Since(start) / times
	return d, file.Close()
}

// userTick is the kernel's unit of processor time: USER_HZ is 100 on every Linux that Go runs on.
const userTick = 10 * time.Millisecond

// busy is the processor time of the whole machine except idling and waiting.
func busy() (time.Duration, error) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, err
	}
	first, _, _ := strings.Cut(string(text), "\n")
	fields := strings.Fields(first) // cpu user nice system idle iowait irq softirq steal …
	if len(fields) < 9 {
		return 0, fmt.Errorf("the kernel says %q", first)
	}
	ticks := 0
	for _, i := range []int{1, 2, 3, 6, 7, 8} {
		n, err := strconv.Atoi(fields[i])
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * userTick, nil
}

// stat is the kernel's statistics of a process.
type stat struct {
	parent int
	used   time.Duration // processor time
	ended  time.Duration // and that of children that have ended
}

func lookAt(pid int) (p stat, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return p, err
	}
	_, rest, _ := strings.Cut(string(text), ") ") // the name before it may hold spaces
	fields := strings.Fields(rest)
	if len(fields) < 15 {
		return p, fmt.Errorf("the kernel says %q", text)
	}
	var n [5]int
	for i, at := range []int{1, 11, 12, 13, 14} { // parent; user and system time, its own and that of its children
		if n[i], err = strconv.Atoi(fields[at]); err != nil {
			return p, err
		}
	}
	return stat{parent: n[0], used: time.Duration(n[1]+n[2]) * userTick, ended: time.Duration(n[3]+n[4]) * userTick}, nil
}

// facts reads a file of the kernel with lines of the form "name: value".
func facts(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(line, ":")
		all[strings.TrimSpace(name)] = strings.TrimSpace(value)
	}
	return all, err
}

// writtenBy is how many bytes a process has written to devices, as the kernel counts the pages that
// it made dirty. A page that is written twice before it reaches the device counts once.
func writtenBy(pid int) (int64, error) {
	io, err := facts(fmt.Sprintf("/proc/%d/io", pid))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(io["write_bytes"], 10, 64)
}

// memory is how many bytes of a process are in memory.
type memory struct{ resident, peak int64 }

func memoryOf(pid int) (m memory, err error) {
	status, err := facts(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return m, err
	}
	for name, to := range map[string]*int64{"VmRSS": &m.resident, "VmHWM": &m.peak} {
		kib, err := strconv.ParseInt(strings.TrimSuffix(status[name], " kB"), 10, 64)
		if err != nil {
			return m, err
		}
		*to = kib << 10
	}
	return m, nil
}

// machine describes the machine that the numbers were measured on.
func machine() string {
	processor, _ := facts("/proc/cpuinfo") // without it, the model is unknown
	model := cmp.Or(processor["model name"], "unknown processor")
	release, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		release = []byte(runtime.GOOS)
	}
	return fmt.Sprintf("%d × %s, %s %s/%s, %s", runtime.NumCPU(), model, strings.TrimSpace(string(release)), runtime.GOOS,
		runtime.GOARCH, runtime.Version())
}
