//go:build linux

package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/internal/face/web"
)

// TestEveryPageOfAFilledStore: the generator fills a store that the real server takes, every row of
// the dashboard's pages answers with it, and no page is too large; names that are typed in chromium
// lead to pages. How long they take is not held here.
func TestEveryPageOfAFilledStore(t *testing.T) {
	t.Parallel()
	d := &dashboard{times: 1, within: time.Hour, page: 60 << 10, asset: 50 << 10}
	d.n, d.world.endpoints, d.weeks, d.seed, d.rounds, d.workers, d.dir = 20_000, 80, 8, 1, 1, 1, t.TempDir()
	var out bytes.Buffer
	missed, err := d.run(t.Context(), &out)
	if err != nil || len(missed) > 0 {
		t.Fatalf("%v, %s\n%s", err, strings.Join(missed, "; "), out.String())
	}
	for _, pattern := range web.Paths() {
		path, page := strings.CutPrefix(pattern, "GET ")
		path, _, _ = strings.Cut(path, "{")
		if page && !strings.Contains(out.String(), "\n"+path) {
			t.Errorf("%s was not asked:\n%s", pattern, out.String())
		}
	}
	out.Reset()
	d.typing, d.only = true, "palette"
	if missed, err := d.run(t.Context(), &out); err != nil || len(missed) > 0 || strings.Count(out.String(), "\npalette ") != 5 {
		t.Errorf("%v, %s\n%s", err, strings.Join(missed, "; "), out.String())
	}
}

// TestBacklogsAreRepeated: the same seed gives the same backlog, and another seed another one.
func TestBacklogsAreRepeated(t *testing.T) {
	at := []placedEndpoint{{"ep_1", "a"}, {"ep_2", "b"}, {"ep_3", "a"}, {"ep_4", "a"}}
	all := func(seed int) (text string) {
		p := &backlog{endpoints: at, n: 1000, seed: seed, busy: 4, wide: 16, from: time.Unix(0, 0), to: time.Unix(1e6, 0)}
		for i := range 500 {
			in := p.incoming(i)
			text += fmt.Sprint(in.Event.Type, in.Event.Key, in.Event.AcceptedAt, in.Targets, *p.fateOf(i))
			for _, target := range in.Targets {
				if strings.Contains("ep_2", target.Endpoint) != (in.Event.Tenant == "b") {
					t.Fatalf("event %d of %s goes to %s", i, in.Event.Tenant, target.Endpoint)
				}
			}
		}
		return text
	}
	if one := all(1); one != all(1) || one == all(2) {
		t.Error("the seed does not decide what a backlog is")
	}
}

func TestPartsOfTheAnswers(t *testing.T) {
	var r answers
	for i := range 20 {
		r.took = append(r.took, float64(i+1))
	}
	for p, want := range map[int]float64{0: 1, 5: 1, 50: 10, 95: 19, 96: 20, 100: 20} {
		if got := r.part(p); got != want {
			t.Errorf("%d percent of 20 answers take up to %v, want %v", p, got, want)
		}
	}
}
