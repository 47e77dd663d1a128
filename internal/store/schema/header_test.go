package schema

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestHeadersSayWhatTheirSQLDoes compares the header of each step with the words of its SQL.
func TestHeadersSayWhatTheirSQLDoes(t *testing.T) {
	for _, store := range []string{"sqlite", "postgres"} {
		steps, err := Read(os.DirFS("../" + store))
		if err != nil || len(steps) == 0 {
			t.Fatalf("%s: %d steps, %v", store, len(steps), err)
		}
		for _, s := range steps {
			creates, costs := readOff(s.SQL)
			if !slices.Equal(s.Creates, creates) || s.Number > 1 && !slices.Equal(s.Costs, costs) {
				t.Errorf("%s step %d says\n%sits SQL says\n%s", store, s.Number, headerOf(s.Creates, s.Costs), headerOf(creates, costs))
			}
		}
	}
}

// TestReadOff shows that the comparison sees what matters.
func TestReadOff(t *testing.T) {
	for text, want := range map[string]string{
		"CREATE TABLE b (i); -- UPDATE d SET i = 1\nCREATE INDEX b_i ON b (i);": "-- creates: b\n",
		"CREATE TRIGGER t AFTER INSERT ON a BEGIN UPDATE d SET i = 1; END;":     "",
		"ALTER TABLE a ADD COLUMN j; INSERT INTO b SELECT i FROM a;":            "-- cost: a heavy: reads all of a\n",
		"UPDATE b SET i = 2; DROP TABLE a; ALTER TABLE d ADD COLUMN e, ADD COLUMN f; INSERT INTO b VALUES (1) ON CONFLICT (i) DO UPDATE SET i = 3;": "" +
			"-- cost: a cuts: drops a\n-- cost: b heavy: rewrites rows of b\n-- cost: d: locks d briefly\n",
		"ALTER TABLE a RENAME TO a_first; CREATE TABLE a (i) PARTITION BY RANGE (i); CREATE INDEX a_i ON a (i); ALTER TABLE a ATTACH PARTITION a_first DEFAULT": "" +
			"-- cost: a: locks a briefly to make it a part of a new table of that name\n",
	} {
		if got := headerOf(readOff(text)); got != want {
			t.Errorf("%s\nis said to be\n%swant\n%s", text, got, want)
		}
	}
}

func headerOf(creates []string, costs []Cost) string {
	var b strings.Builder
	if len(creates) > 0 {
		fmt.Fprintf(&b, "-- creates: %s\n", strings.Join(creates, " "))
	}
	for _, c := range costs {
		fmt.Fprintf(&b, "-- cost: %s", c.Table)
		if c.Heavy {
			b.WriteString(" heavy")
		}
		if c.Cuts {
			b.WriteString(" cuts")
		}
		fmt.Fprintf(&b, ": %s\n", c.Does)
	}
	return b.String()
}

var (
	comments = regexp.MustCompile(`--[^\n]*`)
	later    = regexp.MustCompile(`(?is)CREATE TRIGGER.*?\bEND;|\$(\w*)\$.*?\$\w*\$`) // does not run with the step
	splits   = regexp.MustCompile(`(?i)\bALTER\s+TABLE\s+(\w+)\s+ATTACH\s+PARTITION\s+(\w+)`)
	renames  = regexp.MustCompile(`(?i)\bALTER\s+TABLE\s+(\w+)\s+RENAME\s+TO\s+(\w+)`)
	makes    = regexp.MustCompile(`(?i)\bCREATE\s+(?:UNLOGGED\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?(\w+)`)

	// What a statement does to the table that it names, the worst first: only that is said of a
	// table.
	deeds = []struct {
		words       *regexp.Regexp
		does        string
		heavy, cuts bool
	}{
		{regexp.MustCompile(`(?i)\bDROP\s+TABLE\s+(?:IF\s+EXISTS\s+)?(\w+)`), "drops %s", false, true},
		{regexp.MustCompile(`(?i)\bALTER\s+TABLE\s+(\w+)\s[^;]*\b(?:DROP|RENAME)\b`), "drops or renames a part of %s", false, true},
		{regexp.MustCompile(`(?i)\bUPDATE\s+(?:ONLY\s+)?(\w+)\s+SET\b`), "rewrites rows of %s", true, false},
		{regexp.MustCompile(`(?i)\bDELETE\s+FROM\s+(?:ONLY\s+)?(\w+)`), "deletes rows of %s", true, false},
		{regexp.MustCompile(`(?i)\bALTER\s+TABLE\s+(\w+)\s[^;]*\bALTER\s+(?:COLUMN\s+)?\w+\s+(?:SET\s+DATA\s+)?TYPE\b`),
			"rewrites %s; nobody can use it meanwhile", true, true},
		{regexp.MustCompile(`(?i)\bCREATE\s+(?:UNIQUE\s+)?INDEX\s+(?:IF\s+NOT\s+EXISTS\s+)?\w+\s+ON\s+(\w+)`),
			"reads all of %s; nobody can write to it meanwhile", true, false},
		{regexp.MustCompile(`(?i)\bINSERT\s+INTO\s+[^;]*\bSELECT\b[^;]*?\bFROM\s+(\w+)`), "reads all of %s", true, false},
		{regexp.MustCompile(`(?i)\bALTER\s+TABLE\s+(\w+)`), "locks %s briefly", false, false},
	}
)

// readOff reads the tables that a step creates, and what it does to others, off its SQL.
func readOff(sql string) (creates []string, costs []Cost) {
	text := later.ReplaceAllString(comments.ReplaceAllString(sql, ""), "")
	for _, found := range makes.FindAllStringSubmatch(text, -1) {
		creates = append(creates, strings.ToLower(found[1]))
	}
	seen := slices.Clone(creates)
	// A table that is renamed and becomes a part of a new one with its name keeps its rows.
	for _, part := range splits.FindAllStringSubmatch(text, -1) {
		for _, was := range renames.FindAllStringSubmatch(text, -1) {
			if !strings.EqualFold(was[1], part[1]) || !strings.EqualFold(was[2], part[2]) {
				continue
			}
			table := strings.ToLower(was[1])
			seen = append(seen, strings.ToLower(was[2]))
			creates = slices.DeleteFunc(creates, func(c string) bool { return c == table })
			costs = append(costs, Cost{Table: table, Does: "locks " + table + " briefly to make it a part of a new table of that name"})
		}
	}
	for _, d := range deeds {
		for _, found := range d.words.FindAllStringSubmatch(text, -1) {
			if table := strings.ToLower(found[1]); !slices.Contains(seen, table) {
				seen = append(seen, table)
				costs = append(costs, Cost{table, fmt.Sprintf(d.does, table), d.heavy, d.cuts})
			}
		}
	}
	return creates, costs
}
