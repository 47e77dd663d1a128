package postgres

import "context"

// locksOfDay is the number of locks that a read takes for each day if it may look into all: of the
// tables of events and finished deliveries, and of their indexes.
const locksOfDay = 9

// locksQuery returns the size of the server's table of locks, as locks of each of a number of
// transactions, and the number of nodes.
const locksQuery = `SELECT current_setting('max_locks_per_transaction')::int, current_setting('max_connections')::int
	+ current_setting('max_prepared_transactions')::int, (SELECT greatest(count(*), 1) FROM node
		WHERE seen > clock_timestamp() - interval '1 hour')`

// countLocks warns if the table of locks has no space for the reads that all nodes may make at
// once. Then writes fail as well as reads. The table has space for two holders of each lock.
func (s *keeper) countLocks(ctx context.Context, days int) error {
	var each, transactions, nodes int
	err := s.chores.QueryRow(ctx, locksQuery).Scan(&each, &transactions, &nodes)
	if need := days * locksOfDay * s.bounds.Conns.Reads * nodes; err == nil && need > 2*each*transactions {
		s.log.Warn("max_locks_per_transaction of the database is too small for its stored days; reads at the same time may fail with "+
			"\"out of shared memory\", and writes beside them", "max_locks_per_transaction", each, "days", days,
			"least", (need-1)/(2*transactions)+1)
	}
	return err
}
