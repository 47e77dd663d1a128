package sqlite

import (
	"fmt"

	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// repair is for databases that took a step while its file had another text: while Grapnel was being
// made, steps 3, 5 and 7 were changed after databases had taken them. A query on its
// schema or rows recognizes such a database. A repair gives it the form that the step gives today.
//
// Nothing is ever added here: a step that was released is not changed (package schema holds the
// checksums).
type repair struct {
	step  int
	found string // says 1 if the database has the step in its earlier form
	sql   string
}

var repairs = []repair{
	// The ledger counted all deliveries ever created, for all targets together.
	{3, "SELECT count(*) FROM pragma_table_info('ledger') WHERE name = 'made'", `
		ALTER TABLE tally ADD COLUMN made INTEGER NOT NULL DEFAULT 0;
		ALTER TABLE tally ADD COLUMN hour INTEGER;
		ALTER TABLE tally ADD COLUMN totals BLOB;
		INSERT INTO tally (target, tenant, status, n, made) SELECT target, tenant, 1, 0, sum(n) FROM tally WHERE true GROUP BY target, tenant
			ON CONFLICT (target, tenant, status) DO UPDATE SET made = excluded.made;
		ALTER TABLE ledger DROP COLUMN made;
		UPDATE ledger SET purged = 0;`},
	// Which outcomes ever occurred at a target was not noted.
	{5, "SELECT count(*) = 0 FROM sqlite_schema WHERE name = 'target_outcome'", `
		CREATE TABLE target_outcome (outcome INTEGER NOT NULL, target INTEGER NOT NULL, PRIMARY KEY (outcome, target)) WITHOUT ROWID;
		INSERT INTO target_outcome SELECT DISTINCT -1, target FROM tally UNION SELECT outcome, target FROM finished WHERE status = 3;`},
	// Nor in which blocks a source occurs.
	{7, "SELECT count(*) = 0 FROM sqlite_schema WHERE name = 'source_block'", `
		CREATE TABLE source_block (source TEXT NOT NULL, block INTEGER NOT NULL, PRIMARY KEY (source, block)) WITHOUT ROWID;
		INSERT INTO source_block SELECT DISTINCT k.source, e.seq >> 12 FROM event e JOIN kind k ON k.number = e.kind WHERE k.source <> '';`},
}

// wanting are the repairs that a database needs which has taken some of the steps.
func wanting(conn *sqlite3.Conn, has int) (all []repair, err error) {
	for _, r := range repairs {
		if r.step > has {
			continue
		}
		found, err := one(conn, r.found)
		if err != nil {
			return nil, fmt.Errorf("looking at step %d: %w", r.step, err)
		}
		if found == 1 {
			all = append(all, r)
		}
	}
	return all, nil
}
