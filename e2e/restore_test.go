//go:build linux && prove

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
)

// A server is backed up under load and killed while that happens, and then its data are lost and
// restored. The judge takes a restore as a store that went back to the moment before the backup
// began: everything acknowledged before is there, keys keep their order, and nothing is sent twice
// but deliveries whose outcome was not durable then. The restore itself is killed on the way, too.
func TestRestoreUnderLoad(t *testing.T) {
	beside(t, busy)
	rounds := 3
	if soak() {
		rounds = 30
	}
	x := newTrial(t, program{}, func(d *dice) []*target { return []*target{healthy(d), slow(d), flaky(d), loose(d)} })
	r := &restoring{x: x, t: t, backups: t.TempDir()}
	x.under(6, func(ctx context.Context) {
		for n := 0; n < rounds && !t.Failed(); n++ {
			from := x.load.accepted.Load()
			eventually(t, time.Minute, "enough events are acknowledged", func() bool { return x.load.accepted.Load() >= from+150 })
			file, since := r.backUp(n)
			if n%2 == 1 {
				file, since = r.scheduled()
			}
			from = x.load.accepted.Load()
			if n%2 == 0 {
				x.child.start()
				x.child.ready(30 * time.Second)
			}
			eventually(t, time.Minute, "events are acknowledged that will be lost", func() bool { return x.load.accepted.Load() >= from+50 })
			x.killNow()
			r.restore(file, n == rounds-1)
			x.ledger.write(entry{Fault: &history.Fault{Kind: history.Rewind, Start: since, End: x.ledger.now()}})
			x.child.start()
			x.child.ready(30 * time.Second)
			if n == rounds-1 {
				r.resume(ctx)
			}
		}
		pause(ctx, time.Second)
	})
	x.convict(x.verdict(time.Minute))
	t.Logf("%d restores, of which %d were killed on the way %d times without a database", rounds, r.killed, r.without)
	if r.killed == 0 {
		t.Error("no restore was killed on the way")
	}
}

type restoring struct {
	x               *trial
	t               testing.TB
	backups         string
	killed, without int
}

// command is one of the program.
func (r *restoring) command(args ...string) *exec.Cmd {
	cmd := exec.Command(r.x.child.program.path, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "GRAPNEL_SERVER=http://" + r.x.child.addr, "GRAPNEL_KEY=" + adminKey}
	return cmd
}

func (r *restoring) store() string { return "sqlite:" + filepath.Join(r.x.child.dir, "grapnel.db") }

// backUp makes a backup while the server is killed.
func (r *restoring) backUp(n int) (file string, since time.Duration) {
	r.t.Helper()
	file = filepath.Join(r.backups, "by-hand-"+string(rune('a'+n))+".db")
	since = r.x.ledger.now()
	done := make(chan error, 1)
	var out []byte
	go func() {
		var err error
		out, err = r.command("backup", "--store", r.store(), "--to", file).CombinedOutput()
		done <- err
	}()
	pause(context.Background(), r.x.dice.between(0, 60*time.Millisecond)+1)
	r.x.killNow()
	if err := <-done; err != nil {
		r.t.Fatalf("the backup: %v: %s", err, out)
	}
	return file, since
}

// scheduled starts a server that makes backups by itself, and kills it as soon as it makes one. The
// next start makes another one. Before that no file has the name of a backup.
func (r *restoring) scheduled() (file string, since time.Duration) {
	r.t.Helper()
	c, dir := r.x.child, filepath.Join(r.backups, "scheduled")
	if err := errors.Join(os.RemoveAll(dir), os.Mkdir(dir, 0o700)); err != nil {
		r.t.Fatal(err)
	}
	was := c.program.flag
	c.program.flag = append(was[:len(was):len(was)], "--backup-dir", dir)
	defer func() { c.program.flag = was }()
	since = r.x.ledger.now()
	c.start()
	eventually(r.t, 30*time.Second, "the server makes a backup", func() bool { return len(names(r.t, dir)) > 0 })
	r.x.killNow()
	if all, _ := filepath.Glob(filepath.Join(dir, "grapnel-2*.db")); len(all) == 0 { // else the kill was too late
		since = r.x.ledger.now()
	}
	c.start()
	c.ready(30 * time.Second)
	eventually(r.t, time.Minute, "there is a complete backup", func() bool {
		all, err := filepath.Glob(filepath.Join(dir, "grapnel-2*.db"))
		if err != nil || len(all) == 0 {
			return false
		}
		file = all[0]
		return true
	})
	if left := names(r.t, dir); len(left) != 1 {
		r.t.Errorf("beside the backup there are %v", left)
	}
	return file, since
}

// restore loses the data and restores them. The restore is killed until it is faster than the kill,
// or a few times.
func (r *restoring) restore(file string, hold bool) {
	r.t.Helper()
	dir := r.x.child.dir
	for _, name := range names(r.t, dir) {
		if strings.HasPrefix(name, "grapnel.db") {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				r.t.Fatal(err)
			}
		}
	}
	args := []string{"restore", file, "--to", dir, "-o", "json"}
	if hold {
		args = append(args, "--hold")
	}
	for range 6 {
		cmd := r.command(args...)
		if err := cmd.Start(); err != nil {
			r.t.Fatal(err)
		}
		pause(context.Background(), r.x.dice.between(10*time.Millisecond, 250*time.Millisecond))
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		r.killed++
		switch _, err := os.Stat(filepath.Join(dir, "grapnel.db")); {
		case err == nil:
			return // it is complete, which the server will show
		case !errors.Is(err, fs.ErrNotExist):
			r.t.Fatal(err)
		}
		r.without++
	}
	out, err := r.command(args...).Output()
	var found struct{ Pending, Held int }
	if err == nil {
		err = json.Unmarshal(out, &found)
	}
	if err != nil || hold && found.Held != len(r.x.targets) {
		r.t.Fatalf("the restore: %v: %s", err, out)
	}
	r.t.Logf("the backup had %d pending deliveries", found.Pending)
}

// resume checks that a held server sends nothing, and resumes all of it.
func (r *restoring) resume(ctx context.Context) {
	r.t.Helper()
	sent := func() (n int64) {
		for _, target := range r.x.targets {
			n += target.received.Load()
		}
		return n
	}
	before := sent()
	pause(ctx, time.Second)
	if n := sent() - before; n > 0 {
		r.t.Errorf("%d requests were sent while all was held", n)
	}
	if out, err := r.command("endpoints", "resume", "--held", "-o", "name").CombinedOutput(); err != nil ||
		strings.Count(string(out), "ep_") != len(r.x.targets) {
		r.t.Errorf("resuming: %v: %s", err, out)
	}
}

// names are the files of a directory.
func names(t testing.TB, dir string) (all []string) {
	t.Helper()
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		all = append(all, f.Name())
	}
	return all
}
