package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/grapnelhq/grapnel/client"
	"github.com/grapnelhq/grapnel/internal/face/words"
)

// TestStatsPrintWhatTheServerAnswers: every figure of both tables stands in the column of its name.
// Each field of the answer has another number, so a figure in a wrong column is seen.
func TestStatsPrintWhatTheServerAnswers(t *testing.T) {
	next := int64(900) // it goes down, because fewer first attempts succeed than are made
	fill := func(v reflect.Value) {
		for _, field := range v.Fields() {
			if field.CanSet() && field.Kind() == reflect.Int64 {
				next--
				field.SetInt(next)
			}
		}
	}
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	buckets, groups := client.Stats{From: at, To: at.Add(time.Hour), Bucket: "hour"}, client.Stats{From: at, To: at.Add(time.Hour), By: "hour"}
	pending := int64(99)
	groups.Pending, groups.All = &pending, new(client.Figures)
	bucket, group := client.Bucket{At: at}, client.Group{Name: at.Format(time.RFC3339)}
	for _, totals := range []*client.Totals{&buckets.Totals, &bucket.Totals, &group.Totals, &groups.All.Totals} {
		fill(reflect.ValueOf(totals).Elem())
	}
	for _, f := range []*client.Figures{&group.Figures, groups.All} {
		next--
		f.Duplicates, f.FirstAttemptSuccessRate = next, f.FirstAttemptRate()
	}
	buckets.Data, groups.Groups = []client.Bucket{bucket}, []client.Group{group}
	answered := func(stats *client.Stats) map[string]string {
		text, err := json.Marshal(stats)
		if err != nil {
			t.Fatal(err)
		}
		server := newFake(t, always(http.StatusOK, string(text)))
		got := invoke(t, map[string]string{"GRAPNEL_SERVER": server.URL, "GRAPNEL_KEY": "k"}, "", strings.Fields("stats --by="+stats.By)...)
		cells := map[string]string{"": got.out}
		var head [][]int // where the columns begin and end
		var names string
		for line := range strings.Lines(got.out) {
			if head == nil {
				names, head = line, regexp.MustCompile(`\S+( \S+)*`).FindAllStringIndex(line, -1)
				continue
			}
			for i, at := range head {
				end := len(line)
				if i+1 < len(head) {
					end = min(head[i+1][0], end)
				}
				cells[strings.Fields(line)[0]+" "+names[at[0]:at[1]]] = strings.TrimSpace(line[min(at[0], end):end])
			}
		}
		return cells
	}
	for name, c := range map[string]struct {
		cells map[string]string
		rows  map[string]*client.Totals
		dead  string
	}{
		"by time":  {answered(&buckets), map[string]*client.Totals{group.Name: &bucket.Totals, "total": &buckets.Totals}, "FAILED"},
		"by group": {answered(&groups), map[string]*client.Totals{group.Name: &group.Totals, "total": &groups.All.Totals}, "DEAD"},
	} {
		for row, f := range c.rows {
			for column, want := range map[string]any{"DELIVERED": f.Delivered, c.dead: f.Failed, "OF": f.FirstAttempts, "ERRORS": f.FailedAttempts,
				"FIRST TRY": fmt.Sprintf("%.1f%%", 100*float64(f.FirstAttemptSuccess)/float64(f.FirstAttempts))} {
				if got := c.cells[row+" "+column]; strings.ReplaceAll(got, ",", "") != fmt.Sprint(want) {
					t.Errorf("%s, %s, %s is %q, want %v\n%s", name, row, column, got, want, c.cells[""])
				}
			}
		}
		for _, column := range []string{"DROPPED", "DISCARDED", "SKIPPED", "RETRIED", "ATTEMPTS"} {
			field := reflect.ValueOf(c.rows["total"]).Elem().FieldByName(column[:1] + strings.ToLower(column[1:]))
			if got := c.cells["total "+column]; name == "by time" && got != fmt.Sprint(field.Int()) {
				t.Errorf("%s is %q, want %v\n%s", column, got, field.Int(), c.cells[""])
			}
		}
	}
	if out := answered(&groups)[""]; !strings.Contains(out, "99 pending now, "+words.FailedAttempts(&groups.All.Totals)) {
		t.Errorf("the sentence is not of the totals:\n%s", out)
	}
}

// TestFirstTriesOfBothTablesAgree: with --by and without, they are of the first attempts, and
// these stand beside them.
func TestFirstTriesOfBothTablesAgree(t *testing.T) {
	rate := 0.6
	f := client.Figures{FirstAttemptSuccessRate: &rate,
		Totals: client.Totals{Delivered: 6, FirstAttempts: 10, FirstAttemptSuccess: 6, Discarded: 94}}
	one, other := statsRow("total", &f.Totals)[7:9], groupRow("total", &f)[3:5]
	if !slices.Equal(one, other) || !slices.Equal(one, []string{"60.0%", "10"}) {
		t.Errorf("%s without --by, %s with it", one, other)
	}
}

// TestOnlyAllIsAHundredPercent: as on the dashboard; and only none is 0 %.
func TestOnlyAllIsAHundredPercent(t *testing.T) {
	for first, want := range map[int64]string{10_000: "100.0%", 9999: "99.9%", 1: "0.1%", 0: "0.0%"} {
		rate := float64(first) / 10_000
		f := client.Figures{FirstAttemptSuccessRate: &rate, RetryRate: &rate,
			Totals: client.Totals{FirstAttempts: 10_000, FirstAttemptSuccess: first}}
		if one, others := statsRow("total", &f.Totals)[7], groupRow("total", &f)[3:6]; one != want || others[0] != want || others[2] != want {
			t.Errorf("%d: %s without --by, %s with it, want %s", first, one, others, want)
		}
	}
}
