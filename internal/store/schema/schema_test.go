package schema

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/grapnelhq/grapnel"
)

func files(texts ...string) fstest.MapFS {
	names := []string{"migrations/0001_first.sql", "migrations/0002_second_one.sql", "migrations/0003_third.sql"}
	all := fstest.MapFS{}
	for i, text := range texts {
		all[names[i]] = &fstest.MapFile{Data: []byte(text)}
	}
	return all
}

func TestRead(t *testing.T) {
	steps, err := Read(files("-- What is\n-- here. And more.\nCREATE TABLE a (i);", "CREATE TABLE b (i)"))
	if err != nil || len(steps) != 2 || steps[0].About != "What is here" || steps[1].Name != "second_one" || steps[1].About != "" {
		t.Fatalf("%+v, %v", steps, err)
	}
	gap := files("", "", "")
	delete(gap, "migrations/0002_second_one.sql")
	if _, err := Read(gap); err == nil {
		t.Error("a missing step is not noticed")
	}
}

func TestHeaders(t *testing.T) {
	steps, err := Read(files("-- creates: a b\n-- creates: c\n-- cost: d heavy cuts: drops d: all of it\n-- What is here. More.\n-- cost: e: no header\n"))
	if err != nil {
		t.Fatal(err)
	}
	if s := steps[0]; s.About != "What is here" || !slices.Equal(s.Creates, []string{"a", "b", "c"}) ||
		!slices.Equal(s.Costs, []Cost{{Table: "d", Does: "drops d: all of it", Heavy: true, Cuts: true}}) {
		t.Errorf("%+v", s)
	}
	for _, text := range []string{"-- cost: a big: grows", "-- cost: a heavy", "-- cost: : grows", "-- cost: a: "} {
		if _, err := Read(files(text)); err == nil || !strings.Contains(err.Error(), "0001_first.sql") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestPlan(t *testing.T) {
	steps, err := Read(files(
		"-- creates: a d\n",
		"-- creates: b\n-- cost: a heavy: reads all of a\n",
		"-- cost: a cuts: drops a\n-- cost: b heavy: rewrites rows of b\n-- cost: d: locks d briefly\n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		has  int
		want []Planned
	}{
		{0, []Planned{{}, {}, {}}}, // every table is empty
		{1, []Planned{{Does: []string{"reads all of a"}, Heavy: true}, {Does: []string{"drops a", "locks d briefly"}, Cuts: true}}},
		{2, []Planned{{Does: []string{"drops a", "rewrites rows of b", "locks d briefly"}, Heavy: true, Cuts: true}}},
		{3, nil},
	} {
		got, err := Plan("here", taken(steps[:c.has]), steps)
		if err != nil || got.Has != c.has || got.Knows != 3 || got.Place != "here" || len(got.Steps) != len(c.want) {
			t.Fatalf("of %d: %+v, %v", c.has, got, err)
		}
		for i, want := range c.want {
			if p := got.Steps[i]; p.Number != c.has+i+1 || !slices.Equal(p.Does, want.Does) || p.Heavy != want.Heavy || p.Cuts != want.Cuts {
				t.Errorf("of %d, step %d: %q heavy %v cuts %v", c.has, p.Number, p.Does, p.Heavy, p.Cuts)
			}
		}
	}
	all := taken(steps)
	for want, has := range map[string][]Taken{
		"newer Grapnel: its schema is number 4": append(slices.Clone(all), Taken{Number: 4}),
		"newer Grapnel: its schema is number 9": append(slices.Clone(all), Taken{Number: 9}),
		"written by an unreleased build of Grapnel, whose schema this program (" + grapnel.Version + ") does not know: start with an empty": {
			all[0], {Number: 2, Name: "second_one", Sum: "x"}},
		"written by an unreleased build": {{Number: 1}, {Number: 2}, {Number: 3}, {Number: 4}},
		"unreleased build of Grapnel":    {all[0], all[2]}, // a gap
	} {
		if _, err := Plan("here", has, steps); grapnel.CodeOf(err) != grapnel.CodeConflict || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", has, err, want)
		}
	}
}

func taken(steps []Step) (all []Taken) {
	for _, s := range steps {
		all = append(all, Taken{s.Number, s.Name, s.Sum})
	}
	return all
}

// TestHeadersAreNotFrozen: the costs of a step may be said better later; the rest of its text may
// not change.
func TestHeadersAreNotFrozen(t *testing.T) {
	one := sum("-- creates: a\n-- What is here.\nCREATE TABLE a (i);")
	if sum("-- creates: a\n-- cost: d: locks d\n-- What is here.\nCREATE TABLE a (i);") != one {
		t.Error("a header has a part in the checksum")
	}
	if sum("-- creates: a\n-- What is there.\nCREATE TABLE a (i);") == one {
		t.Error("the text has no part in the checksum")
	}
}
