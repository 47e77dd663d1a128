package main

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// TestAllPages: --all follows the cursor to the end of a list, or to --limit, in every form.
func TestAllPages(t *testing.T) {
	const has = 1203
	f := newFake(t, func(r *http.Request) (int, string) {
		from, _ := strconv.Atoi(r.URL.Query().Get("cursor"))
		limit, _ := strconv.Atoi(r.URL.Query().Get("limit"))
		var rows []string
		for n := from; n < min(from+limit, has); n++ {
			rows = append(rows, fmt.Sprintf(`{"id":"evt_%d"}`, n))
		}
		next := "null"
		if from+limit < has {
			next = strconv.Quote(strconv.Itoa(from + limit))
		}
		return 200, `{"data":[` + strings.Join(rows, ",") + `],"next":` + next + `}`
	})
	for args, want := range map[string]struct{ rows, requests int }{
		"--all -o name": {1203, 3}, "--all -o jsonl": {1203, 3}, "--all --jq .data[].id": {1203, 3}, "--all --limit 600 -o name": {600, 2},
		"--all --cursor 1000 -o name": {203, 1}, "-o name": {50, 1}, "--all": {1204, 3},
	} {
		f.seen = nil
		got := invoke(t, f.env(), "", append([]string{"events", "list"}, strings.Fields(args)...)...)
		if rows := strings.Count(got.out, "\n"); got.code != 0 || rows != want.rows || len(f.seen) != want.requests {
			t.Errorf("%s: %d rows by %d requests, exits %d: %s", args, rows, len(f.seen), got.code, got.errs)
		}
	}
	got := invoke(t, f.env(), "", "events", "list", "--all", "--limit", "600", "--jq", ".next")
	if got.out != "600\n" {
		t.Errorf("the rest begins at %q", got.out)
	}
}
