//go:build linux

package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
)

// ledger is the harness's evidence: a file of JSON lines on one clock. Lines are written at once.
// sync waits until they are on the disk; one fsync serves all callers that wait.
type ledger struct {
	t     testing.TB
	epoch time.Time
	file  *os.File

	mu      sync.Mutex
	changed *sync.Cond
	written int // lines
	synced  int
	syncing bool
}

// entry is one line. The parts that are set say what it records.
type entry struct {
	Call    int              `json:"call,omitempty"` // of Intent and Result
	Intent  *history.Publish `json:"intent,omitempty"`
	Result  *history.Publish `json:"result,omitempty"` // Return and Result only
	Begin   *history.Receipt `json:"begin,omitempty"`  // set in all but the end
	End     *history.Receipt `json:"end,omitempty"`    // End, Status and AnswerLost only
	Receipt int              `json:"receipt,omitempty"`
	Fault   *history.Fault   `json:"fault,omitempty"`
	Action  *history.Action  `json:"action,omitempty"`
}

func newLedger(t testing.TB) *ledger {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "ledger.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	l := &ledger{t: t, epoch: time.Now(), file: file}
	l.changed = sync.NewCond(&l.mu)
	t.Cleanup(func() { _ = file.Close() })
	return l
}

// now is the time on the harness's clock. It is monotonic: steps of the wall clock do not reorder
// the history.
func (l *ledger) now() time.Duration { return time.Since(l.epoch) }

// write appends a line.
func (l *ledger) write(e entry) {
	line, err := json.Marshal(e)
	if err != nil {
		panic(err) // an entry contains nothing that cannot be encoded
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, err := l.file.Write(append(line, '\n')); err != nil {
		l.t.Errorf("the ledger cannot be written: %v", err)
	}
	l.written++
}

// lines is the number of lines.
func (l *ledger) lines() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written
}

// sync returns once every line written before the call is on the disk.
func (l *ledger) sync() {
	l.mu.Lock()
	defer l.mu.Unlock()
	upTo := l.written
	for l.synced < upTo {
		if l.syncing {
			l.changed.Wait()
			continue
		}
		l.syncing = true
		covered := l.written
		l.mu.Unlock()
		err := l.file.Sync()
		l.mu.Lock()
		if err != nil {
			l.t.Errorf("the ledger cannot be synced: %v", err)
		}
		l.syncing, l.synced = false, covered
		l.changed.Broadcast()
	}
}

// read turns the file into a history. A call without a result is unknown; a request without an end
// was still open.
func (l *ledger) read() (history.History, error) {
	var h history.History
	file, err := os.Open(l.file.Name())
	if err != nil {
		return h, err
	}
	defer func() { _ = file.Close() }()
	calls, receipts := map[int]int{}, map[int]int{}
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var e entry
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return h, fmt.Errorf("a line of the ledger cannot be read: %w", err)
		}
		switch {
		case e.Intent != nil:
			calls[e.Call] = len(h.Publishes)
			e.Intent.Result = history.Unknown
			h.Publishes = append(h.Publishes, *e.Intent)
		case e.Result != nil:
			p := &h.Publishes[calls[e.Call]]
			p.Return, p.Result = e.Result.Return, e.Result.Result
		case e.Begin != nil:
			receipts[e.Receipt] = len(h.Receipts)
			e.Begin.End = l.now()
			h.Receipts = append(h.Receipts, *e.Begin)
		case e.End != nil:
			r := &h.Receipts[receipts[e.Receipt]]
			r.End, r.Status, r.AnswerLost = e.End.End, e.End.Status, e.End.AnswerLost
		case e.Fault != nil:
			h.Faults = append(h.Faults, *e.Fault)
		case e.Action != nil:
			h.Actions = append(h.Actions, *e.Action)
		}
	}
	return h, lines.Err()
}
