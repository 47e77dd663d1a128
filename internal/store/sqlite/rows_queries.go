package sqlite

// metQuery begins with the id, because a tenant may have many kinds (CROSS JOIN keeps the order).
const metQuery = `SELECT e.seq, e.accepted, e.made, k.type, e.key, e.packed, e.data
	FROM event e CROSS JOIN kind k ON k.number = e.kind WHERE e.id = ? AND k.tenant = ?`

const (
	// leaseColumns are the columns of readLease.
	leaseColumns = `token, target, consumer, seq, event, attempts, "trigger", scheduled, granted, due, created, anchor`
	leaseQuery   = "SELECT " + leaseColumns + " FROM pending WHERE token = ?"
	leaseOfQuery = "SELECT " + leaseColumns + ", t.endpoint FROM pending JOIN target t ON t.number = target WHERE token = ?"
	leasesQuery  = "SELECT " + leaseColumns + " FROM pending WHERE target = ? AND token IS NOT NULL ORDER BY due, seq"
	// Claim's statements have no bound LIMIT: SQLite would compile the statement again each time,
	// which takes three times as long as running it.
	runOutQuery = "SELECT " + leaseColumns + ` FROM pending WHERE target = ? AND token IS NOT NULL AND due <= ?
		ORDER BY due, seq`
	claimableQuery = `SELECT seq, event, lane, position, due, blocked, attempts, anchor, "trigger", created FROM pending
		WHERE head = 1 AND target = ? AND due IS NOT NULL ORDER BY due, seq`
	// holdersQuery reads all leased deliveries, once after the start and after each failed
	// transaction.
	holdersQuery = "SELECT target, consumer FROM pending WHERE token IS NOT NULL AND target > 0"
)

// replayColumns are the columns of readReplay.
const (
	replayColumns = `r.number, r.revision, r.body, p.up_to, p.cursor, p.started, p.done, p.delivered, p.failed, p.run
		FROM replay r JOIN replay_progress p ON p.replay = r.number `
	replayQuery      = "SELECT " + replayColumns + "WHERE r.id = ?"
	replayItemsQuery = "SELECT original, created, made, at, status FROM replay_item WHERE replay = ? AND original > ? ORDER BY original LIMIT ?"
)

const answerQuery = "SELECT fingerprint, status, body FROM answer WHERE key = ? AND expires > ?"

const (
	knownColumns = "k.seq, k.sum, k.until, k.accepted, k.made, k.event"
	knownQuery   = "SELECT " + knownColumns + " FROM known k WHERE k.seq = ? AND k.key = ?"
	indexedQuery = "SELECT " + knownColumns + " FROM known_key i JOIN known k ON k.seq = i.seq WHERE i.prefix = ? AND k.key = ?"
)

const (
	targetQuery  = "SELECT number FROM target WHERE endpoint = ?"
	waitingQuery = "SELECT ifnull(sum(n), 0) FROM tally WHERE target = ? AND status = 1"
	oldestQuery  = "SELECT seq FROM pending WHERE seq > ? AND target = ? ORDER BY seq LIMIT ?"
)

const (
	readPageQuery  = "SELECT data FROM sqlite_dbpage WHERE pgno = ?"
	pagesQuery     = "PRAGMA page_count"
	writePageQuery = "UPDATE sqlite_dbpage SET data = ? WHERE pgno = ?"
)

const (
	documentQuery       = "SELECT tenant, id, revision, at, body FROM document WHERE tenant = ? AND kind = ? AND id = ?"
	clearDocumentsQuery = "DELETE FROM document WHERE rowid IN (SELECT rowid FROM document WHERE kind = ? AND at < ? ORDER BY at LIMIT ?)"
)

// markOthersQuery takes a redelivery, its creation, its event, the delivery of the event's
// acceptance, the endpoint, and how many of the event's newest redeliveries it looks at.
const markOthersQuery = `INSERT INTO mark (delivery, replayed_at, replayed_by, replayed_as, replay_result)
	SELECT seq, ?2, ifnull((SELECT r.id FROM replay_item i JOIN replay r ON r.number = i.replay WHERE i.made = ?1), ''), ?1, 3 FROM finished
	WHERE (seq = ?4 OR seq IN (SELECT delivery FROM redelivery WHERE event = ?3 ORDER BY delivery DESC LIMIT ?6)) AND +target = ?5 AND +status = 4 AND +seq < ?1
	ON CONFLICT (delivery) DO UPDATE SET replayed_at = excluded.replayed_at, replayed_by = excluded.replayed_by,
	replayed_as = excluded.replayed_as, replay_result = excluded.replay_result WHERE replayed_as < excluded.replayed_as`

const (
	nextEventQuery   = "SELECT seq, accepted FROM event WHERE seq >= ? ORDER BY seq LIMIT 1"
	oldEventQuery    = "SELECT first, made, key FROM event WHERE seq = ? AND accepted < ?"
	overQuery        = "SELECT finished FROM finished WHERE seq = ?"
	waitsQuery       = "SELECT 1 FROM pending WHERE seq = ?"
	anyDeliveryQuery = `SELECT 1 FROM pending WHERE seq >= ? AND seq < ? UNION ALL SELECT 1 FROM finished WHERE seq >= ? AND seq < ?
		UNION ALL SELECT 1 FROM redelivery WHERE event = ? LIMIT 1`
)

const (
	typesToldQuery = "SELECT count(*) FROM total_type WHERE whole = ? AND hour = ? AND tenant = ? AND type <> ''"
	kindTypeQuery  = "SELECT type FROM kind WHERE number = ?"
)

const imbalanceQuery = "SELECT ifnull(sum(made), 0) - ifnull(sum(n), 0) - (SELECT purged FROM ledger) FROM tally"
