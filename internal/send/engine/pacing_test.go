package engine

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// paced is a pacing whose processors are as the test says.
type paced struct {
	*pacing
	late, all uint64
	waits     int
}

func newPaced() *paced {
	p := new(paced)
	p.pacing = newPacing(PacingBounds{Ahead: 10, Pause: time.Second, Look: 100 * time.Millisecond, Late: time.Millisecond, Share: 10},
		time.Now, func() { p.waits++ })
	p.short = shortage(func() (uint64, uint64) { return p.late, p.all }, p.bounds.Share)
	return p
}

// passes lets time pass until the next look, in which so many of 100 goroutines were late.
func (p *paced) passes(late uint64) {
	p.late, p.all = p.late+late, p.all+100
	time.Sleep(100 * time.Millisecond)
}

// publish is how long a publish waits, which brings this many deliveries.
func (p *paced) publish(tenant string, n int64) time.Duration {
	began := time.Now()
	p.wait(context.Background(), tenant)
	p.accepted(tenant, n)
	return time.Since(began)
}

func TestPublishersWaitWhileProcessorsAreShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPaced()
		waits := func(what, tenant string, n int64, want time.Duration) {
			t.Helper()
			if got := p.publish(tenant, n); got != want {
				t.Errorf("%s: a publish waited %v, want %v", what, got, want)
			}
		}
		p.passes(9)
		waits("one goroutine in eleven is late", "acme", 1000, 0)
		waits("the same", "acme", 1000, 0)
		p.passes(10)
		waits("time is short, and nothing was counted yet", "acme", 11, 0)
		waits("another tenant", "bolt", 10, 0)
		waits("as far ahead as it may be", "bolt", 1, 0)
		time.AfterFunc(40*time.Millisecond, func() { p.recorded("bolt") }) // that is no outcome of acme's
		time.AfterFunc(50*time.Millisecond, func() { p.recorded("acme") })
		waits("until an outcome", "acme", 100, 50*time.Millisecond)
		p.late, p.all = p.late+1000, p.all+1000 // time stays short
		waits("without an outcome", "acme", 1, time.Second)
		if p.waits != 2 {
			t.Errorf("%d publishes were counted as waiting, want 2", p.waits)
		}
		for range 111 {
			p.recorded("acme")
		}
		for range 10 {
			p.recorded("bolt")
		}
		if len(p.ahead) != 0 {
			t.Errorf("%v is remembered after all outcomes", p.ahead)
		}
	})
}

func TestPublishersGoOnWhenProcessorsAreFree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPaced()
		p.passes(50)
		p.publish("acme", 1000)
		p.all += 1000 // and none of them is late
		ended := make(chan time.Duration)
		go func() { ended <- p.publish("acme", 1) }()
		time.Sleep(100 * time.Millisecond)
		if took := p.publish("bolt", 1); took != 0 { // it looks
			t.Errorf("a publish waited %v although processors are free", took)
		}
		if took := <-ended; took != 100*time.Millisecond || len(p.ahead) != 0 {
			t.Errorf("the waiting publish waited %v, and %v is remembered", took, p.ahead)
		}
		ctx, cancel := context.WithCancel(t.Context())
		p.passes(50)
		p.publish("acme", 1000)
		time.AfterFunc(time.Millisecond, cancel)
		began := time.Now()
		if p.wait(ctx, "acme"); time.Since(began) != time.Millisecond {
			t.Errorf("a caller that left waited %v", time.Since(began))
		}
	})
}

// TestOneLateGoroutineIsNotShort: the look that follows counts from there.
func TestOneLateGoroutineIsNotShort(t *testing.T) {
	var tardy, started uint64
	short := shortage(func() (uint64, uint64) { return tardy, started }, 10)
	for _, look := range []struct {
		tardy, started uint64
		want           bool
	}{{0, 0, false}, {1, 1, false}, {1, 5, false}, {2, 5, true}, {2, 20, true}, {2, 21, false}, {0, 5, false}, {30, 200, true}} {
		tardy, started = tardy+look.tardy, started+look.started
		if got := short(); got != look.want {
			t.Errorf("%d of %d were late: short is %t", look.tardy, look.started, got)
		}
	}
}

// TestGoroutinesThatWaitAreCounted: goroutines that keep each other from the processors are late.
func TestGoroutinesThatWaitAreCounted(t *testing.T) {
	short := shortage(goroutines(time.Millisecond), 10)
	short()
	// Go times one start of eight, at random. Of 40 goroutines it times at most one in two runs of a
	// hundred, and one late goroutine is not short of time.
	var running sync.WaitGroup
	for range 200 * runtime.GOMAXPROCS(0) {
		running.Go(func() {
			for until := time.Now().Add(time.Millisecond); time.Now().Before(until); {
				continue
			}
		})
	}
	running.Wait()
	if !short() {
		t.Error("goroutines waited for each other, and processor time was not short")
	}
}
