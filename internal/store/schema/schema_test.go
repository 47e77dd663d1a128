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

func TestPlan(t *testing.T) {
	steps, err := Read(files(
		"CREATE TABLE a (i); CREATE TABLE d (i);",
		`CREATE TABLE b (i); -- UPDATE d SET i = 1
		 CREATE INDEX b_i ON b (i);
		 CREATE TRIGGER t AFTER INSERT ON a BEGIN UPDATE d SET i = 1; END;
		 ALTER TABLE a ADD COLUMN j;
		 INSERT INTO b SELECT i FROM a;`,
		`UPDATE b SET i = 2; DROP TABLE a; ALTER TABLE d ADD COLUMN e, ADD COLUMN f;
		 INSERT INTO b VALUES (1) ON CONFLICT (i) DO UPDATE SET i = 3;`))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		has  int
		want []Planned
	}{
		{0, []Planned{{}, {}, {}}}, // there is nothing that could take long
		{1, []Planned{{Does: []string{"reads all of a"}, Heavy: true}, {Does: []string{"takes a away", "changes d, which has to be free for a moment"}, Cuts: true}}},
		{2, []Planned{{Does: []string{"takes a away", "rewrites rows of b", "changes d, which has to be free for a moment"}, Heavy: true, Cuts: true}}},
		{3, nil},
	} {
		got, err := Plan("here", c.has, steps)
		if err != nil || got.Has != c.has || got.Knows != 3 || got.Place != "here" || len(got.Steps) != len(c.want) {
			t.Fatalf("of %d: %+v, %v", c.has, got, err)
		}
		for i, want := range c.want {
			if p := got.Steps[i]; p.Number != c.has+i+1 || !slices.Equal(p.Does, want.Does) || p.Heavy != want.Heavy || p.Cuts != want.Cuts {
				t.Errorf("of %d, step %d: %q heavy %v cuts %v", c.has, p.Number, p.Does, p.Heavy, p.Cuts)
			}
		}
	}
	parts, err := Read(files("CREATE TABLE a (i);",
		"ALTER TABLE a RENAME TO a_first; CREATE TABLE a (i) PARTITION BY RANGE (i); CREATE INDEX a_i ON a (i); ALTER TABLE a ATTACH PARTITION a_first DEFAULT",
		"UPDATE a SET i = 2"))
	if err != nil {
		t.Fatal(err)
	}
	found, err := Plan("here", 1, parts)
	if err != nil || len(found.Steps) != 2 {
		t.Fatalf("of parts: %+v, %v", found, err)
	}
	if p := found.Steps[0]; p.Heavy || p.Cuts || len(p.Does) != 1 || !strings.Contains(p.Does[0], "makes a a part of a new table") {
		t.Errorf("a table that becomes a part: %+v", p)
	}
	if p := found.Steps[1]; !p.Heavy {
		t.Errorf("what comes after that: %+v", p)
	}
	if _, err := Plan("here", 4, steps); grapnel.CodeOf(err) != grapnel.CodeConflict || !strings.Contains(err.Error(), "newer Grapnel") {
		t.Errorf("a newer schema: %v", err)
	}
}
