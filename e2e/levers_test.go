//go:build linux && prove

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel"
)

// auditEntry is an entry of the audit as the API shows it.
type auditEntry struct {
	Number     int64     `json:"number"`
	At         time.Time `json:"at"`
	Actor      string    `json:"actor"`
	Verb       string    `json:"verb"`
	EndpointID string    `json:"endpoint_id"`
	DeliveryID string    `json:"delivery_id"`
	Reason     string    `json:"reason"`
}

// audit reads the whole audit, newest first.
func (c *child) audit(query url.Values) []auditEntry {
	c.t.Helper()
	if query == nil {
		query = url.Values{}
	}
	query.Set("limit", "500")
	var page struct{ Data []auditEntry }
	c.must(http.StatusOK, http.MethodGet, "/v1/audit?"+query.Encode(), nil, &page)
	return page.Data
}

// person is an operator with a key of their own.
type person struct {
	child   *child
	id, key string
}

func (c *child) person(name string) person {
	c.t.Helper()
	var made struct{ ID, Key string }
	c.must(http.StatusCreated, http.MethodPost, "/v1/keys", map[string]any{"name": name, "scopes": []string{"read", "manage", "replay"}},
		&made)
	return person{c, made.ID, made.Key}
}

// asks makes a call of the API and expects an answer of 200.
func (p person) asks(path, reason string) {
	p.child.t.Helper()
	status, body, _, err := p.child.as(context.Background(), p.key, http.MethodPost, path, map[string]any{"reason": reason})
	if err != nil || status != http.StatusOK {
		p.child.t.Fatalf("%s: %d %v %s", path, status, err, body)
	}
}

// runs calls the command line and expects an exit code.
func (p person) runs(exit int, args ...string) []byte {
	p.child.t.Helper()
	cmd := exec.Command(p.child.program.path, args...)
	cmd.Env = []string{"GRAPNEL_SERVER=http://" + p.child.addr, "GRAPNEL_KEY=" + p.key, "HOME=" + p.child.dir}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	code := 0
	var failed *exec.ExitError
	switch {
	case errors.As(err, &failed):
		code = failed.ExitCode()
	case err != nil:
		p.child.t.Fatal(err)
	}
	if code != exit {
		p.child.t.Fatalf("grapnel %v: exit code %d, not %d: %s%s", args, code, exit, &out, &errs)
	}
	return out.Bytes()
}

// Operators' actions on endpoints and deliveries, through the API and the command line, have their
// effect and are in the audit with actor, action, reason and time, in the order in which they
// happened.
func TestLeversWorkAndAreOnRecord(t *testing.T) {
	beside(t, light)
	c := newChild(t, program{}, t.TempDir())
	c.start()
	c.ready(30 * time.Second)
	ann, bob := c.person("ann"), c.person("bob")
	s := newSite()
	s.pick = func(v *visit) (way, bool) {
		return way{status: http.StatusUnprocessableEntity}, v.key == "bad0"
	}
	id, _ := c.endpoint("http://"+newDoor(t, "127.0.10.1", s).addr+"/", map[string]any{"policy": map[string]any{"jitter": 0, "max_attempts": 9,
		"schedule": map[string]any{"mode": "since_previous", "delays": []string{"0s", "1h"}, "tail": "repeat"},
		"limits":   []any{},
		"breaker":  map[string]any{"failures": 3, "ratio": 1, "window": "30s", "probe": "1h", "probe_max": "1h"}}})
	endpoint := "/v1/endpoints/" + id
	began := time.Now()
	var want []auditEntry // the oldest first
	note := func(who person, verb grapnel.Verb, delivery, reason string) {
		want = append(want, auditEntry{Actor: who.id, Verb: string(verb), EndpointID: id, DeliveryID: delivery, Reason: reason, At: time.Now()})
	}
	publish := func(topic, key string, keys, first, n int) {
		t.Helper()
		if err := c.publishMany(t.Context(), numbered(topic, key, keys, first, n)); err != nil {
			t.Fatal(err)
		}
	}
	arrives := func(n int, what string) {
		t.Helper()
		eventually(t, 10*time.Second, what, func() bool { return s.taken() == n })
	}
	quiet := func(what string) {
		t.Helper()
		before := len(s.seen(0))
		pause(t.Context(), 500*time.Millisecond)
		if n := len(s.seen(0)); n != before {
			t.Errorf("%s: %d requests came", what, n-before)
		}
	}
	state := func(is string) healthOf {
		t.Helper()
		var h healthOf
		eventually(t, 10*time.Second, "its health is "+is, func() bool { h = c.health(id); return h.State == is })
		return h
	}

	// Pause and resume, by both ways.
	ann.asks(endpoint+"/pause", "they are moving house")
	note(ann, grapnel.VerbPause, "", "they are moving house")
	publish("one", "a", 5, 1, 1)
	quiet("it is paused")
	if h := state("paused"); h.Held != 5 {
		t.Errorf("the health of a paused endpoint is %+v", h)
	}
	bob.runs(0, "endpoints", "resume", id, "--reason", "they have moved")
	note(bob, grapnel.VerbResume, "", "they have moved")
	arrives(5, "what was held has arrived")
	bob.runs(0, "endpoints", "pause", id, "--reason", "once more")
	note(bob, grapnel.VerbPause, "", "once more")
	publish("one", "a", 5, 2, 1)
	quiet("it is paused")
	ann.asks(endpoint+"/resume", "and done")
	note(ann, grapnel.VerbResume, "", "and done")
	arrives(10, "what was held has arrived")

	// Probes are ordered at a circuit that would wait for an hour.
	bob.runs(5, "endpoints", "probe", id, "--reason", "there is nothing to probe")
	s.turn(way{status: http.StatusInternalServerError})
	publish("two", "b", 5, 1, 1)
	var open healthOf
	// Attempts that began before the circuit opened may reach the receiver after it.
	eventually(t, 10*time.Second, "the breaker is open and no attempt is in flight", func() bool {
		open = c.health(id)
		return open.State == "open" && open.InFlight == 0
	})
	publish("two", "b", 5, 2, 1)
	quiet("its breaker is open")
	for _, r := range c.rows(url.Values{"endpoint": {id}, "status": {"held", "pending"}}) {
		if r.Status != grapnel.Held {
			t.Errorf("with an open breaker a delivery is %s", r.Status)
		}
	}
	c.kill()
	c.start()
	c.ready(30 * time.Second)
	if h := state("open"); h.NextProbeAt == nil || *h.NextProbeAt != *open.NextProbeAt || *h.Since != *open.Since || h.Held != 10 {
		t.Errorf("after a kill the health is %+v, before it was %+v", h, open)
	}
	quiet("its breaker is open still")
	probes := func() int {
		return len(slices.DeleteFunc(s.seen(0), func(v visit) bool { return v.trigger != "probe" }))
	}
	probe := func(n int) {
		t.Helper()
		eventually(t, 5*time.Second, "a probe arrives", func() bool { return probes() == n })
	}
	ann.asks(endpoint+"/probe", "they say that they are back")
	note(ann, grapnel.VerbProbe, "", "they say that they are back")
	probe(1)
	quiet("the probe failed")
	state("open")
	s.turn(way{})
	bob.runs(0, "endpoints", "probe", id, "--reason", "now they really are")
	note(bob, grapnel.VerbProbe, "", "now they really are")
	probe(2)
	arrives(20, "after a good probe everything has arrived, an hour early")
	eventually(t, 10*time.Second, "it works again", func() bool { return c.health(id).works() })

	// A key is blocked.
	publish("three", "bad", 1, 1, 3)
	var lanes struct {
		Data []struct {
			Key     string `json:"key"`
			Head    row    `json:"head"`
			Waiting int    `json:"waiting"`
		} `json:"data"`
	}
	stuck := func(waiting int) string {
		t.Helper()
		eventually(t, 10*time.Second, fmt.Sprintf("%d wait behind a stuck key", waiting), func() bool {
			if err := json.Unmarshal(bob.runs(0, "endpoints", "lanes", id, "-o", "json"), &lanes); err != nil {
				t.Fatal(err)
			}
			return len(lanes.Data) == 1 && lanes.Data[0].Waiting == waiting && lanes.Data[0].Head.Attempts > 0
		})
		return lanes.Data[0].Head.ID
	}
	head := stuck(2)
	ann.asks("/v1/deliveries/"+head+"/retry", "they have mended it")
	note(ann, grapnel.VerbRetry, head, "they have mended it")
	eventually(t, 5*time.Second, "it was tried again", func() bool { return len(of(s.seen(0), "three-bad0-1")) == 2 })
	bob.runs(0, "deliveries", "skip", head, "--reason", "they have not")
	note(bob, grapnel.VerbSkip, head, "they have not")
	head = stuck(1)
	ann.asks("/v1/deliveries/"+head+"/skip", "nor this")
	note(ann, grapnel.VerbSkip, head, "nor this")
	head = stuck(0)
	bob.runs(0, "deliveries", "retry", head, "--reason", "one more try")
	note(bob, grapnel.VerbRetry, head, "one more try")
	eventually(t, 5*time.Second, "it was tried again", func() bool { return len(of(s.seen(0), "three-bad0-3")) == 2 })

	got := c.audit(url.Values{"endpoint": {id}})
	slices.Reverse(got)
	got = slices.DeleteFunc(got, func(e auditEntry) bool { return e.Verb == "create" || e.At.Before(began) })
	if len(got) != len(want) {
		t.Fatalf("the audit has %d entries, not %d: %+v", len(got), len(want), got)
	}
	for i, w := range want {
		g := got[i]
		last := began
		if i > 0 {
			last = want[i-1].At
		}
		if probed := g.Verb == string(grapnel.VerbProbe) && strings.HasPrefix(g.DeliveryID, "dlv_"); probed {
			g.DeliveryID = "" // the server chose which delivery was the probe
		}
		if g.Actor != w.Actor || g.Verb != w.Verb || g.EndpointID != w.EndpointID || g.DeliveryID != w.DeliveryID || g.Reason != w.Reason ||
			g.At.Before(last.Add(-time.Millisecond)) || g.At.After(w.At) {
			t.Errorf("entry %d is %+v, not %+v", i, g, w)
		}
	}
	// The command line shows the same, also to a key that may only read.
	var shown struct{ Data []auditEntry }
	if err := json.Unmarshal(bob.runs(0, "audit", "--endpoint", id, "--limit", "500", "-o", "json"), &shown); err != nil {
		t.Fatal(err)
	}
	if all := c.audit(url.Values{"endpoint": {id}}); !slices.Equal(shown.Data, all) {
		t.Errorf("the command line shows %+v, the API %+v", shown.Data, all)
	}
	c.kill()
	c.start()
	c.ready(30 * time.Second)
	if all := c.audit(url.Values{"endpoint": {id}}); !slices.Equal(shown.Data, all) {
		t.Errorf("after a kill the audit is %+v", all)
	}
}

// An open circuit stays open through kills: only probes are sent, at their pace, whatever the
// backlog.
func TestOpenBreakerSurvivesKills(t *testing.T) {
	beside(t, busy)
	const keys, kills = 300, 4
	c := newChild(t, program{}, t.TempDir())
	c.start()
	c.ready(30 * time.Second)
	s := newSite()
	id, _ := c.endpoint("http://"+newDoor(t, "127.0.11.1", s).addr+"/", map[string]any{"policy": map[string]any{"timeout": "1s", "jitter": 0,
		"max_attempts": 9, "schedule": map[string]any{"mode": "since_previous", "delays": []string{"0s", "100ms", "1h"}, "tail": "repeat"},
		"breaker": map[string]any{"failures": 3, "ratio": 1, "window": "30s", "probe": "500ms", "probe_max": "500ms"}}})
	s.turn(way{status: http.StatusBadGateway})
	if err := c.publishMany(t.Context(), numbered("kept", "k", keys, 1, 2)); err != nil {
		t.Fatal(err)
	}
	// Attempts that began before the circuit opened may reach the receiver after it.
	eventually(t, 10*time.Second, "the breaker is open and no attempt is in flight", func() bool {
		h := c.health(id)
		return h.State == "open" && h.InFlight == 0
	})
	since := c.health(id).Since
	from := s.now()
	for range kills {
		pause(t.Context(), 700*time.Millisecond)
		c.kill()
		c.start()
		c.ready(30 * time.Second)
		eventually(t, 10*time.Second, "the breaker is open after a kill", func() bool { return c.health(id).State == "open" })
	}
	pause(t.Context(), 700*time.Millisecond)
	passed := s.now() - from
	sent := s.seen(from)
	// The limit is one probe per half second, one cut off by each kill, and one at the beginning.
	most := int(passed/(500*time.Millisecond)) + 1 + kills
	for _, v := range sent {
		if v.trigger != "probe" {
			t.Errorf("%s was sent at %v by %s", v.event, v.start, v.trigger)
		}
	}
	if len(sent) > most || len(sent) < kills/2 {
		t.Errorf("%d requests in %v with %d kills; %d probes would have been right", len(sent), passed, kills, most)
	}
	if now := c.health(id).Since; since == nil || now == nil || *now != *since {
		t.Errorf("it is open since %v, it was since %v", now, since)
	}
	s.turn(way{})
	eventually(t, 30*time.Second, "all is delivered", func() bool { return s.taken() == 2*keys })
	for _, wrong := range s.disorder(kills) {
		t.Error(wrong)
	}
	t.Logf("%d deliveries waited; %d probes in %v over %d kills, then all were taken", 2*keys, len(sent), passed.Round(time.Millisecond),
		kills)
}
