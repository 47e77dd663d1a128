//go:build prove

package sqlite

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// tracedCalls are those that change files or make changes durable. SQLite maps only its -shm file,
// which is of no use after a loss of power.
const tracedCalls = "open,openat,creat,close,dup,dup2,dup3,write,pwrite64,writev,pwritev,pwritev2,fsync,fdatasync,ftruncate,fallocate," +
	"truncate,unlink,unlinkat,rename,renameat,renameat2,link,linkat"

// call is one system call of a trace.
type call struct {
	name   string
	args   []string
	result int64
	began  int // when it began, in events of the trace
	ended  bool
}

// traced runs this test again under strace, with a setting in its environment, and returns its
// calls as they began and as they ended.
func traced(t *testing.T, setting string) []call {
	t.Helper()
	if _, err := exec.LookPath("strace"); err != nil {
		t.Fatal("this test needs strace (apt-get install strace)")
	}
	name, _, _ := strings.Cut(t.Name(), "/")
	file := filepath.Join(fast(t), "calls")
	again := exec.CommandContext(t.Context(), "strace", "-f", "--seccomp-bpf", "-qq", "-e", "signal=none", "-e", "trace="+tracedCalls,
		"-xx", "-s", strconv.Itoa(16<<20), "-o", file, os.Args[0], "-test.run=^"+name+"$")
	again.Env = append(os.Environ(), setting)
	if said, err := again.CombinedOutput(); err != nil {
		t.Fatalf("under strace: %v:\n%s", err, said)
	}
	calls, err := readTrace(file)
	if err != nil {
		t.Fatal(err)
	}
	return calls
}

func readTrace(path string) (calls []call, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	type open struct {
		text  string
		began int
	}
	unfinished := make(map[string]open) // calls by thread
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 128<<20)
	for lines.Scan() {
		thread, text, _ := strings.Cut(lines.Text(), " ")
		text = strings.TrimLeft(text, " ")
		if begin, is := strings.CutSuffix(text, "<unfinished ...>"); is {
			unfinished[thread] = open{begin, len(calls)}
			calls = append(calls, parse(begin, len(calls)))
			continue
		}
		began := len(calls)
		if strings.HasPrefix(text, "<... ") {
			_, end, _ := strings.Cut(text, "resumed>")
			began, text = unfinished[thread].began, unfinished[thread].text+end
			delete(unfinished, thread)
		} else {
			calls = append(calls, parse(text, began))
		}
		equals := strings.LastIndex(text, ")")
		if equals < 0 || !strings.Contains(text[equals:], "= ") {
			continue // it never returned: the process ended
		}
		_, result, _ := strings.Cut(text[equals:], "= ")
		result, _, _ = strings.Cut(result, " ")
		c := parse(text[:equals], began)
		if c.result, err = strconv.ParseInt(result, 10, 64); err != nil {
			continue // "?"
		}
		c.ended = true
		calls = append(calls, c)
	}
	return calls, lines.Err()
}

func parse(text string, began int) call {
	name, args, _ := strings.Cut(text, "(")
	args, _, _ = strings.Cut(args, ")")
	return call{name: name, args: strings.Split(strings.TrimRight(args, ", "), ", "), began: began}
}

func (c *call) number(i int) int64 {
	n, err := strconv.ParseInt(c.args[i], 0, 64)
	if err != nil {
		panic(fmt.Sprintf("%s: argument %d is no number", c.name, i))
	}
	return n
}

// text is an argument that strace prints as "\x67\x72…".
func (c *call) text(i int) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(strings.Trim(c.args[i], `"`), `\x`, ""))
	if err != nil {
		panic(fmt.Sprintf("%s: argument %d is cut off: %v", c.name, i, err))
	}
	return b
}

// disk has a directory's files as they were synced, and the later changes, which may be on the
// device or not.
type disk struct {
	dir    string
	ledger string // the file of deeds
	deaf   func(call, name string) bool

	names, durable map[string]*inode
	renamed        []naming
	open           map[int64]*handle
	lines          bytes.Buffer
}

type inode struct {
	name  string
	base  []byte // synced
	later []fileChange
}

// fileChange is a write, or a new length.
type fileChange struct {
	seq  int
	at   int64
	data []byte
	to   int64 // not -1: the new length
	grow bool  // but only if it is more
}

// naming gives a name to a file, or to none.
type naming struct {
	seq  int
	name string
	file *inode
}

type handle struct {
	file   *inode
	ledger bool
}

// newDisk is a directory that begins with the files of another, synced.
func newDisk(t *testing.T, dir, from, ledger string) *disk {
	t.Helper()
	d := &disk{dir: dir, ledger: ledger, names: make(map[string]*inode), open: make(map[int64]*handle)}
	files, err := os.ReadDir(from)
	for _, f := range files {
		n := &inode{name: f.Name()}
		if n.base, err = os.ReadFile(filepath.Join(from, f.Name())); err != nil {
			break
		}
		d.names[n.name] = n
	}
	if err != nil {
		t.Fatal(err)
	}
	d.durable = maps.Clone(d.names)
	return d
}

// play does a call. A write, a name or a sync is there when the call has returned, a descriptor is
// free when its close begins. It says whether something changed.
func (d *disk) play(c *call, seq int) error {
	if !c.ended {
		if c.name == "close" {
			delete(d.open, c.number(0))
		}
		return nil
	}
	if c.result < 0 {
		return nil
	}
	switch c.name {
	case "close":
		return nil
	case "openat":
		d.opened(string(c.text(1)), c.args[2], c.result, seq)
		return nil
	case "open":
		d.opened(string(c.text(0)), c.args[1], c.result, seq)
		return nil
	case "creat", "truncate", "rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat":
		return d.named(c, seq)
	}
	h := d.open[c.number(0)]
	if h == nil {
		return nil
	}
	if h.ledger {
		d.lines.Write(c.text(1)[:c.result])
		return nil
	}
	return d.changed(h.file, c, seq)
}

// keeps says whether a file's content is of use after a loss of power.
func (d *disk) keeps(path string) bool {
	return filepath.Dir(path) == d.dir && !strings.HasSuffix(path, "-shm") && !strings.HasSuffix(path, ".lock")
}

func (d *disk) opened(path, flags string, fd int64, seq int) {
	switch {
	case path == d.ledger:
		d.open[fd] = &handle{ledger: true}
		return
	case path == d.dir:
		d.open[fd] = &handle{}
		return
	case !d.keeps(path):
		return
	}
	name := filepath.Base(path)
	file := d.names[name]
	if file == nil {
		file = &inode{name: name}
		d.names[name] = file
		d.renamed = append(d.renamed, naming{seq, name, file})
	} else if strings.Contains(flags, "O_TRUNC") {
		file.later = append(file.later, fileChange{seq: seq})
	}
	d.open[fd] = &handle{file: file}
}

func (d *disk) named(c *call, seq int) error {
	i := slices.IndexFunc(c.args, func(a string) bool { return strings.HasPrefix(a, `"`) })
	path := string(c.text(i))
	if !d.keeps(path) {
		return nil
	}
	if !strings.HasPrefix(c.name, "unlink") {
		return fmt.Errorf("%s of %s: this test does not know what that does", c.name, path)
	}
	name := filepath.Base(path)
	delete(d.names, name)
	d.renamed = append(d.renamed, naming{seq, name, nil})
	return nil
}

// changed does a call on an open file.
func (d *disk) changed(file *inode, c *call, seq int) error {
	if file == nil && c.name != "fsync" {
		return fmt.Errorf("%s of a directory", c.name)
	}
	add := func(ch fileChange) {
		ch.seq = seq
		file.later = append(file.later, ch)
	}
	switch c.name {
	case "fsync", "fdatasync":
		d.sync(file, c)
	case "pwrite64":
		add(fileChange{at: c.number(3), data: c.text(1)[:c.result], to: -1})
	case "ftruncate":
		add(fileChange{to: c.number(1)})
	case "fallocate":
		mode, at, size := c.args[1], c.number(2), c.number(3)
		switch {
		case strings.Contains(mode, "PUNCH_HOLE"), strings.Contains(mode, "ZERO_RANGE"):
			add(fileChange{at: at, data: make([]byte, min(size, max(0, int64(len(file.latest()))-at))), to: -1})
		case mode == "0":
			add(fileChange{to: at + size, grow: true})
		case mode == "FALLOC_FL_KEEP_SIZE": // blocks behind the end: no byte changes, nor the length
		default:
			return fmt.Errorf("fallocate with %s: this test does not know what that does", mode)
		}
	default:
		return fmt.Errorf("%s of %s: this test does not know what that does", c.name, file.name)
	}
	return nil
}

// sync makes the changes durable that were made before the call began.
func (d *disk) sync(file *inode, c *call) {
	if file == nil {
		for len(d.renamed) > 0 && d.renamed[0].seq < c.began {
			setName(d.durable, d.renamed[0])
			d.renamed = d.renamed[1:]
		}
		return
	}
	if d.deaf != nil && d.deaf(c.name, file.name) {
		return
	}
	n := 0
	for ; n < len(file.later) && file.later[n].seq < c.began; n++ {
		file.base = file.later[n].apply(file.base)
	}
	file.later = file.later[n:]
}

func setName(names map[string]*inode, n naming) {
	if n.file == nil {
		delete(names, n.name)
	} else {
		names[n.name] = n.file
	}
}

func (c *fileChange) apply(b []byte) []byte {
	end := c.at + int64(len(c.data))
	switch {
	case c.to >= 0 && c.to <= int64(len(b)) && !c.grow:
		return b[:c.to:c.to]
	case c.to >= 0:
		end = c.to
	}
	if more := end - int64(len(b)); more > 0 {
		b = append(b, make([]byte, more)...)
	}
	copy(b[c.at:], c.data)
	return b
}

func (f *inode) latest() []byte {
	b := slices.Clone(f.base)
	for i := range f.later {
		b = f.later[i].apply(b)
	}
	return b
}

// How many of the unsynced changes are in an image.
const (
	nothingMore = iota
	allOfIt
	someOfIt
	kinds
)

const sector = 512

// image writes to a directory what the device may have if the power is lost now.
func (d *disk) image(r *rand.Rand, to string) error {
	kind := r.IntN(kinds)
	there := func() bool { return kind == allOfIt || kind == someOfIt && r.IntN(2) == 0 }
	names := maps.Clone(d.durable)
	for _, n := range d.renamed {
		if there() {
			setName(names, n)
		}
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(names)) {
		file := names[name]
		b := slices.Clone(file.base)
		for i := range file.later {
			switch c := &file.later[i]; {
			case len(c.data) > 0 && kind == someOfIt && r.IntN(2) == 0:
				b = c.torn(r, b)
			case there():
				b = c.apply(b)
			}
		}
		errs = append(errs, os.WriteFile(filepath.Join(to, name), b, 0o600))
	}
	return errors.Join(errs...)
}

// torn writes some of the sectors.
func (c *fileChange) torn(r *rand.Rand, b []byte) []byte {
	for from := int64(0); from < int64(len(c.data)); {
		until := min(int64(len(c.data)), from+sector-(c.at+from)%sector)
		if r.IntN(2) == 0 {
			part := fileChange{at: c.at + from, data: c.data[from:until], to: -1}
			b = part.apply(b)
		}
		from = until
	}
	return b
}
