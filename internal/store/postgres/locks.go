package postgres

import "strings"

// Advisory locks, held for a transaction. The first number is the same for all of Grapnel's, so
// that they meet no others.
const (
	lockClass         = 0x6772706e // "grpn"
	lockConfiguration = 1          // shared by writes that were matched against the configuration, exclusive for changes of it
	lockRemoval       = 2          // shared by writes that refer to finished deliveries, exclusive for their removal
	lockMigration     = 3
	lockDays          = 4 // for creating or removing tables of days; taken before the others
	lockTotals        = 5 // for deleting totals, and for merging them, which deletes and adds them
)

// planned is set for a transaction that writes. Plans are made once per connection, often while
// tables are empty and a sequential scan is free, and stay when the tables have grown. So such
// scans are ruled out, with the joins that build on them.
const planned = "set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true), " +
	"set_config('enable_mergejoin', 'off', true)"

// plannedOnce sets the same for all transactions of a connection, and keeps one plan for each
// statement. Without that, PostgreSQL plans those of lanes and numbers again at each call: it
// expects ten elements of an array whose length it does not know, so a plan for one seems cheaper.
var plannedOnce = "SET plan_cache_mode = force_generic_plan; SELECT " + strings.ReplaceAll(planned, "true", "false") + "; "

// Locks.
const (
	beginShared  = "SELECT " + planned + ", pg_advisory_xact_lock_shared($1::int, $2::int)"
	shareLock    = "SELECT pg_advisory_xact_lock_shared($1::int, $2::int)"
	aloneLock    = "SELECT pg_advisory_xact_lock($1::int, $2::int)"
	lanesLock    = "SELECT FROM lane WHERE number IN (SELECT lane FROM pending WHERE seq = ANY($1) AND lane <> 0) ORDER BY target, key FOR UPDATE"
	loneLock     = "SELECT FROM pending WHERE seq = ANY($1) AND lane = 0 ORDER BY seq FOR UPDATE"
	positionsSQL = `INSERT INTO lane AS l (target, key, last)
		SELECT target, key, sum(n) FROM (
			SELECT * FROM unnest($1::int[], $2::text[], $3::bigint[]) u(target, key, n)
			UNION ALL SELECT target, key, 0 FROM lane WHERE number IN (SELECT lane FROM pending WHERE seq = ANY($4) AND lane <> 0)
		) w GROUP BY target, key ORDER BY target, key COLLATE "C"
		ON CONFLICT (target, key) DO UPDATE SET last = l.last + excluded.last WHERE excluded.last > 0
		RETURNING number, target, key, last`
)

// clockSQL is the time of the database.
const clockSQL = "SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint"
