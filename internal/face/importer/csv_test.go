package importer_test

import (
	"encoding/csv"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/grapnelhq/grapnel/internal/base/bounds"
	"github.com/grapnelhq/grapnel/internal/base/rapidtest"
	"github.com/grapnelhq/grapnel/internal/face/importer"
)

func readCSV(text string) (*importer.Found, error) {
	return importer.CSV(strings.NewReader(text), importer.Bounds{})
}

// TestCSVIsImportedOnce: every column, and rows that are found again by their id or their URL.
func TestCSVIsImportedOnce(t *testing.T) {
	t.Parallel()
	h := newHere(t)
	text := "\ufeffurl,tenant,id,types,secret,description,filter,status,rate,format,header.X-Team,label.team\n" +
		"http://127.0.0.1:9/1,acme,a-1,\"invoice.*, order.made\"," + secret(1) + ",first,event.data.amount > 5,paused,2.5,raw,{event.id},billing\n" +
		"http://127.0.0.1:9/2,,,,,,,,,,,\n"
	found, err := readCSV(text)
	if err != nil {
		t.Fatal(err)
	}
	plan := h.imports(found)
	h.wants(plan, "create a-1", "create url-")
	e := h.endpoint("csv.id=a-1")
	if e.Tenant != "acme" || !slices.Equal(e.EventTypes, []string{"invoice.*", "order.made"}) || e.Description != "first" || e.Status != "paused" ||
		e.RateLimit.PerSecond != 2.5 || e.Format != "raw" || e.Headers["X-Team"] != "{event.id}" || e.Labels["team"] != "billing" ||
		h.secretOf(e) != secret(1) {
		t.Errorf("the endpoint is %+v", e.NewEndpoint)
	}
	h.wants(h.imports(found), "same a-1", "same url-")
	found, err = readCSV(strings.Replace(text, ",first,", ",second,", 1))
	if err != nil {
		t.Fatal(err)
	}
	h.wants(h.imports(found), "change a-1 description", "same url-")
}

// cell is a value of a column, and whether it is at fault.
type cell struct {
	text string
	bad  bool
}

// cells are values of each column. A bad one contains "hidden", which no fault may repeat.
var cells = map[string][]cell{
	"url":    {{"https://example.com/a", false}, {"http://h:1/x?y=\"z\"", false}, {"hidden", true}, {"ftp://hidden/", true}, {"https://hidden/#x", true}},
	"tenant": {{"", false}, {"acme", false}, {"a hidden one", true}, {strings.Repeat("hidden", 20), true}},
	"types": {{"", false}, {"invoice.*", false}, {"a.b;c.d e.f", false}, {"hidden..", true}, {"hidden.*x", true},
		{strings.Repeat("hidden,", 101), true}},
	"secret": {{"", false}, {secret(1), false}, {"hidden", true}, {"whsec_hidden", true},
		{"whsec_" + strings.Repeat("A", 400) + "hidden", true}},
	"description": {{"", false}, {"two\nlines, \"quoted\"", false}, {strings.Repeat("hidden", 200), true}},
	"filter":      {{"", false}, {"event.data.n == 1", false}, {"hidden", true}, {"event.(hidden", true}},
	"status":      {{"", false}, {"paused", false}, {"hidden", true}},
	"rate":        {{"", false}, {"0.5", false}, {"0", true}, {"NaN", true}, {"1e99", true}, {"hidden", true}},
	"format":      {{"", false}, {"raw", false}, {"hidden", true}},
	"header.X-A":  {{"", false}, {"{event.id}", false}, {"{hidden}", true}, {"a\x01hidden", true}},
	"header.Host": {{"", false}, {"hidden", true}},
	"label.team":  {{"", false}, {"b", false}, {strings.Repeat("hidden", 50), true}},
}

// TestEveryFaultOfAFileIsNamed: a file has exactly the faults that were put into it, each with its
// line and column; with any, no endpoint is returned; and no fault repeats a cell.
func TestEveryFaultOfAFileIsNamed(t *testing.T) {
	t.Parallel()
	columns := []string{"url"}
	for name := range cells {
		if name != "url" {
			columns = append(columns, name)
		}
	}
	slices.Sort(columns[1:])
	rapidtest.Check(t, func(t *rapid.T) {
		head := rapid.Permutation(columns).Draw(t, "columns")
		var text strings.Builder
		w := csv.NewWriter(&text)
		put := func(row []string) {
			_ = w.Write(row)
			w.Flush()
		}
		put(append(slices.Clone(head), "id"))
		var want []string
		rows := rapid.IntRange(0, 6).Draw(t, "rows")
		for n := range rows {
			line := 1 + strings.Count(text.String(), "\n")
			var row []string
			var at []string
			for _, name := range head {
				one := rapid.SampledFrom(cells[name]).Draw(t, name)
				// The place of a cell: behind the text of the row that is before it.
				var before strings.Builder
				part := csv.NewWriter(&before)
				_ = part.Write(append(slices.Clone(row), ""))
				part.Flush()
				prefix := strings.TrimSuffix(before.String(), "\n")
				if len(row) == 0 {
					prefix = ""
				}
				if one.bad {
					down := strings.Count(prefix, "\n")
					column := len(prefix) - (strings.LastIndexByte(prefix, '\n') + 1) + 1
					at = append(at, fmt.Sprintf("line %d, column %d (%s): ", line+down, column, name))
				}
				row = append(row, one.text)
			}
			put(append(row, fmt.Sprintf("id-%d", n)))
			want = append(want, at...)
		}
		found, err := readCSV(text.String())
		if len(want) == 0 {
			if err != nil || len(found.Wants) != rows {
				t.Fatalf("%v", err)
			}
			return
		}
		var got []string
		for _, one := range importer.Faults(err) {
			if strings.Contains(one.Error(), "hidden") {
				t.Errorf("a fault repeats a cell: %v", one)
			}
			got = append(got, one.Error())
		}
		slices.Sort(got)
		slices.Sort(want)
		if found != nil || !slices.EqualFunc(got, want, strings.HasPrefix) {
			t.Fatalf("%s\nhas the faults\n%s\nnot\n%s", text.String(), strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	})
}

// TestFaultsOfTheFormOfAFile: heads, rows of another length, quotes, and rows that are twice there.
func TestFaultsOfTheFormOfAFile(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                       "line 1, column 1: the file is empty",
		"tenant\nx\n":                            "line 1, column 1: the column url is missing",
		"url,colour,url\n":                       "line 1, column 5: unknown column; line 1, column 12: the column is there twice",
		"url,header.,label.a b\n":                "line 1, column 5: unknown column; line 1, column 13: unknown column",
		"url,label.csv.mark\n":                   "line 1, column 5: unknown column",
		"url,id\nhttp://h/\nhttp://h/,1,2,3\n":   "line 2, column 1 (url): the row has 1 cells; line 3, column 11 (id): the row has 4 cells",
		"url,id\nhttp://h/,a b\nhttp://\"h/,1\n": "line 2, column 11 (id): must be 1 to 64; line 3, column 8: bare",
		"url,id\nhttp://h/,1\n\nhttp://i/,1\n":   "line 4, column 11 (id): line 2 has the same tenant and id",
		"url\nhttp://h/\nhttp://h/\n":            "line 3, column 1 (url): line 2 has the same tenant and url",
	} {
		_, err := readCSV(text)
		var got []string
		for _, one := range importer.Faults(err) {
			got = append(got, one.Error())
		}
		if !slices.EqualFunc(got, strings.Split(want, "; "), strings.HasPrefix) {
			t.Errorf("%q: %s", text, strings.Join(got, "; "))
		}
	}
	for seed := range uint64(5) {
		b := bounds.Tiny[importer.Bounds](seed)
		_, err := importer.CSV(strings.NewReader("url\n"+strings.Repeat("http://h/\n", 20_000)), b)
		if err == nil || !strings.Contains(err.Error(), "has more than") {
			t.Errorf("seed %d: %v", seed, err)
		}
	}
}
