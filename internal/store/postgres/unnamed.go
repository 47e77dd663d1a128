package postgres

import (
	"context"
	"fmt"
)

// lostNames counts the rows that name kind 0 or target 0. A program up to schema 6 could write them
// when a node had seen more than 65,536 names. Each part reads an index: the deliveries of an event
// of kind 0 are of kind 0 as well, so they are found by their event.
const lostNames = `SELECT (SELECT count(*) FROM event WHERE kind <= 0),
	(SELECT count(*) FROM event e CROSS JOIN LATERAL (SELECT FROM pending WHERE seq BETWEEN e.first AND e.last AND event = e.seq OFFSET 0) p WHERE e.kind <= 0),
	(SELECT count(*) FROM event e CROSS JOIN LATERAL (SELECT FROM finished WHERE seq BETWEEN e.first AND e.last AND event = e.seq OFFSET 0) f WHERE e.kind <= 0),
	(SELECT count(*) FROM pending WHERE target <= 0), (SELECT count(*) FROM finished WHERE target <= 0), (SELECT count(*) FROM lane WHERE target <= 0)`

// unnamed returns the number of such rows and advice for the operator. They are not deleted: an
// event's data can be rescued.
func unnamed(ctx context.Context, db queries) (problems []string, err error) {
	var events, pending, finished, sent, done, lanes int64
	if err := db.QueryRow(ctx, lostNames).Scan(&events, &pending, &finished, &sent, &done, &lanes); err != nil {
		return nil, err
	}
	if events > 0 {
		problems = append(problems, fmt.Sprintf(
			"%d events name kind 0: their tenant, type and source are lost, and no query finds them or their deliveries "+
				"(%d pending, %d finished). Read their data with SELECT seq, id, accepted, key, content_type, packed, data FROM event WHERE kind <= 0 "+
				"(packed 1: zstd), and publish it again under new ids.", events, pending, finished))
	}
	if sent+done+lanes > 0 {
		problems = append(problems, fmt.Sprintf(
			"%d pending and %d finished deliveries and %d lanes name target 0: their endpoint is lost, and no server attempts them. "+
				"Find their events with SELECT id FROM event WHERE seq IN (SELECT event FROM pending WHERE target <= 0), and publish those again under new ids.",
			sent, done, lanes))
	}
	return problems, nil
}
