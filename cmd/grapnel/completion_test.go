package main

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/face/cli"
)

// completed are the values that a shell is given for the last word of a line.
func completed(t *testing.T, env map[string]string, line ...string) []string {
	t.Helper()
	got := invoke(t, env, "", append([]string{"__complete"}, line...)...)
	if got.code != 0 {
		t.Errorf("%v: exits %d: %s", line, got.code, got.errs)
	}
	lines := strings.Split(strings.TrimSpace(got.out), "\n")
	return lines[:len(lines)-1] // the last one is for the shell
}

// TestValuesAreCompleted: what a usage lists, what it does not, names, and ids.
func TestValuesAreCompleted(t *testing.T) {
	f := newFake(t, func(r *http.Request) (int, string) {
		word := r.URL.Query().Get("search")
		switch r.URL.Path {
		case "/v1/endpoints":
			if word == "" || strings.HasPrefix("Warehouse", word) || word == "ep_" {
				return 200, `{"data":[{"id":"ep_1","description":"Warehouse"}]}`
			}
		case "/v1/event-types":
			return 200, `{"data":[{"id":"typ_1","name":"invoice.paid"}]}`
		case "/v1/tenants":
			return 200, `{"data":[{"tenant":"acme"}]}`
		case "/v1/policies":
			return 200, `{"data":[{"name":"standard"},{"id":"pol_1","name":"patient"}]}`
		case "/v1/sources":
			return 200, `{"data":[{"id":"src_1","name":"stripe-live"}]}`
		case "/v1/deliveries":
			return 200, `{"data":[{"id":"dlv_1","status":"failed","type":"invoice.paid"}]}`
		case "/v1/dead-letters":
			return 200, `{"data":[{"id":"dlv_2","status":"failed","type":"a.b"}]}`
		}
		return 200, `{"data":[]}`
	})
	env := f.env()
	env["HOME"] = t.TempDir()
	kept := (&cli.World{Lookup: func(name string) (string, bool) { v, ok := env[name]; return v, ok }})
	if all, err := kept.Contexts(); err != nil {
		t.Fatal(err)
	} else if all.All["prod"] = (cli.Context{Server: f.URL}); all.Save() != nil {
		t.Fatal("not saved")
	}
	for line, want := range map[string]string{
		"deliveries list --status ":         "pending held delivered failed dropped discarded skipped",
		"deliveries list --status failed,d": "failed,delivered failed,dropped failed,discarded",
		"-o ":                               "table json jsonl name",
		"endpoints list -o j":               "json jsonl",
		"stats --by t":                      "type tenant",
		"endpoints create --ordering ":      "key none",
		"sources create --scheme str":       "stripe",
		"trigger str":                       "stripe",
		"trigger none a.b --to str":         "stripe-live",
		"trigger none a.b --source str":     "stripe-live",
		"trigger stripe invoice.pa":         "invoice.paid invoice.payment_failed",
		"deliveries list --error-class ti":  "timeout",
		"dlq list --reason-code exh":        "exhausted",
		"keys create --scope publish,re":    "publish,read publish,replay",
		"alerts set endpoint_f":             "endpoint_failing",
		"channels create --severity pa":     "page",
		"endpoints get ":                    "Warehouse",
		"endpoints get W":                   "Warehouse",
		"endpoints get ep_":                 "ep_1",
		"endpoints pause Warehouse W":       "Warehouse",
		"deliveries list --endpoint Ware":   "Warehouse",
		"import s":                          "svix",
		"replay start --type inv":           "invoice.paid",
		"endpoints create --types a.b,inv":  "a.b,invoice.paid",
		"tenants get ":                      "acme",
		"events list --tenant a":            "acme",
		"endpoints create --policy pa":      "patient",
		"deliveries get ":                   "dlv_1",
		"dlq get ":                          "dlv_2",
		"deliveries retry dlv_9 dlv_":       "dlv_1",
		"context use p":                     "prod",
		"events list --context ":            "prod",
		"why Ware":                          "Warehouse",
		"endpoints get Warehouse ":          "",
	} {
		at := strings.LastIndexByte(line, ' ')
		var got []string
		for _, one := range completed(t, env, append(strings.Fields(line[:at]), line[at+1:])...) {
			name, _, _ := strings.Cut(one, "\t")
			got = append(got, name)
		}
		if !slices.Equal(got, strings.Fields(want)) {
			t.Errorf("%q completes to %v, want %s", line, got, want)
		}
	}
	if got := completed(t, f.env(), "deliveries", "get", ""); got[0] != "dlv_1\tfailed invoice.paid" {
		t.Errorf("an id is said to be %q", got[0])
	}
}

// TestNoServerNoNames: without a server, or with one that hangs, a shell gets nothing, soon.
func TestNoServerNoNames(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = silent.Close() }()
	for _, server := range []string{"http://127.0.0.1:1", "http://" + silent.Addr().String(), "nonsense"} {
		began := time.Now()
		if got := completed(t, map[string]string{"GRAPNEL_SERVER": server, "GRAPNEL_KEY": "k"}, "endpoints", "get", "W"); len(got) > 0 {
			t.Errorf("%s: %v", server, got)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s: it took %v", server, took)
		}
	}
}
