//go:build linux && prove

package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/proof/sim/history"
)

// oldArchive is a server's data directory from before the journal (migration 14), and the ledger of
// its life; see testdata/upgrade/README.md.
const oldArchive = "testdata/upgrade/before-journal.tar.gz"

// oldLife is the part of the archive that the ledger does not have.
type oldLife struct {
	Targets []oldTarget
	Rows    []row // each delivery at the end, while its endpoint was paused or refused connections
	Calls   int   // numbers that the ledger has used
	Numbers int
	End     time.Duration // on its clock
}

type oldTarget struct{ Name, ID string }

// retained keeps what the old directory has, however old it is when the test runs.
var retained = []string{"--retention", "876000h"}

// agelessTargets are endpoints whose deliveries stay pending for as long as the archive is stored.
func agelessTargets(d *dice) []*target {
	all := []*target{healthy(d), flaky(d), loose(d), moody(d)}
	for _, x := range all {
		policy := x.create["policy"].(map[string]any)
		policy["max_age"], policy["disable"] = nil, map[string]any{"consecutive": 0, "after": "0s"}
		policy["schedule"] = map[string]any{"mode": "since_previous", "delays": []string{"0s", "1s"}, "tail": "repeat"}
		x.rules.MaxAge, x.rules.Delays = 0, []time.Duration{time.Second}
		secret := sha256.Sum256([]byte(x.name))
		x.create["secret"] = "whsec_" + base64.StdEncoding.EncodeToString(secret[:])
	}
	return all
}

// paused says which of the endpoints are paused at the end of the old life. The other one still
// retries, and goes on as soon as the new server runs.
func (o oldTarget) paused() bool { return o.Name != "moody" }

// The program before the journal leaves a data directory with its log of SQLite, as kill -9 leaves
// it. The new one takes it over while it is killed again and again, at first during the upgrade.
//
// After each interrupted upgrade every delivery is there once and as it was. At the end the history
// of both lives holds: nothing is lost or reordered, each kill may repeat one event per key and
// endpoint, and all that was pending is delivered.
func TestUpgradeThroughKills(t *testing.T) {
	beside(t, busy)
	upgrades, kills := 5, 4
	if soak() {
		upgrades, kills = 200, 100
	}
	d := newDice(t)
	whole := upgradeTime(t)
	starts, accepting := 0, 0
	for range upgrades {
		dir, old := unpacked(t)
		c := newChild(t, program{flag: retained}, dir)
		for range 1 + d.n(2) {
			c.start()
			pause(t.Context(), d.between(0, whole)+1)
			c.kill()
			starts++
		}
		accepting += strings.Count(c.words(1<<20), "accepts requests")
		c.start()
		c.ready(30 * time.Second)
		old.compare(t, c)
		c.kill()
	}
	t.Logf("%d upgrades, killed %d times within the %v that one takes; %d kills came once the server accepted requests", upgrades, starts,
		whole.Round(time.Millisecond), accepting)
	if starts == accepting {
		t.Error("no upgrade was interrupted")
	}

	x, old := resumed(t, d)
	x.under(4, func(ctx context.Context) {
		for n := range x.targets {
			x.welcome(ctx, old.Targets[n], x.targets[n])
			x.nemesis(ctx)
		}
		for n := len(x.targets); n < kills && !t.Failed(); n++ {
			x.nemesis(ctx)
		}
		pause(ctx, 300*time.Millisecond)
	})
	x.convict(x.verdict(time.Minute))
	old.kept(t, x.child.finals())
}

// upgradeTime is how long a start with the old directory takes until the server is ready.
func upgradeTime(t *testing.T) time.Duration {
	t.Helper()
	dir, old := unpacked(t)
	c := newChild(t, program{flag: retained}, dir)
	began := time.Now()
	c.start()
	c.ready(30 * time.Second)
	took := time.Since(began)
	old.compare(t, c)
	c.kill()
	return took
}

// resumed is a trial that continues the old life: its ledger goes on a minute later.
func resumed(t *testing.T, d *dice) (*trial, *oldLife) {
	t.Helper()
	dir, old := unpacked(t)
	l := newLedger(t)
	lines, err := os.ReadFile(filepath.Join(dir, "ledger.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.file.Write(lines); err != nil {
		t.Fatal(err)
	}
	l.written, l.epoch = bytes.Count(lines, []byte("\n")), time.Now().Add(-old.End-time.Minute)
	x := &trial{t: t, dice: d, ledger: l, limits: history.Limits{Commit: time.Second, Transit: 500 * time.Millisecond}}
	x.receivers = newReceivers(t, l)
	x.receivers.numbers.Store(int64(old.Numbers))
	x.child = newChild(t, program{flag: retained}, dir)
	x.targets = agelessTargets(d)
	for n, target := range x.targets {
		target.rules.ID = old.Targets[n].ID
		x.receivers.add(target, target.create["secret"].(string))
	}
	x.load = &load{t: t, child: x.child, ledger: l, dice: d, targets: x.targets, every: 60 * time.Millisecond, batch: true,
		resolve: time.Minute, life: "new"}
	x.load.calls.Store(int64(old.Calls))
	x.child.start()
	return x, old
}

// welcome tells the server where an endpoint of the old life is now, and enables it if it is
// paused.
func (x *trial) welcome(ctx context.Context, o oldTarget, target *target) {
	x.t.Helper()
	change := map[string]any{"url": x.receivers.url(target.name)}
	if o.paused() {
		change["status"] = "enabled"
	}
	x.operate(ctx, history.Enable, target, http.StatusOK, func(ctx context.Context) (int, []byte, error) {
		return x.child.call(ctx, http.MethodPatch, "/v1/endpoints/"+o.ID, change)
	})
}

// compare checks that a server has exactly the old deliveries, as they were. Only an endpoint that
// was not paused may have had more attempts since, none of which anything answered.
func (o *oldLife) compare(t *testing.T, c *child) {
	t.Helper()
	active := map[string]bool{}
	for _, target := range o.Targets {
		active[target.ID] = !target.paused()
	}
	now := byID(t, c.rows(url.Values{}))
	if len(now) != len(o.Rows) {
		t.Errorf("after the upgrade there are %d deliveries; before it were %d", len(now), len(o.Rows))
	}
	for _, was := range o.Rows {
		is, found := now[was.ID]
		if active[was.EndpointID] && !final(was.Status) && is.Attempts >= was.Attempts && !final(is.Status) {
			is.Attempts, is.Status, is.ReasonCode = was.Attempts, was.Status, was.ReasonCode
		}
		if !found || is != was {
			t.Errorf("after the upgrade a delivery is %+v; it was %+v", is, was)
		}
	}
}

// kept checks that each old delivery is there once: one that was final as it was, any other
// delivered.
func (o *oldLife) kept(t *testing.T, finals []history.Final) {
	t.Helper()
	count := map[string]int{}
	ends := map[string]history.Final{}
	for _, f := range finals {
		count[f.Delivery]++
		ends[f.Delivery] = f
	}
	pending := 0
	for _, was := range o.Rows {
		f := ends[was.ID]
		good := count[was.ID] == 1 && f.Event == was.EventID && f.Endpoint == was.EndpointID && f.Position == was.Sequence
		if final(was.Status) {
			good = good && f.Status == was.Status && f.Attempts == was.Attempts
		} else {
			pending++
			good = good && f.Status == grapnel.Delivered && f.Attempts > was.Attempts
		}
		if !good {
			t.Errorf("an old delivery is there %d times; it was %+v and is %+v", count[was.ID], was, f)
		}
	}
	t.Logf("of %d old deliveries %d were pending", len(o.Rows), pending)
}

func final(s grapnel.Status) bool { return s != grapnel.Pending && s != grapnel.Held }

func byID(t *testing.T, rows []row) map[string]row {
	t.Helper()
	all := map[string]row{}
	for _, r := range rows {
		if _, twice := all[r.ID]; twice {
			t.Errorf("delivery %s is listed twice", r.ID)
		}
		all[r.ID] = r
	}
	return all
}

// unpacked is a copy of the old directory.
func unpacked(t *testing.T) (dir string, old *oldLife) {
	t.Helper()
	dir, old = t.TempDir(), &oldLife{}
	packed, err := os.Open(oldArchive)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = packed.Close() }()
	plain, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	for in := tar.NewReader(plain); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, filepath.Base(h.Name)), content, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "life.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, old); err != nil {
		t.Fatal(err)
	}
	return dir, old
}

// TestRecordOldLife makes the archive with the program that GRAPNEL_OLD names.
func TestRecordOldLife(t *testing.T) {
	path := os.Getenv("GRAPNEL_OLD")
	if path == "" {
		t.Skip("GRAPNEL_OLD names no program")
	}
	x := newTrial(t, program{path: path, flag: retained}, agelessTargets)
	// Nothing else on this machine listens at that address, so it refuses connections later.
	away := newDoor(t, "127.0.77.1", x.receivers)
	for _, target := range x.targets {
		x.child.must(http.StatusOK, http.MethodPatch, "/v1/endpoints/"+target.rules.ID, map[string]any{
			"url": "http://" + away.addr + "/" + target.name}, nil)
	}
	old := oldLife{}
	x.under(2, func(ctx context.Context) {
		pause(ctx, time.Second)
		away.shut()
		pause(ctx, 500*time.Millisecond)
		for _, target := range x.targets {
			o := oldTarget{Name: target.name, ID: target.rules.ID}
			if o.paused() {
				x.set(ctx, history.Pause, target, "paused")
			}
			old.Targets = append(old.Targets, o)
		}
	})
	// The log of SQLite has only the last events, so that the archive is small.
	x.restart()
	x.load.life = "late"
	x.under(2, func(ctx context.Context) { pause(ctx, 200*time.Millisecond) })
	// Lists may lag two seconds.
	pause(t.Context(), 3*time.Second)
	old.Rows = x.child.rows(url.Values{})
	x.killNow()
	old.Calls, old.Numbers, old.End = int(x.load.calls.Load()), int(x.receivers.numbers.Load()), x.ledger.now()
	old.pack(t, x)
}

// pack writes the archive.
func (o *oldLife) pack(t *testing.T, x *trial) {
	t.Helper()
	statuses := map[grapnel.Status]int{}
	for _, r := range o.Rows {
		statuses[r.Status]++
	}
	life, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := os.ReadFile(x.ledger.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	content := map[string][]byte{"life.json": life, "ledger.jsonl": ledger}
	for _, name := range []string{"grapnel.db", "grapnel.db-wal"} {
		if content[name], err = os.ReadFile(filepath.Join(x.child.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	var packed bytes.Buffer
	zip, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	out := tar.NewWriter(zip)
	for _, name := range []string{"life.json", "ledger.jsonl", "grapnel.db", "grapnel.db-wal"} {
		err = errors.Join(err, out.WriteHeader(&tar.Header{Name: name, Mode: 0o600, Size: int64(len(content[name]))}))
		_, wrong := out.Write(content[name])
		err = errors.Join(err, wrong)
	}
	if err := errors.Join(err, out.Close(), zip.Close(), os.WriteFile(oldArchive, packed.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(x.child.dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	slices.Sort(names)
	for name := range content {
		t.Logf("%s has %d bytes", name, len(content[name]))
	}
	t.Logf("%d bytes: %d lines, deliveries %v; the directory has %s", packed.Len(), x.ledger.lines(), statuses, strings.Join(names, " "))
}
