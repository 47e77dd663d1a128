package sqlite

import (
	"fmt"
	"strings"

	"github.com/grapnelhq/grapnel/internal/store/sqlite/sqlite3"
)

// placed is the beginning of queries for the places of data in the file. Data in rows are not read.
const placed = "SELECT packed, CASE WHEN packed & 2 THEN data END"

// statements are the writer's. They determine the cost of a delivery that succeeds at the first
// attempt:
//
//   - accepted: one row of event with the entries of its id and of its kind, one row of pending
//     with its entry among the heads. A key adds one entry to the event, one to pending, and the
//     lane's counter.
//   - with a Known: one look-up of its key, one row of known with the entry of its time, and a
//     share of a page of the index of keys.
//   - leased, for a queue: the row of pending updated with its entry among the heads, and an entry
//     each for the token and for the end of the lease. An unleased row has neither.
//   - recorded: one row of pending read and deleted with its entries, one row of finished with one
//     entry. A lane adds one look-up of the next head.
//   - once per transaction: the counts, a row each for the endpoints and statuses that changed. The
//     totals of the hour are in these rows; those of event types have a row for each type.
//
// The attempt that ends a delivery has no row: it is in the finished row. Only that of a delivery
// of long ago has one, of ending. Every other attempt has a row, and pending is updated with its
// entry among the heads.
type statements struct {
	begin, commit, rollback *sqlite3.Stmt

	tenant, addTenant, kind, addKind, target, addTarget, targetID *sqlite3.Stmt

	known, indexed, dropKnown                 *sqlite3.Stmt
	addKnownKey, dropKnownKeys, setKnownMoved *sqlite3.Stmt
	addAside, dropAside, addSourceBlock       *sqlite3.Stmt
	changeAside, forgetAside                  *sqlite3.Stmt

	addTally, addHour, setVersion, setJournal                                    *sqlite3.Stmt
	account, setAccount                                                          *sqlite3.Stmt
	totalHour, setTotalHour, addLedger                                           *sqlite3.Stmt
	setNote, setDiscard                                                          *sqlite3.Stmt
	oldHour, dropHour, totalDay, setTotalDay                                     *sqlite3.Stmt
	typeTotal, setTypeTotal, typesTold, kindType                                 *sqlite3.Stmt
	oldType, dropType                                                            *sqlite3.Stmt
	readPage, writePage                                                          *sqlite3.Stmt
	dropFinished, dropAttempts, dropMark, dropRedelivery, dropEvent, anyDelivery *sqlite3.Stmt
	addEnding, dropEnding                                                        *sqlite3.Stmt
	eventData, dataBefore, dataAfter, addHole                                    *sqlite3.Stmt

	eventByID, eventKey, eventOf                        *sqlite3.Stmt
	pending, dropPending, plan, mark, lead              *sqlite3.Stmt
	laneHead, lane, setLane, dropLane, raiseLane        *sqlite3.Stmt
	finished                                            *sqlite3.Stmt
	addAttempt, addRedelivery, makeDue                  *sqlite3.Stmt
	lease, grant, extend, over, claimable, holders      *sqlite3.Stmt
	replay, addReplay, setReplay, addProgress, advance  *sqlite3.Stmt
	addItem, endItem, countItem                         *sqlite3.Stmt
	addBlockOutcome, addTargetOutcome                   *sqlite3.Stmt
	markOf, markReplayed, markResult, markOthers        *sqlite3.Stmt
	setStanding, dropStanding, noted, addNote           *sqlite3.Stmt
	answer, setAnswer, dropAnswers                      *sqlite3.Stmt
	waiting                                             *sqlite3.Stmt
	document, setDocument, dropDocument, clearDocuments *sqlite3.Stmt

	addEvents, addKnown, addPending, addFinished adding

	objects [len(objectKinds)]objects
}

// adding is an INSERT of one row, and one of several.
type adding struct {
	one, many *sqlite3.Stmt
	rows      int // in many
}

// prepare makes the statements; those that add several rows add this number.
func prepare(conn *sqlite3.Conn, rows int) (*statements, error) {
	q := new(statements)
	for _, p := range q.all(rows) {
		var err error
		if *p.into, err = conn.Prepare(p.sql); err != nil {
			return nil, fmt.Errorf("sqlite: preparing %q: %w", p.sql, err)
		}
	}
	return q, nil
}

func (q *statements) all(rows int) []text {
	var objects []text
	for i := range q.objects {
		objects = append(objects, q.objects[i].all(i)...)
	}
	for into, insert := range map[*adding]func(rows int) string{
		&q.addEvents: eventAdded.Insert("event"), &q.addKnown: knownAdded.Insert("known"),
		&q.addPending: pendingAdded.Insert("pending"), &q.addFinished: finishedAdded.Insert("finished"),
	} {
		objects = append(objects, text{&into.one, insert(1)}, text{&into.many, insert(rows)})
		into.rows = rows
	}
	return append(objects, []text{
		{&q.begin, "BEGIN IMMEDIATE"},
		{&q.commit, "COMMIT"},
		{&q.rollback, "ROLLBACK"},

		{&q.tenant, "SELECT number FROM tenant WHERE name = ?"},
		{&q.addTenant, "INSERT INTO tenant (name) VALUES (?) RETURNING number"},
		{&q.kind, "SELECT number FROM kind WHERE tenant = ? AND type = ? AND source = ?"},
		{&q.addKind, "INSERT INTO kind (tenant, type, source) VALUES (?, ?, ?) RETURNING number"},
		{&q.target, "SELECT number FROM target WHERE endpoint = ?"},
		{&q.addTarget, "INSERT INTO target (endpoint) VALUES (?) RETURNING number"},
		{&q.targetID, "SELECT endpoint FROM target WHERE number = ?"},

		{&q.addTally, `INSERT INTO tally (target, tenant, status, n) VALUES (?, ?, ?, ?)
			ON CONFLICT (target, tenant, status) DO UPDATE SET n = n + excluded.n`},
		{&q.addHour, `INSERT INTO hour (hour, first, last) VALUES (?, ?, ?)
			ON CONFLICT (hour) DO UPDATE SET last = excluded.last`},
		{&q.setVersion, "UPDATE configuration SET version = ?"},
		{&q.setJournal, "UPDATE journal SET number = ?, needed = ?, data = ?, generation = ?, frame = ?, alone = ?, until = ?"},
		{&q.totalHour, "SELECT body FROM total_hour WHERE hour = ? AND target = ? AND tenant = ?"},
		{&q.setTotalHour, "INSERT OR REPLACE INTO total_hour (hour, target, tenant, body) VALUES (?, ?, ?, ?)"},
		{&q.account, "SELECT hour, totals FROM tally WHERE target = ? AND tenant = ? AND status = 1"},
		{&q.setAccount, `INSERT INTO tally (target, tenant, status, n, made, hour, totals) VALUES (?, ?, 1, ?, ?, ?, ?)
			ON CONFLICT (target, tenant, status) DO UPDATE SET n = n + excluded.n, made = made + excluded.made,
			hour = excluded.hour, totals = excluded.totals`},
		{&q.setNote, "INSERT INTO mark (delivery, note) VALUES (?, ?) ON CONFLICT (delivery) DO UPDATE SET note = excluded.note"},
		{&q.setDiscard, `INSERT INTO mark (delivery, discarded_at, discard_reason) VALUES (?, ?, ?)
			ON CONFLICT (delivery) DO UPDATE SET discarded_at = excluded.discarded_at, discard_reason = excluded.discard_reason`},
		{&q.oldHour, "SELECT hour, tenant, target, body FROM total_hour WHERE hour < ? ORDER BY hour LIMIT 1"},
		{&q.dropHour, "DELETE FROM total_hour WHERE hour = ? AND target = ? AND tenant = ?"},
		{&q.totalDay, "SELECT body FROM total_day WHERE target = ? AND day = ? AND tenant = ?"},
		{&q.setTotalDay, "INSERT OR REPLACE INTO total_day (target, day, tenant, body) VALUES (?, ?, ?, ?)"},
		{&q.typeTotal, "SELECT body FROM total_type WHERE whole = ? AND hour = ? AND tenant = ? AND type = ?"},
		{&q.setTypeTotal, "INSERT OR REPLACE INTO total_type (whole, hour, tenant, type, body) VALUES (?, ?, ?, ?, ?)"},
		{&q.typesTold, typesToldQuery},
		{&q.kindType, kindTypeQuery},
		{&q.oldType, "SELECT hour, tenant, type, body FROM total_type WHERE whole = 0 AND hour < ? ORDER BY hour, tenant, type LIMIT 1"},
		{&q.dropType, "DELETE FROM total_type WHERE whole = 0 AND hour = ? AND tenant = ? AND type = ?"},
		{&q.readPage, readPageQuery},
		{&q.writePage, writePageQuery},
		{&q.dropFinished, `DELETE FROM finished WHERE seq = ?
			RETURNING target, tenant, status, iif(typeof(last) = 'integer', last, 0), position, finished - created, attempts`},
		{&q.addEnding, "INSERT INTO ending (body) VALUES (?) RETURNING number"},
		{&q.dropEnding, "DELETE FROM ending WHERE number = ?"},
		{&q.dropAttempts, "DELETE FROM attempt WHERE delivery = ?"},
		{&q.dropMark, "DELETE FROM mark WHERE delivery = ?"},
		{&q.dropRedelivery, "DELETE FROM redelivery WHERE delivery = ?"},
		{&q.dropEvent, "DELETE FROM event WHERE seq = ?"},
		{&q.eventData, placed + " FROM event WHERE seq = ?"},
		{&q.dataBefore, placed + " FROM event WHERE seq < ? ORDER BY seq DESC LIMIT ?"},
		{&q.dataAfter, placed + " FROM event WHERE seq > ? ORDER BY seq LIMIT ?"},
		{&q.addHole, "INSERT INTO hole (at, until) VALUES (?, ?) ON CONFLICT (at) DO UPDATE SET until = max(until, excluded.until)"},
		{&q.anyDelivery, anyDeliveryQuery},
		{&q.addLedger, `UPDATE ledger SET purged = purged + ?, event = max(event, ?), delivery = max(delivery, ?)`},

		{&q.eventByID, metQuery},
		{&q.eventKey, "SELECT key FROM event WHERE seq = ?"},
		{&q.eventOf, `SELECT k.tenant, e.key, e.kind, e.packed FROM event e JOIN kind k ON k.number = e.kind WHERE e.seq = ?`},

		{&q.pending, "SELECT " + pendingRead.Names("") + " FROM pending WHERE seq = ?"},
		{&q.dropPending, "DELETE FROM pending WHERE seq = ?"},
		{&q.plan, planned.Update("pending")},
		{&q.mark, marked.Update("pending")},
		{&q.makeDue, "UPDATE pending SET due = ?, wide = NULL WHERE seq = ?"},
		{&q.lead, led.Update("pending")},
		{&q.laneHead, "SELECT " + pendingRead.Names("") +
			` FROM pending WHERE target = ? AND lane = ? AND position > 0 ORDER BY position LIMIT 1`},
		{&q.lane, "SELECT last FROM lane WHERE target = ? AND key = ?"},
		{&q.setLane, "INSERT INTO lane (target, key, last) VALUES (?, ?, ?) ON CONFLICT (target, key) DO UPDATE SET last = excluded.last"},
		{&q.dropLane, `DELETE FROM lane WHERE target = ? AND key = ? AND (last = ? OR ?) AND NOT EXISTS
			(SELECT 1 FROM pending p WHERE p.target = lane.target AND p.lane = key AND p.position > 0) RETURNING last`},
		{&q.raiseLane, `INSERT INTO lane (target, key, last) VALUES (?, ?, ?)
			ON CONFLICT (target, key) DO UPDATE SET last = max(last, excluded.last)`},
		{&q.finished, "SELECT " + finishedRead.Names("") + " FROM finished WHERE seq = ?"},
		{&q.addBlockOutcome, "INSERT OR IGNORE INTO delivered_outcome (outcome, block) VALUES (?, ?)"},
		{&q.addTargetOutcome, "INSERT OR IGNORE INTO target_outcome (outcome, target) VALUES (?, ?)"},
		{&q.lease, leaseQuery},
		{&q.grant, "UPDATE pending SET due = ?, token = ?, consumer = ?, scheduled = ?, granted = ? WHERE seq = ?"},
		{&q.extend, "UPDATE pending SET due = ? WHERE seq = ?"},
		{&q.over, runOutQuery},
		{&q.claimable, claimableQuery},
		{&q.holders, holdersQuery},
		{&q.addAttempt, "INSERT INTO attempt (delivery, number, body) VALUES (?, ?, ?)"},
		{&q.addRedelivery, "INSERT INTO redelivery (delivery, event) VALUES (?, ?)"},

		{&q.replay, replayQuery},
		{&q.addReplay, `INSERT INTO replay (id, tenant, endpoint, status, active, revision, body) VALUES (?, ?, ?, ?, ?, ?, ?)
			RETURNING number`},
		{&q.setReplay, "UPDATE replay SET status = ?, active = ?, revision = ?, body = ? WHERE number = ?"},
		{&q.addProgress, `INSERT INTO replay_progress (replay, up_to, cursor, started, done, delivered, failed, run)
			VALUES (?, ?, 0, 0, 0, 0, 0, 0)`},
		{&q.advance, "UPDATE replay_progress SET cursor = ?, started = started + ? WHERE replay = ?"},
		{&q.addItem, "INSERT INTO replay_item (made, replay, original, created, at, status) VALUES (?, ?, ?, ?, ?, ?)"},
		{&q.endItem, "UPDATE replay_item SET status = ? WHERE made = ? RETURNING replay"},
		{&q.countItem, `UPDATE replay_progress SET done = done + 1, delivered = delivered + ?, failed = failed + ?,
			run = CASE WHEN ? THEN 0 ELSE run + 1 END WHERE replay = ?`},
		{&q.markOf, "SELECT replayed_as, discarded_at IS NOT NULL FROM mark WHERE delivery = ?"},
		{&q.markReplayed, `INSERT INTO mark (delivery, replayed_at, replayed_by, replayed_as, replay_result) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (delivery) DO UPDATE SET replayed_at = excluded.replayed_at, replayed_by = excluded.replayed_by,
			replayed_as = excluded.replayed_as, replay_result = excluded.replay_result`},
		{&q.markResult, "UPDATE mark SET replay_result = ? WHERE delivery = ? AND replayed_as = ?"},
		{&q.markOthers, markOthersQuery},

		{&q.setStanding, `INSERT INTO standing (endpoint, number, body) VALUES (?, ?, ?)
			ON CONFLICT (endpoint) DO UPDATE SET number = excluded.number, body = excluded.body WHERE excluded.number > number`},
		{&q.dropStanding, "DELETE FROM standing WHERE endpoint = ?"},
		{&q.noted, `SELECT 1 FROM audit WHERE at = ? AND +tenant = ? AND actor = ? AND verb = ? AND +endpoint IS ? AND +delivery IS ?
			AND reason = ? LIMIT 1`},
		{&q.addNote, "INSERT INTO audit (at, tenant, actor, verb, endpoint, delivery, reason) VALUES (?, ?, ?, ?, ?, ?, ?)"},

		{&q.answer, answerQuery},
		{&q.setAnswer, "INSERT OR REPLACE INTO answer (key, fingerprint, expires, status, body) VALUES (?, ?, ?, ?, ?)"},
		{&q.dropAnswers, `DELETE FROM answer WHERE rowid IN
			(SELECT rowid FROM answer WHERE expires <= ? ORDER BY expires LIMIT ?)`},

		{&q.waiting, waitingQuery},
		{&q.known, knownQuery},
		{&q.indexed, indexedQuery},
		{&q.dropKnown, "DELETE FROM known WHERE seq = ?"},
		{&q.addKnownKey, "INSERT OR IGNORE INTO known_key (prefix, seq) VALUES (?, ?)"},
		{&q.dropKnownKeys, "DELETE FROM known_key WHERE prefix >= ? AND prefix < ? AND seq < ?"},
		{&q.setKnownMoved, "UPDATE known_moved SET seq = ?, swept = max(swept, ?)"},
		{&q.addAside, `INSERT INTO aside (id, tenant, source, why, at, event, content_type, size, intake, packed, sum, body)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`},
		{&q.addSourceBlock, "INSERT OR IGNORE INTO source_block (source, block) VALUES (?, ?)"},
		{&q.dropAside, "DELETE FROM aside WHERE number = ?"},
		{&q.changeAside, "UPDATE aside SET why = ?, event = ?, intake = ?, sum = ? WHERE id = ? AND tenant = ?"},
		{&q.forgetAside, "DELETE FROM aside WHERE id = ? AND tenant = ?"},

		{&q.document, "SELECT revision FROM document WHERE tenant = ? AND kind = ? AND id = ?"},
		{&q.setDocument, `INSERT INTO document (tenant, kind, id, revision, at, body) VALUES (?, ?, ?, ?, ?, ?)
			ON CONFLICT (tenant, kind, id) DO UPDATE SET revision = excluded.revision, at = excluded.at, body = excluded.body`},
		{&q.dropDocument, "DELETE FROM document WHERE tenant = ? AND kind = ? AND id = ?"},
		{&q.clearDocuments, clearDocumentsQuery},
	}...)
}

// objectKind is a kind of configuration objects.
type objectKind int

const (
	endpoints objectKind = iota
	sources
	policies
	eventTypes
	keys
	accessRecords
)

// objectKinds say how errors call a kind and its names, and which columns its table has: the state
// of an object, and all of them in the order in which putObject binds them. Keys and access records
// have no names.
var objectKinds = [...]struct{ what, named, table, name, state, columns string }{
	endpoints:  {"endpoint", "queue", "endpoint", "queue", "tenant, revision, deleted", "id, tenant, body, revision, queue, deleted"},
	sources:    {"source", "source", "source", "name", "tenant, revision", "id, tenant, body, revision, name"},
	policies:   {"policy", "policy", "policy", "name", "tenant, revision", "id, tenant, body, revision, name"},
	eventTypes: {"event type", "event type", "event_type", "name", "tenant, revision", "id, tenant, body, revision, name"},
	keys:       {"key", "", "api_key", "", "tenant", "id, tenant, body"},

	accessRecords: {"access record", "", "access_record", "", "tenant", "id, tenant, body"},
}

// objects are the statements of a kind.
type objects struct{ row, named, set, drop *sqlite3.Stmt }

func (o *objects) all(kind int) []text {
	k := &objectKinds[kind]
	values := "?" + strings.Repeat(", ?", strings.Count(k.columns, ","))
	texts := []text{
		{&o.row, "SELECT " + k.state + " FROM " + k.table + " WHERE id = ?"},
		{&o.set, "INSERT INTO " + k.table + " (" + k.columns + ") VALUES (" + values + ") ON CONFLICT (id) DO UPDATE SET (" +
			k.columns + ") = (excluded." + strings.ReplaceAll(k.columns, ", ", ", excluded.") + ")"},
		{&o.drop, "DELETE FROM " + k.table + " WHERE id = ?"},
	}
	if k.name != "" {
		texts = append(texts, text{&o.named, "SELECT id FROM " + k.table + " WHERE tenant = ? AND " + k.name + " = ?"})
	}
	return texts
}

// text is the SQL of a statement.
type text struct {
	into **sqlite3.Stmt
	sql  string
}
