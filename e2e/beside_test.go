//go:build linux

package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// weight is what a test takes of the machine while others run beside it.
type weight int

const (
	light weight = 1 // mostly waits: up to a third of a processor
	busy  weight = 2 // one server under load, or several beside each other
	heavy weight = 3 // nodes on one database: two thirds of a processor
)

// turns are the weights that may run at once: on two processors two clusters, and beside them one
// busy test or two light ones. With three clusters nodes with short leases starve each other.
// While clusters wait, others leave them their place: clusters take longest, so one that begins
// last would keep a processor idle.
var turns = newSchedule(max(1, runtime.GOMAXPROCS(0)/2))

type schedule struct {
	sync.Mutex
	changed  *sync.Cond
	slots    int // that are free
	clusters int // that may begin
	waiting  int // clusters that wait
}

func newSchedule(pairs int) *schedule {
	s := &schedule{slots: pairs*2*int(heavy) + int(busy), clusters: pairs * 2}
	s.changed = sync.NewCond(s)
	return s
}

func (s *schedule) fits(w weight) bool {
	if w == heavy {
		return s.clusters > 0 && s.slots >= int(heavy)
	}
	return s.slots-int(w) >= int(heavy)*min(s.waiting, s.clusters)
}

// begin waits until a test of a weight may run.
func (s *schedule) begin(w weight) {
	s.Lock()
	defer s.Unlock()
	cluster := 0
	if w == heavy {
		cluster = 1
	}
	s.waiting += cluster
	for !s.fits(w) {
		s.changed.Wait()
	}
	s.waiting -= cluster
	s.clusters -= cluster
	s.slots -= int(w)
}

func (s *schedule) end(w weight) {
	s.Lock()
	defer s.Unlock()
	if w == heavy {
		s.clusters++
	}
	s.slots += int(w)
	s.changed.Broadcast()
}

// beside lets a test run beside others, once there are slots for its weight. It returns them when
// the test has cleaned up all that it started, because the cleanup that was registered first is the
// last to run.
func beside(t *testing.T, w weight) {
	t.Helper()
	t.Parallel()
	since := time.Now()
	turns.begin(w)
	t.Logf("waited %v for its turn", time.Since(since).Round(time.Millisecond))
	t.Cleanup(func() { turns.end(w) })
}

// TestTestsThatRunAloneAreNamed: the Makefile names each test that does not call beside. It runs
// those alone, and all others while races are looked for.
func TestTestsThatRunAloneAreNamed(t *testing.T) {
	beside(t, light)
	makefile, err := os.ReadFile("../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	named := ""
	for _, line := range regexp.MustCompile(`(?m)^LATENCY := .*$`).FindAllString(string(makefile), -1) {
		named += line + "\n"
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`(?ms)^func (Test\w+)\(t \*testing\.T\) \{\n(.*?)^\}`).FindAllStringSubmatch(string(text), -1) {
			found++
			alone := !strings.Contains(m[2], "beside(t, ")
			if in := regexp.MustCompile(`\b` + m[1] + `\b`).MatchString(named); in != alone {
				t.Errorf("%s: alone %v, named in LATENCY %v", m[1], alone, in)
			}
		}
	}
	if found < 50 {
		t.Errorf("only %d tests were found", found)
	}
}
