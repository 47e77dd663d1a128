//go:build linux && prove

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/e2e/process"
	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
)

// When the disk reports a failed write, the process must not go on: the kernel has dropped the data
// and will not write it later. The process ends with a clear message, and every acknowledged event
// is there after a restart.
func TestFsyncFailure(t *testing.T) {
	beside(t, busy)
	if _, err := exec.LookPath("strace"); err != nil {
		t.Fatal("this test needs strace (apt-get install strace)")
	}
	for _, after := range []int{1, 20, 60} {
		t.Run(fmt.Sprintf("number %d of a thread", after), func(t *testing.T) {
			good := program{}
			x := newTrial(t, good, func(d *dice) []*target { return []*target{healthy(d), loose(d)} })
			if code := x.child.terminate(40 * time.Second); code != 0 {
				t.Fatalf("the exit code is %d", code)
			}
			// The tracer is a grandchild (-D), so that the process under watch is the server itself. It
			// counts per thread.
			calls := filepath.Join(t.TempDir(), "calls")
			x.child.program.wrap = []string{"strace", "-D", "-f", "-qq", "-ttt", "-o", calls, "-e", "signal=none", "-e", "trace=fsync,fdatasync",
				"-e", fmt.Sprintf("inject=fsync,fdatasync:error=EIO:when=%d+", after)}
			x.child.start()
			x.under(4, func(context.Context) {
				code := x.child.exit(60 * time.Second)
				ended := x.ledger.now()
				failed := x.firstInjected(calls)
				x.ledger.write(entry{Fault: &history.Fault{Kind: history.Crash, Start: failed, End: ended}})
				if ended-failed > 5*time.Second {
					t.Errorf("the process went on for %v after the failed fsync", ended-failed)
				}
				x.nothingAccepted(failed, ended)
				words := x.child.words(2000)
				if code == 0 || code == 2 && strings.Contains(words, "goroutine ") {
					t.Errorf("the exit code is %d; the server said:\n%s", code, words)
				}
				if said := strings.ToLower(words); !strings.Contains(said, "fsync") && !strings.Contains(said, "disk i/o error") {
					t.Errorf("no word about the disk:\n%s", words)
				}
				x.child.program.wrap = nil
				x.child.start()
				x.child.ready(30 * time.Second)
			})
			x.convict(x.verdict(time.Minute))
		})
	}
}

// When some writes fail, because the disk has no space for them or for another reason, their
// publishes and outcomes fail and the process goes on: nothing at those places was acknowledged, so
// they are written again. Every acknowledged event is delivered. A failed sync is another matter:
// see TestFsyncFailure.
func TestWriteFailure(t *testing.T) {
	beside(t, busy)
	strace, err := exec.LookPath("strace")
	if err != nil {
		t.Fatal("this test needs strace (apt-get install strace)")
	}
	for _, code := range []string{"ENOSPC", "EIO"} {
		t.Run(code, func(t *testing.T) {
			x := newTrial(t, program{}, func(d *dice) []*target { return []*target{healthy(d), loose(d)} })
			server, calls := x.child.running, filepath.Join(t.TempDir(), "calls")
			x.under(4, func(context.Context) {
				tracer, err := process.Start(exec.Command(strace, "-f", "-qq", "-p", strconv.Itoa(server.PID), "-o", calls, "-e", "signal=none",
					"-e", "trace=pwrite64", "-e", "inject=pwrite64:error="+code+":when=3+5"))
				if err != nil {
					t.Fatal(err)
				}
				eventually(t, time.Minute, "twenty writes fail", func() bool {
					text, err := os.ReadFile(calls)
					return err == nil && strings.Count(string(text), "(INJECTED)") >= 20 || tracer.Ended() || server.Ended()
				})
				tracer.Stop() // it leaves the server alone
				<-tracer.Done
				if server.Ended() {
					t.Fatalf("the process ended:\n%s", x.child.words(2000))
				}
			})
			x.convict(x.verdict(time.Minute))
		})
	}
}

// firstInjected is when the first sync failed, as the tracer recorded it.
func (x *trial) firstInjected(calls string) time.Duration {
	x.t.Helper()
	text, err := os.ReadFile(calls)
	if err != nil {
		x.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line) // thread, time, call
		if len(fields) < 3 || !strings.Contains(line, "(INJECTED)") {
			continue
		}
		seconds, err := strconv.ParseFloat(fields[1], 64)
		if err != nil {
			x.t.Fatalf("the tracer wrote %q", line)
		}
		return time.UnixMicro(int64(seconds * 1e6)).Sub(x.ledger.epoch.Round(0))
	}
	x.t.Fatal("the server ended, but no fsync had failed")
	return 0
}

// nothingAccepted checks that no event published between the two moments was acknowledged in that
// time.
func (x *trial) nothingAccepted(from, to time.Duration) {
	x.t.Helper()
	h, err := x.ledger.read()
	if err != nil {
		x.t.Fatal(err)
	}
	for _, p := range h.Publishes {
		if p.Result == history.OK && p.Invoke > from+time.Millisecond && p.Return < to {
			x.t.Errorf("event %s was published at %v and accepted at %v, after the fsync at %v had failed", p.ID, p.Invoke, p.Return, from)
		}
	}
}

// A server that acknowledges before it syncs would pass every kill, because the kernel still has
// the data. So the test counts the calls.
func TestEveryAcknowledgementIsSynced(t *testing.T) {
	calls := filepath.Join(t.TempDir(), "calls")
	c := newChild(t, program{wrap: []string{"strace", "-D", "-f", "-qq", "-o", calls, "-e", "signal=none", "-e", "trace=fsync,fdatasync"}},
		t.TempDir())
	c.start()
	c.ready(30 * time.Second)
	count := func() int {
		text, err := os.ReadFile(calls)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(text), "sync(")
	}
	const events = 50
	before := count()
	for i := range events { // one after another, so that no two share a sync
		if r, refused := c.publish(t.Context(), newEvent{ID: fmt.Sprintf("e-%d", i), Type: "note.added", Data: []byte(`1`)}); r != history.OK {
			t.Fatalf("publishing was not accepted: %v %s", r, refused)
		}
	}
	if made := count() - before; made < events {
		t.Errorf("%d events were acknowledged one after the other with %d syncs", events, made)
	}
}

// When the disk is full, new events are refused with 507 while outcomes of deliveries in flight are
// still recorded. As soon as there is space, events are accepted again without an operator.
// /readyz, /status and grapnel_store_full report it throughout.
func TestDiskFull(t *testing.T) {
	beside(t, busy)
	mount, err := exec.LookPath("unshare")
	if err != nil {
		t.Fatal("this test needs unshare (util-linux)")
	}
	dir := t.TempDir()
	x := &trial{t: t, dice: newDice(t), ledger: newLedger(t), limits: history.Limits{Commit: time.Second, Transit: 500 * time.Millisecond}}
	x.receivers = newReceivers(t, x.ledger)
	// The file system exists only in the mount namespace of the server, so it needs no cleaning up and
	// no root.
	x.child = newChild(t, program{wrap: []string{mount, "-rm", "sh", "-c",
		`mount -t tmpfs -o size=128m tmpfs "$HOME" && exec "$@"`, "sh"}}, dir)
	gate := make(chan struct{})
	behaved := healthy(x.dice)
	// The requests wait for their answers until the disk is full, on a slow machine too.
	policy, rules := inline(5*time.Minute, 50, time.Second)
	behaved.create["policy"], behaved.rules = policy, rules
	behaved.behave = func() reply {
		<-gate
		return reply{status: http.StatusOK}
	}
	x.targets = []*target{behaved}
	x.child.start()
	x.child.ready(30 * time.Second)
	var secret string
	behaved.rules.ID, secret = x.child.endpoint(x.receivers.url(behaved.name), behaved.create)
	x.receivers.add(behaved, secret)
	x.load = &load{t: t, child: x.child, ledger: x.ledger, dice: x.dice, targets: x.targets}

	publish := func(id string) (status int) {
		e := newEvent{ID: id, Type: "note.added", Data: fmt.Appendf(nil, `{"pad":%q}`, noise(x.dice, 2000))}
		x.load.attempt([]newEvent{e}, func() ([]history.Result, string) {
			var body []byte
			status, body, err = x.child.call(t.Context(), http.MethodPost, "/v1/events", e.encode())
			result, _ := judge(status, body, err)
			if status == http.StatusInsufficientStorage {
				result = history.Failed // a 507 is a definite no
			}
			return []history.Result{result}, ""
		})
		return status
	}
	const early = 500
	for i := range early {
		if status := publish(fmt.Sprintf("early-%d", i)); status != http.StatusAccepted {
			t.Fatalf("publishing was answered %d", status)
		}
	}
	// Another program fills the disk, down to the last block.
	filler := filepath.Join(fmt.Sprintf("/proc/%d/root", x.child.current().PID), dir, "filler")
	t.Logf("before the disk is full: %s", listing(filepath.Dir(filler)))
	fill(t, filler)
	refused := 0
	for i := 0; refused < 5; i++ {
		if i == 5000 {
			t.Fatal("5000 events went onto a disk without room")
		}
		switch status := publish(fmt.Sprintf("full-%d", i)); status {
		case http.StatusAccepted: // there was still space inside the database's own files
		case http.StatusInsufficientStorage:
			if refused++; refused == 1 {
				x.child.says(false, "an event was refused with 507")
			}
		default:
			t.Fatalf("publishing onto a full disk was answered %d, want 507", status)
		}
	}
	// Receivers answer only now, so all outcomes must be recorded on the full disk.
	close(gate)
	eventually(t, 30*time.Second, "the outcomes are recorded on a full disk", func() bool {
		done := 0
		for _, f := range x.child.finals() {
			if f.Status == grapnel.Delivered {
				done++
			}
		}
		return done >= early
	})
	if status := publish("still-full"); status != http.StatusInsufficientStorage {
		t.Errorf("publishing onto the full disk was answered %d after the outcomes had been recorded, want 507", status)
	}
	x.child.says(false, "the outcomes were recorded on the full disk")
	t.Logf("on the full disk: %s", listing(filepath.Dir(filler)))
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	// The test publishes nothing until the server is ready, as a load balancer would.
	eventually(t, 30*time.Second, "it is ready again", x.child.answers)
	x.child.says(true, "there is room again")
	n := 0
	eventually(t, 30*time.Second, "events are accepted again", func() bool {
		n++
		return publish(fmt.Sprintf("after-%d", n)) == http.StatusAccepted
	})
	t.Logf("%d events refused with 507", refused)
	if log := x.child.words(1 << 20); strings.Count(log, "server not ready") != 1 || strings.Count(log, "server ready again") != 1 {
		t.Errorf("the log does not say once that it was not ready, and once that it was again:\n%s", log)
	}
	x.convict(x.verdict(time.Minute))
}

// says checks what the server reports about itself, in all places: it accepts events, or its disk
// is full.
func (c *child) says(accepts bool, when string) {
	c.t.Helper()
	status, events, full := http.StatusOK, "Grapnel accepts events", "\ngrapnel_store_full 0\n"
	if !accepts {
		status, events, full = http.StatusServiceUnavailable, "Grapnel refuses new events", "\ngrapnel_store_full 1\n"
	}
	for _, ask := range []struct {
		path   string
		status int
		text   string
	}{{"/readyz", status, ""}, {"/status", http.StatusOK, events}, {"/metrics", http.StatusOK, full}, {"/livez", http.StatusOK, ""}} {
		got, body, err := c.call(c.t.Context(), http.MethodGet, ask.path, nil)
		if err != nil || got != ask.status || !strings.Contains(string(body), ask.text) {
			c.t.Errorf("%s, and %s answers %d without %q (%v):\n%.300s", when, ask.path, got, ask.text, err, body)
		}
	}
}

// fill writes until nothing more fits, in ever smaller pieces.
func fill(t *testing.T, path string) {
	t.Helper()
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	for size := 1 << 20; size > 0; {
		if _, err := file.Write(make([]byte, size)); err != nil {
			size /= 4
		}
	}
}

// listing is the sizes of a directory's files.
func listing(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err.Error()
	}
	text := ""
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			text += fmt.Sprintf("%s %d KiB, ", e.Name(), info.Size()>>10)
		}
	}
	return strings.TrimSuffix(text, ", ")
}

// noise is text that does not compress.
func noise(d *dice, n int) string {
	text := make([]byte, n)
	for i := range text {
		text[i] = byte('a' + d.n(26))
	}
	return string(text)
}
