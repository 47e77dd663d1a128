//go:build prove

package server

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/tell/alarm"
)

// paged adds a channel of the operator.
func paged(t *testing.T, c *client.Client) *pager {
	t.Helper()
	p, url := newPager(t)
	if _, err := c.CreateChannel(t.Context(), client.NewChannel{URL: url, Tenant: grapnel.OperatorTenant}); err != nil {
		t.Fatal(err)
	}
	return p
}

// TestAKilledNodeIsTold: of three nodes one is gone without a word. Exactly one of the others
// tells, and, when another node has taken its place, of the end. A node that stops in order is not
// told.
func TestAKilledNodeIsTold(t *testing.T) {
	nodes, db := members(t, 4, prompt)
	p := paged(t, nodes[0].Client)
	poll(t, "four nodes divide the shards", func() bool { return settled(nodes[0].status(t), 4) })
	if err := nodes[3].stop(); err != nil {
		t.Fatal(err)
	}
	poll(t, "three nodes are left", func() bool { return settled(nodes[0].status(t), 3) })
	dies := -1
	poll(t, "one of them leads", func() bool { // not while its lease is late, as on a busy machine
		dies = slices.IndexFunc(nodes[:3], func(m member) bool { return m.life.engine.Leads() })
		return dies >= 0
	})
	nodes[dies].alarms.Last(t.Context(), alarm.Trouble{Rule: alarm.StoreAway}) // it says nothing of itself any more
	nodes[dies].proxy.Cut(true)
	_ = nodes[dies].stop()
	p.hears(t, alarm.NodeLost+" firing", 1)
	if !strings.Contains(p.last, nodes[dies].URL()) {
		t.Errorf("the message is %s", p.last)
	}
	poll(t, "the others have its shards", func() bool { return settled(nodes[(dies+1)%3].status(t), 2) })
	o := options("")
	o.Store, o.Lease = db.URL("grapnel"), LeastLease
	prompt(&o)
	start(t, o)
	p.hears(t, alarm.NodeLost+" resolved", 1)
	p.hears(t, alarm.NodeLost+" firing", 1)
}

// TestADeadDatabaseIsTold: each of two nodes tells that the database is away, and of the end;
// neither tells that the other is lost.
func TestADeadDatabaseIsTold(t *testing.T) {
	// After the outage each node may see the other's old row for three tenths of a second.
	nodes, db := members(t, 2, prompt, func(o *Options) { o.Bounds.Alarm.Hold = 2 * time.Second })
	p := paged(t, nodes[0].Client)
	poll(t, "two nodes divide the shards", func() bool { return settled(nodes[0].status(t), 2) })
	if err := db.Kill(); err != nil {
		t.Fatal(err)
	}
	p.hears(t, alarm.StoreAway+" firing", 2)
	if err := db.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	p.hears(t, alarm.StoreAway+" resolved", 2)
	p.hears(t, alarm.NodeLost, 0)
}

// TestAFullDiskIsTold: the disk is full to its last block. People are told while no event can be
// published, and the file says so.
func TestAFullDiskIsTold(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=160m"); err != nil {
		t.Fatal("this test mounts a small file system, as root: ", err)
	}
	defer func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) }()
	defer http.DefaultClient.CloseIdleConnections()
	o := options(dir)
	prompt(&o)
	s := start(t, o)
	c := s.client(t, testKey)
	p := paged(t, c)
	poll(t, "the file is written", func() bool {
		_, err := os.Stat(filepath.Join(dir, "data", alarmsFile))
		return err == nil
	})
	other, err := os.Create(filepath.Join(dir, "other"))
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	for b := make([]byte, 1<<20); len(b) > 0; {
		if n, _ := other.Write(b); n < len(b) {
			b = b[:len(b)/2]
		}
	}
	p.hears(t, alarm.StoreFull+" firing", 1)
	poll(t, "events are refused", func() bool {
		_, err := c.Publish(t.Context(), client.NewEvent{Type: "a.b", Data: []byte("1")})
		return err != nil
	})
	file, err := os.ReadFile(filepath.Join(dir, "data", alarmsFile))
	if err != nil || !strings.Contains(string(file), `"rule":"store_full"`) {
		t.Errorf("the file is %.3000s, %v", file, err)
	}
	if err := other.Truncate(0); err != nil {
		t.Fatal(err)
	}
	p.hears(t, alarm.StoreFull+" resolved", 1)
	if err := s.stop(); err != nil {
		t.Error(err)
	}
}
