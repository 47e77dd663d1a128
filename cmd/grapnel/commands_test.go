package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// result is what a call of the program came to.
type result struct {
	code      int
	out, errs string
}

// invoke runs the program in this process.
func invoke(t *testing.T, env map[string]string, stdin string, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	code := runProgram(t.Context(), &cli.World{
		Program: "grapnel", Args: args, Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs,
		Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok },
		Now:    func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
	})
	return result{code, out.String(), errs.String()}
}

// request is what a fake server saw.
type request struct{ Method, Target, Body, Key string }

// fake answers with what a test says, and keeps what it was asked.
type fake struct {
	*httptest.Server
	adding sync.Mutex // a client that gave up waiting asks again while its request is still answered
	seen   []request  // tests read it when the command has ended
}

func newFake(t *testing.T, answer func(r *http.Request) (status int, body string)) *fake {
	t.Helper()
	f := &fake{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		f.adding.Lock()
		f.seen = append(f.seen, request{r.Method, r.URL.RequestURI(), string(body), strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")})
		f.adding.Unlock()
		status, text := answer(r)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(f.Close)
	return f
}

func always(status int, body string) func(*http.Request) (int, string) {
	return func(*http.Request) (int, string) { return status, body }
}

func (f *fake) env() map[string]string {
	return map[string]string{"GRAPNEL_SERVER": f.URL, "GRAPNEL_KEY": "grp_env"}
}

// arguments splits a line at spaces, but not between single quotes.
func arguments(line string) (all []string) {
	for i, part := range strings.Split(line, "'") {
		if i%2 == 1 {
			all = append(all, part)
		} else {
			all = append(all, strings.Fields(part)...)
		}
	}
	return all
}

// The table says what each command sends.
func TestRequests(t *testing.T) {
	file := filepath.Join(t.TempDir(), "doc.json")
	if err := os.WriteFile(file, []byte(`{ "n": 1.0 }`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args  string
		stdin string
		want  request
	}{
		{args: `send a.b`, want: request{"POST", "/v1/events", `{"type":"a.b","data":{}}`, ""}},
		{args: `send a.b -d {"x":[1,2.0]} --key k --id i --tenant t --metadata m=1`,
			want: request{"POST", "/v1/events", `{"type":"a.b","key":"k","id":"i","tenant":"t","metadata":{"m":"1"},"data":{"x":[1,2.0]}}`, ""}},
		{args: `send a.b -d @` + file, want: request{"POST", "/v1/events", `{"type":"a.b","data":{ "n": 1.0 }}`, ""}},
		{args: `send a.b -d -`, stdin: "[1]", want: request{"POST", "/v1/events", `{"type":"a.b","data":[1]}`, ""}},
		{args: `send a.b --at 2126-01-01T00:00:00Z`, want: request{"POST", "/v1/events", `{"type":"a.b","deliver_at":"2126-01-01T00:00:00Z","data":{}}`, ""}},
		{args: `send a.b -d x --content-type text/csv --at 2126-01-01T00:00:00Z`,
			want: request{"POST", "/v1/events/raw?deliver_at=2126-01-01T00%3A00%3A00Z&type=a.b", "x", ""}},
		{args: `send a.b --occurred-at 2026-01-01T00:00:00Z`, want: request{"POST", "/v1/events", `{"type":"a.b","occurred_at":"2026-01-01T00:00:00Z","data":{}}`, ""}},
		{args: `send a.b -d - --content-type text/csv --key k`, stdin: "a,b", want: request{"POST", "/v1/events/raw?key=k&type=a.b", "a,b", ""}},
		{args: `send a.b --content-type text/csv`, want: request{"POST", "/v1/events/raw?type=a.b", "", ""}},
		{args: `send a.b -d x --content-type text/csv --occurred-at 2026-01-01T00:00:00Z`,
			want: request{"POST", "/v1/events/raw?occurred_at=2026-01-01T00%3A00%3A00Z&type=a.b", "x", ""}},
		{args: `events list --type a.* --event-key k --limit 3`, want: request{"GET", "/v1/events?key=k&limit=3&type=a.%2A", "", ""}},
		{args: `events show evt_1`, want: request{"GET", "/v1/events/evt_1", "", ""}},
		{args: `events show evt_1 --tenant t`, want: request{"GET", "/v1/events/evt_1?tenant=t", "", ""}},
		{args: `inbox get req_1 --tenant t`, want: request{"GET", "/v1/inbox/req_1?tenant=t", "", ""}},
		{args: `deliveries list --endpoint ep_1 --status failed,held --from 2026-01-01T00:00:00Z --cursor c`,
			want: request{"GET", "/v1/endpoints/ep_1/deliveries?cursor=c&from=2026-01-01T00%3A00%3A00Z&limit=50&status=failed&status=held", "", ""}},
		{args: `deliveries list --since 2026-01-01T00:00:00Z --until 2026-01-02T00:00:00Z`,
			want: request{"GET", "/v1/deliveries?from=2026-01-01T00%3A00%3A00Z&limit=50&to=2026-01-02T00%3A00%3A00Z", "", ""}},
		{args: `events list --since 2026-01-01T00:00:00Z --to 2026-01-02T00:00:00Z`,
			want: request{"GET", "/v1/events?from=2026-01-01T00%3A00%3A00Z&limit=50&to=2026-01-02T00%3A00%3A00Z", "", ""}},
		{args: `deliveries show dlv_1`, want: request{"GET", "/v1/deliveries/dlv_1", "", ""}},
		{args: `deliveries verify dlv_1 --attempt 2`, want: request{"GET", "/v1/deliveries/dlv_1/attempts/2/signature", "", ""}},
		{args: `deliveries retry --filter status:held --reason x`,
			want: request{"POST", "/v1/deliveries/retry?filter=status%3Aheld&limit=500", `{"reason":"x"}`, ""}},
		{args: `deliveries retry dlv_1`, want: request{"POST", "/v1/deliveries/dlv_1/retry", "", ""}},
		{args: `deliveries retry dlv_1 --reason why`, want: request{"POST", "/v1/deliveries/dlv_1/retry", `{"reason":"why"}`, ""}},
		{args: `deliveries skip dlv_1 --reason why`, want: request{"POST", "/v1/deliveries/dlv_1/skip", `{"reason":"why"}`, ""}},
		{args: `deliveries list --reason-code expired --error-class timeout --status-code 503 --text x`,
			want: request{"GET", "/v1/deliveries?error_class=timeout&limit=50&reason_code=expired&status_code=503&text=x", "", ""}},
		{args: `deliveries list --filter 'status:dead endpoint:acme since:6h'`,
			want: request{"GET", "/v1/deliveries?filter=status%3Adead+endpoint%3Aacme+since%3A6h&limit=50", "", ""}},
		{args: `dlq export --filter code:5xx`, want: request{"GET", "/v1/dead-letters/export?filter=code%3A5xx&format=jsonl", "", ""}},
		{args: `deliveries export --endpoint ep_1 --status failed --format csv`,
			want: request{"GET", "/v1/deliveries/export?endpoint=ep_1&format=csv&status=failed", "", ""}},
		{args: `dlq list --endpoint ep_1 --type a.* --limit 3`,
			want: request{"GET", "/v1/dead-letters?endpoint=ep_1&limit=3&type=a.%2A", "", ""}},
		{args: `dlq show dlv_1`, want: request{"GET", "/v1/deliveries/dlv_1", "", ""}},
		{args: `dlq export --event-key k`, want: request{"GET", "/v1/dead-letters/export?format=jsonl&key=k", "", ""}},
		{args: `dlq discard dlv_1 --reason why`, want: request{"POST", "/v1/deliveries/dlv_1/discard", `{"reason":"why"}`, ""}},
		{args: `dlq note dlv_1 text`, want: request{"PATCH", "/v1/deliveries/dlv_1", `{"note":"text"}`, ""}},
		{args: `replay plan ep_1 --from 2026-01-01T00:00:00Z --type a,b.* --event-key k --status dropped --again`,
			want: request{"POST", "/v1/endpoints/ep_1/replay", `{"from":"2026-01-01T00:00:00Z","event_types":["a","b.*"],"keys":["k"],"status":["dropped"],"again":true,"dry_run":true}`, ""}},
		{args: `replay list --endpoint ep_1 --active`, want: request{"GET", "/v1/replays?active=true&endpoint=ep_1&limit=50", "", ""}},
		{args: `replay show rpl_1`, want: request{"GET", "/v1/replays/rpl_1", "", ""}},
		{args: `replay pause rpl_1`, want: request{"POST", "/v1/replays/rpl_1/pause", "", ""}},
		{args: `replay resume rpl_1 --reason why`, want: request{"POST", "/v1/replays/rpl_1/resume", `{"reason":"why"}`, ""}},
		{args: `replay cancel rpl_1`, want: request{"POST", "/v1/replays/rpl_1/cancel", "", ""}},
		{args: `replay report rpl_1`, want: request{"GET", "/v1/replays/rpl_1/items?limit=500", "", ""}},
		{args: `stats`, want: request{"GET", "/v1/stats", "", ""}},
		{args: `stats --by type --tenant acme --groups 7`, want: request{"GET", "/v1/stats?by=type&groups=7&tenant=acme", "", ""}},
		{args: `stats --by reason --endpoint ep_1`, want: request{"GET", "/v1/stats?by=reason&endpoint=ep_1", "", ""}},
		{args: `stats --endpoint ep_1 --bucket day --to 2026-01-01T00:00:00Z`, want: request{"GET", "/v1/endpoints/ep_1/stats?bucket=day&to=2026-01-01T00%3A00%3A00Z", "", ""}},
		{args: `endpoints create https://x.test/h`, want: request{"POST", "/v1/endpoints", `{"url":"https://x.test/h"}`, ""}},
		{args: `endpoints create https://x.test/h --types a.*,b --policy paylera --rate 5/9 --header X-A=1 --max-concurrency 3 --tenant t`,
			want: request{"POST", "/v1/endpoints", `{"event_types":["a.*","b"],"headers":{"X-A":"1"},"max_concurrency":3,"policy":"paylera",` +
				`"rate_limit":{"burst":9,"per_second":5},"tenant":"t","url":"https://x.test/h"}`, ""}},
		{args: `endpoints create https://x.test/h --policy {"timeout":"1s"} --secret -`, stdin: "whsec_x\n",
			want: request{"POST", "/v1/endpoints", `{"policy":{"timeout":"1s"},"secret":"whsec_x","url":"https://x.test/h"}`, ""}},
		{args: `endpoints create https://x.test/h --source src_1`, want: request{"POST", "/v1/endpoints", `{"source":"src_1","url":"https://x.test/h"}`, ""}},
		{args: `endpoints create https://x.test/h --transform -`, stdin: "{id, at: .timestamp}\n",
			want: request{"POST", "/v1/endpoints", `{"transform":"{id, at: .timestamp}","url":"https://x.test/h"}`, ""}},
		{args: `endpoints update ep_1 --transform=`, want: request{"PATCH", "/v1/endpoints/ep_1", `{"transform":null}`, ""}},
		{args: `events list --source src_1`, want: request{"GET", "/v1/events?limit=50&source=src_1", "", ""}},
		{args: `endpoints create https://x.test/h --tenant= --secret=`, want: request{"POST", "/v1/endpoints", `{"url":"https://x.test/h"}`, ""}},
		{args: `endpoints create https://x.test/h --secret -`,
			want: request{"POST", "/v1/endpoints", `{"secret":"","url":"https://x.test/h"}`, ""}},
		{args: `events list --tenant= --type=`, want: request{"GET", "/v1/events?limit=50", "", ""}},
		{args: `replay list --active=false`, want: request{"GET", "/v1/replays?limit=50", "", ""}},
		{args: `endpoints list --tenant t`, want: request{"GET", "/v1/endpoints?limit=50&tenant=t", "", ""}},
		{args: `endpoints show ep_1`, want: request{"GET", "/v1/endpoints/ep_1", "", ""}},
		{args: `endpoints update ep_1 --filter= --rate none`,
			want: request{"PATCH", "/v1/endpoints/ep_1", `{"filter":null,"rate_limit":null}`, ""}},
		{args: `endpoints delete ep_1`, want: request{"DELETE", "/v1/endpoints/ep_1", "", ""}},
		{args: `endpoints delete ep_1 --reason left`, want: request{"DELETE", "/v1/endpoints/ep_1?reason=left", "", ""}},
		{args: `endpoints get ep_1`, want: request{"GET", "/v1/endpoints/ep_1", "", ""}},
		{args: `endpoints pause ep_1`, want: request{"POST", "/v1/endpoints/ep_1/pause", "", ""}},
		{args: `endpoints pause ep_1 --reason why`, want: request{"POST", "/v1/endpoints/ep_1/pause", `{"reason":"why"}`, ""}},
		{args: `endpoints resume ep_1 --reason why`, want: request{"POST", "/v1/endpoints/ep_1/resume", `{"reason":"why"}`, ""}},
		{args: `endpoints probe ep_1 --reason why`, want: request{"POST", "/v1/endpoints/ep_1/probe", `{"reason":"why"}`, ""}},
		{args: `endpoints retry ep_1`, want: request{"POST", "/v1/endpoints/ep_1/retry", "{}", ""}},
		{args: `endpoints retry ep_1 --type a.*,b --event-key k --error-class status_4xx --status-code 422 --reason why`,
			want: request{"POST", "/v1/endpoints/ep_1/retry", `{"event_types":["a.*","b"],"keys":["k"],"error_class":"status_4xx","status_code":422,"reason":"why"}`, ""}},
		{args: `endpoints enable ep_1`, want: request{"PATCH", "/v1/endpoints/ep_1", `{"status":"enabled"}`, ""}},
		{args: `endpoints enable ep_1 --reason why`, want: request{"PATCH", "/v1/endpoints/ep_1?reason=why", `{"status":"enabled"}`, ""}},
		{args: `endpoints lanes ep_1 --limit 3 --cursor c`, want: request{"GET", "/v1/endpoints/ep_1/lanes?cursor=c&limit=3", "", ""}},
		{args: `audit`, want: request{"GET", "/v1/audit?limit=50", "", ""}},
		{args: `audit --endpoint ep_1 --delivery dlv_1 --tenant t --limit 2`, want: request{"GET", "/v1/audit?delivery=dlv_1&endpoint=ep_1&limit=2&tenant=t", "", ""}},
		{args: `endpoints rotate-secret ep_1 --overlap 1h`,
			want: request{"POST", "/v1/endpoints/ep_1/rotate-secret", `{"overlap":"1h0m0s"}`, ""}},
		{args: `endpoints rotate-secret ep_1 --overlap 0s`, want: request{"POST", "/v1/endpoints/ep_1/rotate-secret", `{"overlap":"0s"}`, ""}},
		{args: `endpoints test ep_1 --wait 0s --delay 1m`, want: request{"POST", "/v1/endpoints/ep_1/test", `{"delay":"1m0s"}`, ""}},
		{args: `endpoints test ep_1 --wait 0s --type a -d {"x":1}`, want: request{"POST", "/v1/endpoints/ep_1/test", `{"data":{"x":1},"type":"a"}`, ""}},
		{args: `sources create shop --scheme stripe --secret - --tenant t`, stdin: "whsec_x\n",
			want: request{"POST", "/v1/sources", `{"name":"shop","tenant":"t","verify":{"scheme":"stripe","secret":"whsec_x"}}`, ""}},
		{args: `sources create p --scheme hmac --secret a --secret b --header X-S --signed {timestamp}.{body} --timestamp-header X-T --event-key x --dedupe content --ignore $.at --rate 5`,
			want: request{"POST", "/v1/sources", `{"dedupe":{"by":["content"],"ignore":["$.at"]},"key":"x","name":"p",` +
				`"rate_limit":{"per_second":5},` +
				`"verify":{"header":"X-S","scheme":"hmac","secrets":["a","b"],"signed":"{timestamp}.{body}","timestamp_header":"X-T"}}`, ""}},
		{args: `sources list --tenant t`, want: request{"GET", "/v1/sources?limit=50&tenant=t", "", ""}},
		{args: `sources get src_1`, want: request{"GET", "/v1/sources/src_1", "", ""}},
		{args: `sources update src_1 --on-unverified quarantine --dedupe none --tolerance 1m --status paused`,
			want: request{"PATCH", "/v1/sources/src_1", `{"dedupe":{"by":[]},"on_unverified":"quarantine","status":"paused","verify":{"tolerance":"1m"}}`, ""}},
		{args: `sources rotate-secret src_1 --secret new`, want: request{"POST", "/v1/sources/src_1/rotate-secret", `{"overlap":"24h0m0s","secret":"new"}`, ""}},
		{args: `sources rotate-secret src_1 --secret new --overlap 0s`, want: request{"POST", "/v1/sources/src_1/rotate-secret", `{"overlap":"0s","secret":"new"}`, ""}},
		{args: `sources delete src_1 --reason left`, want: request{"DELETE", "/v1/sources/src_1?reason=left", "", ""}},
		{args: `inbox list --source src_1 --outcome unverified --from 2026-01-01T00:00:00Z`,
			want: request{"GET", "/v1/inbox?from=2026-01-01T00%3A00%3A00Z&limit=50&outcome=unverified&source=src_1", "", ""}},
		{args: `inbox get req_1`, want: request{"GET", "/v1/inbox/req_1", "", ""}},
		{args: `queues create orders --types order.*,x --source src_1 --lease 5m --max-leased 3`,
			want: request{"POST", "/v1/queues", `{"event_types":["order.*","x"],"lease":"5m","max_leased":3,"name":"orders","source":"src_1"}`, ""}},
		{args: `queues list`, want: request{"GET", "/v1/queues?limit=50", "", ""}},
		{args: `queues get orders`, want: request{"GET", "/v1/queues/orders", "", ""}},
		{args: `queues update orders --filter= --policy standard`, want: request{"PATCH", "/v1/queues/orders", `{"filter":null,"policy":"standard"}`, ""}},
		{args: `queues pause orders --reason why`, want: request{"POST", "/v1/queues/orders/pause", `{"reason":"why"}`, ""}},
		{args: `queues resume orders`, want: request{"POST", "/v1/queues/orders/resume", "", ""}},
		{args: `queues delete orders --reason why`, want: request{"DELETE", "/v1/queues/orders?reason=why", "", ""}},
		{args: `queues peek orders --limit 2`, want: request{"GET", "/v1/queues/orders/peek?limit=2", "", ""}},
		{args: `queues ack lse_1`, want: request{"POST", "/v1/leases/lse_1/ack", "", ""}},
		{args: `queues nack lse_1 --reason why`, want: request{"POST", "/v1/leases/lse_1/nack", `{"reason":"why"}`, ""}},
		{args: `queues nack lse_1 --delay 10s`, want: request{"POST", "/v1/leases/lse_1/nack", `{"delay":"10s"}`, ""}},
		{args: `queues reject lse_1 --reason why`, want: request{"POST", "/v1/leases/lse_1/reject", `{"reason":"why"}`, ""}},
		{args: `queues extend lse_1 --by 1m`, want: request{"POST", "/v1/leases/lse_1/extend", `{"by":"1m"}`, ""}},
		{args: `policies list`, want: request{"GET", "/v1/policies?limit=50", "", ""}},
		{args: `policies show paylera`, want: request{"GET", "/v1/policies/paylera", "", ""}},
		{args: `policies create {"timeout":"1s"} --name p`, want: request{"POST", "/v1/policies", `{"name":"p","timeout":"1s"}`, ""}},
		{args: `policies delete pol_1`, want: request{"DELETE", "/v1/policies/pol_1", "", ""}},
		{args: `keys create --name ci --scope publish,read --tenant t`, want: request{"POST", "/v1/keys", `{"name":"ci","scopes":["publish","read"],"tenant":"t"}`, ""}},
		{args: `cluster status`, want: request{"GET", "/v1/cluster", "", ""}},
		{args: `cluster settings`, want: request{"GET", "/v1/settings", "", ""}},
		{args: `keys list`, want: request{"GET", "/v1/keys?limit=50", "", ""}},
		{args: `keys delete key_1`, want: request{"DELETE", "/v1/keys/key_1", "", ""}},
	} {
		t.Run(tc.args, func(t *testing.T) {
			f := newFake(t, always(200, `{"data":[]}`))
			got := invoke(t, f.env(), tc.stdin, arguments(tc.args)...)
			if got.code != 0 {
				t.Fatalf("%+v", got)
			}
			tc.want.Key = "grp_env"
			if d := cmp.Diff([]request{tc.want}, f.seen); d != "" {
				t.Error(d)
			}
		})
	}
}

// TestRetriedIsSaid: the number goes to stdout, and what else there is to know to stderr.
func TestRetriedIsSaid(t *testing.T) {
	for answer, says := range map[string]string{`"retried":3,"probe":false,"more":false`: "",
		`"retried":1000,"probe":false,"more":true`: "there are more: repeat the command\n",
		`"retried":0,"probe":false,"more":false`:   "nothing waits for a later attempt\n",
		`"retried":1,"probe":true,"more":false`:    "the circuit is open: one delivery probes the endpoint, and the others follow if it succeeds\n"} {
		got := invoke(t, newFake(t, always(200, "{"+answer+"}")).env(), "", "endpoints", "retry", "ep_1")
		number, _, _ := strings.Cut(strings.TrimPrefix(answer, `"retried":`), ",")
		if got.code != 0 || got.errs != says || !strings.Contains(got.out, "retried   "+number+"\n") {
			t.Errorf("%s: %+v", answer, got)
		}
	}
}

func TestPreciseAnswers(t *testing.T) {
	const answer = `{"data":[{"id":"dlv_1","status":"failed","type":"a","key":"k","endpoint_id":"ep_1","attempts_made":9,"last":{"status_code":503},"next_attempt_at":null,` +
		`"created_at":"2026-01-02T03:04:05.000000Z","later":1.50}],"next":"c2"}`
	for _, tc := range []struct {
		args      string
		out, errs string
	}{
		{"", "DELIVERY  STATUS  TYPE  KEY  ENDPOINT  TRIES  LAST  NEXT  CREATED\n" +
			"dlv_1     failed  a     k    ep_1      9      503         2026-01-02T03:04:05.000000Z\n", "for the next page: --cursor c2; for all: --all\n"},
		{"-o name", "dlv_1\n", "for the next page: --cursor c2; for all: --all\n"},
		{"-o jsonl", answer[len(`{"data":[`):strings.Index(answer, `],"next"`)] + "\n", "for the next page: --cursor c2; for all: --all\n"},
		{"--jq .data[0].later", "1.50\n", "for the next page: --cursor c2; for all: --all\n"},
	} {
		f := newFake(t, always(200, answer))
		got := invoke(t, f.env(), "", append([]string{"deliveries", "list"}, strings.Fields(tc.args)...)...)
		if d := cmp.Diff(result{0, tc.out, tc.errs}, got, cmp.AllowUnexported(result{})); d != "" {
			t.Errorf("%s:\n%s", tc.args, d)
		}
	}
	f := newFake(t, always(200, answer))
	got := invoke(t, f.env(), "", "deliveries", "list", "-o", "json")
	var want, have any
	if json.Unmarshal([]byte(answer), &want) != nil || json.Unmarshal([]byte(got.out), &have) != nil || cmp.Diff(want, have) != "" || !strings.Contains(got.out, "1.50") {
		t.Errorf("-o json is not the server's answer: %s", got.out)
	}
}

// An interrupted command about several ids asks for no more of them, prints those that are done,
// and says that it was interrupted, not that the others failed.
func TestInterruptedBetweenIDs(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	f := newFake(t, func(r *http.Request) (int, string) {
		if r.URL.Path == "/v1/deliveries/dlv_2/retry" {
			interrupt()
			<-r.Context().Done()
		}
		return http.StatusOK, `{"id":"dlv_1"}`
	})
	var out, errs bytes.Buffer
	code := runProgram(ctx, &cli.World{Args: []string{"deliveries", "retry", "dlv_1", "dlv_2", "dlv_3", "-o", "name"},
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Now: time.Now,
		Lookup: func(name string) (string, bool) { v, ok := f.env()[name]; return v, ok }})
	if code != 130 || out.String() != "dlv_1\n" || errs.String() != "error: interrupted\n" {
		t.Errorf("exits %d: %s%s", code, out.String(), errs.String())
	}
}

// An export takes as long as it needs, but not longer than a --timeout that is given.
func TestExportKeepsToItsTimeout(t *testing.T) {
	f := newFake(t, func(r *http.Request) (int, string) {
		select {
		case <-r.Context().Done():
		case <-time.After(10 * time.Second):
		}
		return http.StatusOK, ""
	})
	for _, what := range []string{"deliveries", "dlq"} {
		if got := invoke(t, f.env(), "", what, "export", "--timeout", "20ms"); got.code != 124 {
			t.Errorf("%s: %+v", what, got)
		}
	}
}

// -o jsonl has the objects that -o json has.
func TestEveryAnswerHasLines(t *testing.T) {
	for args, want := range map[string]string{
		"send a.b --dry-run": `{"id":"ep_1","name":"n","wanted":true,"reason":"r"}` + "\n",
		"why ep_1":           `{"deliveries":null,"endpoints":[{"sentence":"s"}]}` + "\n",
	} {
		f := newFake(t, func(r *http.Request) (int, string) {
			if r.Method == http.MethodPost {
				return 200, `{"endpoints":[{"id":"ep_1","name":"n","wanted":true,"reason":"r"}]}`
			}
			return 200, `{"sentence":"s"}`
		})
		if got := invoke(t, f.env(), "", append(strings.Fields(args), "-o", "jsonl")...); got.code != 0 || got.out != want {
			t.Errorf("%s: %+v", args, got)
		}
	}
	if got := invoke(t, nil, "", "channels", "services", "-o", "jsonl"); got.code != 0 || strings.Count(got.out, "\n") < 5 {
		t.Errorf("channels services: %+v", got)
	}
}

// Refusals by the server, and mistakes found before a request is sent, as exit codes.
func TestExitCodesOfCommands(t *testing.T) {
	problem := func(status int, code string) func(*http.Request) (int, string) {
		text, _ := json.Marshal(map[string]any{"status": status, "code": code, "title": "t", "detail": "d", "request_id": "r"})
		return always(status, string(text))
	}
	ok := always(200, `{"data":[]}`)
	for _, tc := range []struct {
		args   string
		answer func(*http.Request) (int, string)
		want   int
	}{
		{"events list", ok, 0},
		{"--help", ok, 0},
		{"endpoints", ok, 0},
		{"--version", ok, 0},
		{"events list", problem(500, "internal"), 1},
		{"events", ok, 0},
		{"nonsense", ok, 2},
		{"events nonsense", ok, 2},
		{"events list extra", ok, 2},
		{"events show", ok, 2},
		{"events list --nonsense", ok, 2},
		{"events list --from yesterday", ok, 2},
		{"events list -o xml", ok, 2},
		{"backup --to=", ok, 2},
		{"events list --jq .[", ok, 2},
		{"events list --server nowhere", ok, 2},
		{"send a -d {", ok, 2},
		{"send a -d @/nowhere/at-all", ok, 2},
		{"endpoints update ep_1", ok, 2},
		{"endpoints create https://x.test --rate fast", ok, 2},
		{"keys create --name x", ok, 2},
		{"deliveries skip dlv_1", ok, 2},
		{"policies create [1]", ok, 2},
		{"send a -d x --content-type text/csv --metadata m=1", ok, 2},
		{"send a", problem(422, "invalid"), 2},
		{"events show evt_1", problem(404, "not_found"), 3},
		{"events list", problem(401, "unauthenticated"), 4},
		{"events list", problem(403, "forbidden"), 4},
		{"send a --id x", problem(409, "conflict"), 5},
		{"send a", problem(422, "idempotency_mismatch"), 5},
		{"send a", problem(507, "storage_full"), 6},
		{"endpoints delete ep_1", problem(503, "unavailable"), 6},
		{"endpoints delete ep_1", problem(503, "overloaded"), 6},
		{"endpoints delete ep_1", problem(429, "quota"), 7},
		{"endpoints probe ep_1", problem(409, "conflict"), 5},
		{"endpoints lanes ep_1 ep_2", ok, 2},
		{"audit extra", ok, 2},
		{"audit --actor key_1", ok, 2},
		{"endpoints delete ep_1", problem(429, "rate_limited"), 7},
		{"dlq", ok, 0},
		{"dlq discard dlv_1", ok, 2},
		{"dlq discard dlv_1 dlv_2 --reason x", ok, 2},
		{"dlq replay", ok, 2},
		{"dlq replay dlv_1 --endpoint ep_1", ok, 2},
		{"dlq replay dlv_1 --type a", ok, 2},
		{"dlq replay dlv_1", problem(404, "not_found"), 3},
		{"dlq export --format xls", ok, 2},
		{"dlq note dlv_1", ok, 2},
		{"replay start", ok, 2},
		{"replay start ep_1", problem(409, "conflict"), 5},
		{"replay watch rpl_1", problem(404, "not_found"), 3},
		{"replay report rpl_1", problem(404, "not_found"), 3},
		{"stats --bucket week", problem(422, "invalid"), 2},
		{"stats --from yesterday", ok, 2},
		{"send a --dry-run --content-type text/csv", ok, 2},
		{"alerts set backlog_age --on --off", ok, 2},
		{"events list --timeout 0s", ok, 2},
		{"tail --every 1ms", ok, 2},
		{"tail --last -1", ok, 2},
		{"tail", problem(401, "unauthenticated"), 4},
		{"serve --store= --listen nowhere:1", ok, 2},
		{"serve --listen nowhere", ok, 2},
		{"serve --listen 127.0.0.1:99999", ok, 2},
	} {
		t.Run(tc.args, func(t *testing.T) {
			f := newFake(t, tc.answer)
			got := invoke(t, f.env(), "", strings.Fields(tc.args)...)
			if got.code != tc.want {
				t.Errorf("exits %d, want %d\n%s%s", got.code, tc.want, got.out, got.errs)
			}
			if tc.want == 2 && !strings.Contains(tc.args, "a") && len(f.seen) > 0 {
				t.Errorf("a command that was called wrong sent %v", f.seen)
			}
			if strings.Contains(tc.args, "--jq") {
				return // a program reads that, so stdout has a problem
			}
			if tc.want != 0 && (!strings.HasPrefix(got.errs, "error: ") || strings.Count(got.errs, "\n") != 1 || got.out != "") {
				t.Errorf("stderr %q should be one line that starts with error:, stdout %q should be empty", got.errs, got.out)
			}
		})
	}
}

func TestServerThatIsNotThere(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"GRAPNEL_SERVER": "http://" + l.Addr().String()}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	got := invoke(t, env, "", "events", "list", "-o", "json")
	var doc struct{ Code string }
	if got.code != 6 || json.Unmarshal([]byte(got.problem()), &doc) != nil || doc.Code != "unavailable" || !strings.Contains(got.errs, "grapnel serve") {
		t.Errorf("%+v", got)
	}
}

func TestServerThatDoesNotAnswer(t *testing.T) {
	release := make(chan struct{})
	f := newFake(t, func(*http.Request) (int, string) { <-release; return 200, "{}" })
	defer close(release)
	if got := invoke(t, f.env(), "", "events", "show", "evt_1", "--timeout", "50ms"); got.code != 124 {
		t.Errorf("%+v", got)
	}
}

// problem is the line of stderr that a program reads.
func (r result) problem() string {
	_, rest, _ := strings.Cut(r.errs, "\n")
	return strings.TrimSuffix(rest, "\n")
}

func TestErrorsAreProblemsForPrograms(t *testing.T) {
	const text = `{"type":"/docs/problems#not_found","status":404,"code":"not_found","detail":"there is no such event","errors":[],"request_id":"req_1"}`
	f := newFake(t, always(404, text))
	for _, form := range []string{"json", "jsonl"} {
		if got := invoke(t, f.env(), "", "events", "show", "evt_1", "-o", form); got.problem() != text || got.out != "" {
			t.Errorf("-o %s: %+v", form, got)
		}
	}
	for _, args := range []string{"events list --bogus -o json", "events show -o json", "nonsense -o json"} {
		got := invoke(t, nil, "", strings.Fields(args)...)
		var doc struct {
			Code string `json:"code"`
			Exit int    `json:"exit_code"`
		}
		if err := json.Unmarshal([]byte(got.problem()), &doc); err != nil || doc.Code != "usage" || doc.Exit != 2 || got.out != "" {
			t.Errorf("%s: %+v", args, got)
		}
	}
}

func TestManyIdsAndSomeFail(t *testing.T) {
	f := newFake(t, func(r *http.Request) (int, string) {
		if strings.Contains(r.URL.Path, "gone") {
			return 404, `{"code":"not_found","detail":"delivery not found"}`
		}
		return 200, `{"id":"dlv_new","status":"pending"}`
	})
	got := invoke(t, f.env(), "", "deliveries", "retry", "dlv_1", "gone", "dlv_2", "-o", "name")
	want := result{9, "dlv_new\ndlv_new\n", "gone: delivery not found\nerror: 1 of 3 failed\n"}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(result{})); d != "" {
		t.Error(d)
	}
	if got := invoke(t, f.env(), "", "deliveries", "retry", "gone"); got.code != 3 {
		t.Errorf("one id that is gone: %+v", got)
	}
}

func TestWhereTheKeyComesFrom(t *testing.T) {
	t.Chdir(t.TempDir())
	f := newFake(t, always(200, `{"data":[]}`))
	last := func(env map[string]string, args ...string) string {
		t.Helper()
		env["GRAPNEL_SERVER"] = f.URL
		if got := invoke(t, env, "", args...); got.code != 0 {
			t.Fatalf("%v: %+v", args, got)
		}
		return f.seen[len(f.seen)-1].Key
	}
	keyFile := filepath.Join(t.TempDir(), "key")
	for path, text := range map[string]string{keyFile: "grp_file\n", cli.KeyFile: "grp_admin\n"} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	apiKey := "grp_" + strings.Repeat("x", 43)
	for _, tc := range []struct {
		env  map[string]string
		args []string
		want string
	}{
		{map[string]string{}, []string{"events", "list"}, "grp_admin"},
		{map[string]string{"GRAPNEL_KEY_FILE": keyFile}, []string{"events", "list"}, "grp_file"},
		{map[string]string{"GRAPNEL_KEY": "grp_env"}, []string{"events", "list"}, "grp_env"},
		{map[string]string{"GRAPNEL_KEY": "grp_env"}, []string{"events", "list", "--key", "grp_flag"}, "grp_flag"},
		{map[string]string{"GRAPNEL_KEY": "grp_env"}, []string{"send", "a", "--key", "inv_1"}, "grp_env"},
		{map[string]string{"GRAPNEL_KEY": "grp_env"}, []string{"send", "a", "--key", "inv_1", "--api-key", "grp_flag"}, "grp_flag"},
		{map[string]string{}, []string{"send", "a", "--key", "inv_1"}, "grp_admin"},
		{map[string]string{}, []string{"send", "a", "--key", apiKey}, apiKey},
	} {
		if got := last(tc.env, tc.args...); got != tc.want {
			t.Errorf("%v %v used %q, want %q", tc.env, tc.args, got, tc.want)
		}
		if body := f.seen[len(f.seen)-1].Body; strings.Contains(body, "grp_") {
			t.Errorf("%v: an API key became a part of the event: %s", tc.args, body)
		}
	}
}

func TestKeyThatIsNotNeededIsNotMissed(t *testing.T) {
	env := map[string]string{"GRAPNEL_KEY_FILE": "/nowhere/at-all"}
	if got := invoke(t, env, "", "simulate", "--outage", "1h"); got.code != 0 {
		t.Errorf("%+v", got)
	}
	if got := invoke(t, env, "", "events", "list"); got.code != 2 || !strings.Contains(got.errs, "GRAPNEL_KEY_FILE") {
		t.Errorf("%+v", got)
	}
}

func TestEmptyListsSaySo(t *testing.T) {
	f := newFake(t, always(200, `{"data":[],"next":null}`))
	for _, args := range []string{"deliveries list", "dlq list", "events list", "queues list", "sources list", "inbox list", "endpoints lanes ep_1", "queues peek q",
		"replay list", "audit"} {
		if got := invoke(t, f.env(), "", strings.Fields(args)...); got.code != 0 || got.out != "" || got.errs != "nothing here\n" {
			t.Errorf("%s: %+v", args, got)
		}
		if got := invoke(t, f.env(), "", append(strings.Fields(args), "-o", "name")...); got.code != 0 || got.out+got.errs != "" {
			t.Errorf("%s -o name: %+v", args, got)
		}
		if got := invoke(t, f.env(), "", append(strings.Fields(args), "--jq", ".data")...); got.code != 0 || got.out != "[]\n" || got.errs != "" {
			t.Errorf("%s --jq: %+v", args, got)
		}
	}
	asked := len(f.seen)
	for _, limit := range []string{"0", "-1"} {
		if got := invoke(t, f.env(), "", "dlq", "list", "--limit", limit); got.code != 2 || !strings.Contains(got.errs, "--limit "+limit+": it must be at least 1") || len(f.seen) > asked {
			t.Errorf("--limit %s: %+v", limit, got)
		}
	}
}

// `endpoints test` and `channels test` show how their attempt ended, and the exit code says whether
// the receiver took the event.
func TestTestWaitsForTheAnswer(t *testing.T) {
	looks := 0
	f := newFake(t, func(r *http.Request) (int, string) {
		if looks++; r.Method == "POST" || looks < 3 {
			return 200, `{"id":"dlv_1","status":"pending","planned":[{"number":1,"at":"2026-01-02T03:04:05Z","latest":"2026-01-02T03:04:05Z"}]}`
		}
		return 200, `{"id":"dlv_1","status":"discarded","reason_code":"test","attempts_made":1,"last":{"status_code":422},"attempts":[{"number":1,"status_code":422,"response_body":"amount is missing"}]}`
	})
	got := invoke(t, f.env(), "", "endpoints", "test", "ep_1")
	if got.code != cli.ExitPartial || !strings.Contains(got.errs, "did not take the event: 422") || !strings.Contains(got.out, "discarded (test)") ||
		!strings.Contains(got.out, "Answer to attempt 1: 422 Unprocessable Entity") || !strings.Contains(got.out, "amount is missing") {
		t.Errorf("%+v", got)
	}
	if strings.Contains(got.out, "sequence") {
		t.Errorf("a test is in no line: %s", got.out)
	}
	looks = 0
	if got = invoke(t, f.env(), "", "channels", "test", "chn_1"); got.code != cli.ExitPartial || !strings.Contains(got.errs, "the service did not take the message: 422") {
		t.Errorf("channels test: %+v", got)
	}
	looks = -1 << 20
	if got = invoke(t, f.env(), "", "endpoints", "test", "ep_1", "--wait", "150ms"); got.code != 0 || !strings.Contains(got.out, "pending") ||
		!strings.Contains(got.errs, "no outcome after 150ms") || !strings.Contains(got.errs, "deliveries get dlv_1") {
		t.Errorf("%+v", got)
	}
	f = newFake(t, func(r *http.Request) (int, string) {
		if r.Method == "POST" {
			return 200, `{"id":"dlv_1","status":"pending"}`
		}
		return 403, `{"code":"forbidden","detail":"the key may not read"}`
	})
	if got = invoke(t, f.env(), "", "endpoints", "test", "ep_1"); got.code != 0 || !strings.Contains(got.out, "pending") || !strings.Contains(got.errs, "may not read") {
		t.Errorf("with a key that may not read: %+v", got)
	}
}

// A scheme is guessed for this machine only.
func TestServerWithoutAScheme(t *testing.T) {
	f := newFake(t, always(200, `{"data":[]}`))
	at := strings.TrimPrefix(f.URL, "http://")
	_, port, _ := net.SplitHostPort(at)
	for _, server := range []string{at, "localhost:" + port} {
		if got := invoke(t, map[string]string{"GRAPNEL_KEY": "grp_env"}, "", "events", "list", "--server", server); got.code != 0 {
			t.Errorf("%s: %+v", server, got)
		}
	}
	if got := invoke(t, map[string]string{"GRAPNEL_KEY": "grp_env"}, "", "events", "list", "--server", "grapnel.example:8420"); got.code != 2 || !strings.Contains(got.errs, "http://") {
		t.Errorf("elsewhere: %+v", got)
	}
}

func TestSourcesSayWhatWasRefused(t *testing.T) {
	f := newFake(t, always(200, `{"id":"src_1","verify":{"scheme":"stripe"},"refusals":{"last_at":"2026-05-04T03:02:01Z","last_status":401,`+
		`"last_reason":"The request cannot be verified: signature matches no secret.","last_hour":3}}`))
	want := "last 2026-05-04T03:02:01.000000Z, with 401: The request cannot be verified: signature matches no secret (3 in the last hour)"
	if got := invoke(t, f.env(), "", "sources", "get", "src_1"); got.code != 0 || !strings.Contains(got.out, want) {
		t.Errorf("exit code %d: %s%s", got.code, got.out, got.errs)
	}
}

// A note that a secret is shown once appears only in outputs that show the secret.
func TestShownOnce(t *testing.T) {
	for _, args := range []string{"endpoints create http://x.test", "endpoints rotate-secret ep_1", "keys create --name k --scope read"} {
		for form, want := range map[string]string{"table": "is shown only now", "json": "is shown only now", "name": "-o json has it"} {
			f := newFake(t, always(200, `{"id":"x_1","secret":"whsec_x","key":"grp_x"}`))
			if got := invoke(t, f.env(), "", strings.Fields(args+" -o "+form)...); got.code != 0 || !strings.Contains(got.errs, want) {
				t.Errorf("%s -o %s: %+v", args, form, got)
			}
		}
	}
}
