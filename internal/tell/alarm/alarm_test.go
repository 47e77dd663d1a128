package alarm

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/channels"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/internal/store/codec"
	"github.com/grapnelhq/grapnel/policy"
)

// node is a keeper in the bubble of a synctest, with its health and the messages that it sent.
type node struct {
	*Keeper
	stop func()
	mu   sync.Mutex
	is   Health
	down map[string]bool // endpoints that refuse
	said []string
	ids  []string // of events, refused or not
	hang chan struct{}
}

func (n *node) Send(_ context.Context, d egress.Delivery) (r egress.Result) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.ids = append(n.ids, d.Event.ID)
	if r.Outcome.Class = policy.ClassNone; n.down[d.Endpoint.ID] {
		r.Outcome.Class = policy.ClassConnect
		return r
	}
	said := gjson.GetManyBytes(d.Event.Data, "rule", "state")
	n.said = append(n.said, fmt.Sprintf("%s %s %s", d.Endpoint.ID, said[0], said[1]))
	return r
}

func (n *node) look(context.Context) Health {
	n.mu.Lock()
	h, hang := n.is, n.hang
	n.mu.Unlock()
	if hang != nil {
		<-hang
	}
	return h
}

func (n *node) has(troubles ...Trouble) { n.set(func() { n.is.Troubles = troubles }) }

// set changes what rounds of the keeper read.
func (n *node) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

// hears waits, and checks the messages since the last call.
func (n *node) hears(t *testing.T, d time.Duration, want ...string) {
	t.Helper()
	time.Sleep(d) //nolint:forbidigo // the bubble's time
	synctest.Wait()
	n.mu.Lock()
	defer n.mu.Unlock()
	slices.Sort(n.said)
	if slices.Sort(want); !slices.Equal(n.said, want) {
		t.Errorf("in %s it said %q, want %q", d, n.said, want)
	}
	n.said = nil
}

// listener is a channel that wants some rules; none: all.
func listener(id string, want ...string) Listener {
	if want == nil {
		for _, r := range rules {
			want = append(want, r.Name)
		}
	}
	return Listener{&grapnel.Endpoint{ID: id, Tenant: grapnel.OperatorTenant, Status: grapnel.EndpointEnabled, Policy: channels.Policy(),
		Channel: &grapnel.Channel{Service: "slack", URL: grapnel.Secret{Text: "slack://hook:tOkEn@" + id}}}, want}
}

// begin starts a keeper with the file at path.
func begin(t *testing.T, path string, listeners ...Listener) *node {
	t.Helper()
	n := &node{is: Health{Listeners: listeners}, down: map[string]bool{}}
	n.Keeper = New(Options{Look: n.look, Sender: n, Path: path, Name: func() string { return "here" }, Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); n.Run(ctx) }()
	n.stop = sync.OnceFunc(func() { cancel(); <-ended })
	t.Cleanup(n.stop)
	return n
}

var (
	full = Trouble{Rule: StoreFull, Text: "no space"}
	away = Trouble{Rule: StoreAway, Text: "no answer"}
	lost = Trouble{Rule: NodeLost, Node: "node_2", Name: "http://b", Text: "silent"}
)

func inBubble(t *testing.T, test func(t *testing.T, path string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "data", "alarms")
	synctest.Test(t, func(t *testing.T) { test(t, path) })
}

// TestOneMessageAtEachEnd: a trouble is told once when it has lasted, and its end once when it is
// away, to the endpoints that want its rule.
func TestOneMessageAtEachEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		n := begin(t, path, listener("a"), listener("b", StoreAway))
		n.has(full)
		n.hears(t, 12*time.Second)
		n.has()
		n.hears(t, time.Minute)
		n.has(full, away)
		n.hears(t, time.Hour, "a store_full firing", "a store_away firing", "b store_away firing")
		n.has(away)
		n.hears(t, 45*time.Second)
		n.hears(t, 30*time.Second, "a store_full resolved")
		n.has(full, away) // too early for another alarm
		n.hears(t, 9*time.Minute)
		n.hears(t, 2*time.Minute, "a store_full firing")
		n.has()
		n.set(func() { n.is.Unknown = []string{StoreAway} })
		n.hears(t, time.Hour, "a store_full resolved")
		n.set(func() { n.is.Unknown = nil })
		n.hears(t, 2*time.Minute, "a store_away resolved", "b store_away resolved")
		n.hears(t, time.Hour)
	})
}

// TestARestartRepeatsNothing: the file says who was told, and has the endpoints while the store
// cannot name them.
func TestARestartRepeatsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		n := begin(t, path, listener("a"), listener("b"))
		n.set(func() { n.down["b"] = true })
		n.has(full)
		n.hears(t, time.Minute, "a store_full firing")
		n.stop()
		if is, err := os.Stat(path); err != nil || is.Mode().Perm() != 0o600 || is.Size() != fileStep {
			t.Errorf("the file is %+v, %v", is, err)
		}
		for _, want := range [][]string{{"b store_full firing"}, nil} { // starts that fail
			n = begin(t, path)
			n.stop()
			n.Last(t.Context(), full)
			n.hears(t, 0, want...)
		}
		n = begin(t, path)
		n.set(func() { n.is.Listeners = nil })
		n.hears(t, time.Hour, "a store_full resolved", "b store_full resolved")
		n.stop()
		n = begin(t, path, listener("a"))
		n.hears(t, time.Hour)
	})
}

// TestAChannelThatIsDown gets the beginning while the trouble lasts, as one event, and no end
// without a beginning.
func TestAChannelThatIsDown(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		n := begin(t, path, listener("a"), listener("b"))
		n.set(func() { n.down["a"] = true })
		n.has(full)
		n.hears(t, time.Hour, "b store_full firing")
		if tries := len(n.ids); tries < 12 || tries > 25 || slices.ContainsFunc(n.ids, func(id string) bool { return id != n.ids[0] }) {
			t.Errorf("%d attempts of %q", tries, n.ids)
		}
		n.set(func() { n.down["a"] = false })
		n.hears(t, 6*time.Minute, "a store_full firing")
		n.has(away)
		n.set(func() { n.down["b"] = true })
		n.hears(t, time.Hour, "a store_full resolved", "a store_away firing") // b is down for the end of the one
		n.has()
		n.hears(t, 30*time.Minute, "a store_away resolved")
		n.set(func() { n.down["b"] = false })
		n.hears(t, time.Hour)
	})
}

// TestOneNodeTellsOfALostOne: all know of a lost node, and the one that speaks tells. The end is
// told by the one that speaks then.
func TestOneNodeTellsOfALostOne(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		a, b := begin(t, path, listener("c")), begin(t, path+"-b", listener("c"))
		seen := lost
		seen.Elsewhere = true
		a.has(lost)
		b.has(seen)
		a.hears(t, time.Minute, "c node_lost firing")
		b.hears(t, 0)
		a.has(seen)
		b.has(lost)
		a.hears(t, time.Hour)
		b.hears(t, 0)
		a.has()
		b.has()
		b.hears(t, 2*time.Minute, "c node_lost resolved")
		a.hears(t, time.Hour)
	})
}

// TestALookThatHangs means that the engine stands still, and changes no other alarm.
func TestALookThatHangs(t *testing.T) {
	inBubble(t, func(t *testing.T, path string) {
		n := begin(t, path, listener("a"))
		n.has(full)
		n.hears(t, time.Minute, "a store_full firing")
		n.mu.Lock()
		n.hang = make(chan struct{})
		n.mu.Unlock()
		n.hears(t, time.Hour, "a engine_stalled firing")
		n.mu.Lock()
		close(n.hang)
		n.hang = nil
		n.mu.Unlock()
		n.hears(t, 2*time.Minute, "a engine_stalled resolved")
	})
}

// TestTheFile is written in place, keeps what an endpoint needs to be sent to, and a torn write
// counts as no file.
func TestTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "alarms")
	k := New(Options{Path: path, Log: slog.New(slog.DiscardHandler)})
	k.listeners, k.dirty = []Listener{listener("a")}, true
	k.save()
	again := New(Options{Path: path, Log: slog.New(slog.DiscardHandler)})
	want, err := codec.EncodeEndpoint(*k.listeners[0].Endpoint)
	if err != nil || len(again.listeners) != 1 {
		t.Fatal(err, again.listeners)
	}
	if got, err := codec.EncodeEndpoint(*again.listeners[0].Endpoint); err != nil || !bytes.Equal(got, want) {
		t.Errorf("it has %s, %v", got, err)
	}
	all, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, torn := range []string{"", "x", string(all[:200]), strings.Replace(string(all), "tOkEn", "tOkEm", 1)} {
		if err := os.WriteFile(path, []byte(torn), 0o600); err != nil {
			t.Fatal(err)
		}
		if k := New(Options{Path: path, Log: slog.New(slog.DiscardHandler)}); len(k.listeners) != 0 {
			t.Errorf("a torn file %.20q is read", torn)
		}
	}
}
