package client_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/client"
)

// cut is a body that ends with an error after its text.
type cut struct{ io.Reader }

func (c cut) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

// An export is written as it comes; half of it is an error and never looks like all of it.
func TestExport(t *testing.T) {
	var target string
	var body io.Reader
	status := http.StatusOK
	c := with(t, func(r *http.Request) (*http.Response, error) {
		target = r.Method + " " + r.URL.RequestURI()
		return &http.Response{StatusCode: status, Header: http.Header{}, Body: io.NopCloser(body)}, nil
	}, func(o *client.Options) { o.Timeout = time.Nanosecond }) // which is not for exports
	var out bytes.Buffer
	body = strings.NewReader("{}\n{}\n")
	f := client.DeliveryFilter{Endpoint: "ep_1", Status: []grapnel.Status{grapnel.Failed}, Limit: 5, Cursor: "c"}
	if err := c.ExportDeliveries(t.Context(), f, client.JSONLines, &out); err != nil || out.String() != "{}\n{}\n" ||
		target != "GET /v1/deliveries/export?endpoint=ep_1&format=jsonl&status=failed" {
		t.Errorf("%s: %q %v", target, out.String(), err)
	}
	body = cut{strings.NewReader("id\nx\n")}
	var lost *client.Unreachable
	if err := c.ExportDeadLetters(
		t.Context(),
		f,
		client.CSV,
		&out,
	); !errors.As(err, &lost) ||
		!strings.Contains(err.Error(), "output is incomplete") ||
		target != "GET /v1/dead-letters/export?endpoint=ep_1&format=csv" {
		t.Errorf("%s, cut off: %v", target, err)
	}
	body = strings.NewReader("id\n")
	if err := c.ExportDeadLetters(t.Context(), f, client.CSV, full{}); !errors.Is(err, errFull) {
		t.Errorf("onto a full disk: %v", err)
	}
	status, body = http.StatusForbidden, strings.NewReader(`{"code":"forbidden","detail":"no","status":403}`)
	var refused *client.Error
	if err := c.ExportDeadLetters(t.Context(), f, client.CSV, &out); !errors.As(err, &refused) || refused.Code != "forbidden" {
		t.Errorf("refused: %v", err)
	}
}

type full struct{}

var errFull = errors.New("the disk is full")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestReplaysNotesAndStats(t *testing.T) {
	var got []seen
	reply := `{}`
	c := with(t, func(r *http.Request) (*http.Response, error) {
		one := look(r)
		effect := one.Method == http.MethodPost && !strings.Contains(one.Body, `"dry_run":true`)
		if effect != (one.Once != "") {
			t.Errorf("%s %s has the key %q", one.Method, one.Target, one.Once)
		}
		got = append(got, seen{Method: one.Method, Target: one.Target, Body: one.Body})
		return answer(200, reply), nil
	})
	from := time.Date(2026, 5, 6, 8, 0, 0, 0, time.UTC)
	again := client.NewReplay{From: &from, EventTypes: []string{"invoice.paid"}, Rate: 20, Canary: true, StopAfter: 3}
	reply = `{"dry_run":true,"total":412,"keys":38,"longest_chain":27,"excluded":{"already_replayed":3,"discarded":2,"on_its_way":1},"partial":true}`
	plan, err := c.PlanReplay(t.Context(), "ep_1", again)
	if err != nil || plan.Total != 412 || plan.Keys != 38 || plan.LongestChain != 27 || plan.Excluded.AlreadyReplayed != 3 ||
		plan.Excluded.OnItsWay != 1 ||
		!plan.Partial {
		t.Errorf("the plan is %+v %v", plan, err)
	}
	reply = `{"id":"rpl_1","status":"stopped","total":412,"made":9,"done":8,"delivered":5,"failed":3,"eta":null,"started_at":"2026-05-06T09:00:00.000000Z"}`
	one, err := c.StartReplay(t.Context(), "ep_1", again)
	if err != nil || one.ID != "rpl_1" || one.Status != grapnel.ReplayStopped || one.Made != 9 || one.Failed != 3 || one.ETA != nil {
		t.Errorf("the replay is %+v %v", one, err)
	}
	for _, call := range []func() error{
		func() error { _, err := c.PauseReplay(t.Context(), "rpl_1", "lunch"); return err },
		func() error { _, err := c.ResumeReplay(t.Context(), "rpl_1", ""); return err },
		func() error { _, err := c.CancelReplay(t.Context(), "rpl_1", ""); return err },
		func() error { _, err := c.Replay(t.Context(), "rpl_1"); return err },
		func() error {
			_, err := c.Replays(t.Context(), client.ReplayFilter{Endpoint: "ep_1", Active: true})
			return err
		},
		func() error { _, err := c.ReplayItems(t.Context(), "rpl_1", 5, "c"); return err },
		func() error { _, err := c.Note(t.Context(), "dlv_1", ""); return err },
		func() error { _, err := c.Discard(t.Context(), "dlv_1", "why"); return err },
		func() error {
			_, err := c.DeadLetters(t.Context(), client.DeliveryFilter{Endpoint: "ep_1", ReasonCode: grapnel.ReasonExpired, StatusCode: 503, Text: "é", Status: []grapnel.Status{"x"}})
			return err
		},
	} {
		if err := call(); err != nil {
			t.Error(err)
		}
	}
	reply = `{"bucket":"day","data":[{"at":"2026-05-06T00:00:00.000000Z","delivered":5,"latency":{"p50":"12ms","p95":null}}],"totals":{"delivered":5,"failed":1}}`
	stats, err := c.Stats(t.Context(), client.StatsFilter{From: from, Bucket: "day", Tenant: "acme"})
	if err != nil || len(stats.Data) != 1 || stats.Data[0].Delivered != 5 || stats.Data[0].Latency.P50.Std() != 12*time.Millisecond ||
		stats.Data[0].Latency.P95 != nil ||
		stats.Totals.Failed != 1 {
		t.Errorf("the totals are %+v %v", stats, err)
	}
	const body = `{"from":"2026-05-06T08:00:00Z","event_types":["invoice.paid"],"rate":20,"stop_after":3,"canary":true`
	if d := cmp.Diff([]seen{
		{Method: "POST", Target: "/v1/endpoints/ep_1/replay", Body: body + `,"dry_run":true}`},
		{Method: "POST", Target: "/v1/endpoints/ep_1/replay", Body: body + `}`},
		{Method: "POST", Target: "/v1/replays/rpl_1/pause", Body: `{"reason":"lunch"}`},
		{Method: "POST", Target: "/v1/replays/rpl_1/resume"},
		{Method: "POST", Target: "/v1/replays/rpl_1/cancel"},
		{Method: "GET", Target: "/v1/replays/rpl_1"},
		{Method: "GET", Target: "/v1/replays?active=true&endpoint=ep_1"},
		{Method: "GET", Target: "/v1/replays/rpl_1/items?cursor=c&limit=5"},
		{Method: "PATCH", Target: "/v1/deliveries/dlv_1", Body: `{"note":null}`},
		{Method: "POST", Target: "/v1/deliveries/dlv_1/discard", Body: `{"reason":"why"}`},
		{Method: "GET", Target: "/v1/dead-letters?endpoint=ep_1&reason_code=expired&status_code=503&text=%C3%A9"},
		{Method: "GET", Target: "/v1/stats?bucket=day&from=2026-05-06T08%3A00%3A00Z&tenant=acme"},
	}, got); d != "" {
		t.Error(d)
	}
}

// TestReplayOnce: the caller's idempotency key is the one that is sent.
func TestReplayOnce(t *testing.T) {
	var keys []string
	c := with(t, func(r *http.Request) (*http.Response, error) {
		keys = append(keys, look(r).Once)
		return answer(202, `{"id":"rpl_1"}`), nil
	})
	for range 2 {
		if r, err := c.StartReplayOnce(t.Context(), "ep_1", "once-1", client.NewReplay{Rate: 20}); err != nil || r.ID != "rpl_1" {
			t.Fatalf("%+v %v", r, err)
		}
	}
	if len(keys) != 2 || keys[0] != "once-1" || keys[1] != "once-1" {
		t.Errorf("the keys are %q", keys)
	}
}
