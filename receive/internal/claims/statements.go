package claims

import "strings"

// statements are the steps as SQL of one database.
type statements struct {
	schema                                string
	claim, revive                         string
	insertHere, claimHere                 string // of a transaction: for a key without a row, and for any key
	look, renew, settle, outcome, clean   string
	bury, keep, letter, letters, replayed string
	accept, lock, take, renewItem         string
	settleItem, turn, reviveItem          string
	cleanInbox                            string
	waits                                 bool // insertHere has a tenth parameter: how long both wait for the key's row
}

const schema = `create table if not exists webhook_claim(
  source text not null, key text not null,
  state text not null,
  owner text not null, generation bigint not null,
  lease_until bigint not null, keep_until bigint not null,
  body_hash text not null,
  outcome text not null default '', deliveries bigint not null default 1,
  updated_at bigint not null,
  primary key(source, key));
create index if not exists webhook_claim_keep on webhook_claim(source, keep_until);
create table if not exists webhook_dead(
  source text not null, key text not null,
  headers text not null, body bytea not null, error text not null, deliveries bigint not null,
  first_at bigint not null, last_at bigint not null, replayed_at bigint not null default 0, result text not null default '',
  primary key(source, key));
create table if not exists webhook_inbox(
  id text primary key,
  source text not null, key text not null,
  ordering_key text not null default '', sequence bigint not null,
  state text not null,
  headers text not null, body bytea not null, body_hash text not null,
  attempts bigint not null default 0, owner text not null default '', lease_until bigint not null default 0,
  next_at bigint not null, received_at bigint not null, updated_at bigint not null, error text not null default '');
create index if not exists webhook_inbox_work on webhook_inbox(source, received_at, id) where state in ('ready', 'busy');
create index if not exists webhook_inbox_order on webhook_inbox(source, ordering_key) where state <> 'done';
create index if not exists webhook_inbox_key on webhook_inbox(source, key);
create index if not exists webhook_inbox_done on webhook_inbox(source, updated_at) where state = 'done';
`

const (
	columns = `insert into webhook_claim as c
  (source, key, state, owner, generation, lease_until, keep_until, body_hash, outcome, deliveries, updated_at) `
	values   = `values($1, $2, $3, $4, 1, $5, $6, $7, $8, 1, $9)`
	takeOver = `
  on conflict(source, key) do update set state = excluded.state, owner = excluded.owner, generation = c.generation + 1,
    lease_until = excluded.lease_until, keep_until = excluded.keep_until, body_hash = excluded.body_hash,
    outcome = excluded.outcome, deliveries = c.deliveries + 1, updated_at = excluded.updated_at
  where c.state = 'free' or c.state = 'busy' and c.lease_until < excluded.updated_at
    or c.state = 'done' and c.keep_until < excluded.updated_at
  returning generation, deliveries`
	revive = `update webhook_claim set state = $3, owner = $4, generation = generation + 1, lease_until = $5, keep_until = $6,
    body_hash = $7, outcome = $8, deliveries = deliveries + 1, updated_at = $9
  where source = $1 and key = $2 and (state = 'dead' or state = 'busy' and lease_until < $9)
  returning generation, deliveries`

	// Most keys have no row. For them a transaction needs an insert alone, which a database prepares
	// and runs in less time than the statement that may take a row over.
	doNothing = `
  on conflict(source, key) do nothing`

	// In PostgreSQL the first statement of a claim in a transaction sets the time that it waits for
	// the key's row, before it inserts, and the RETURNING of the one that claims restores what the
	// session had: the handler's own statements are not limited, and no round trip is added. A claim
	// that fails, or finds a row that it may not take, ends its transaction, and with it both
	// settings. The inner set_config is an argument of the outer one, so it comes first.
	valuesWait = `values($1, $2, $3, $4, case when set_config('lock_timeout', $10::text,
  set_config('webhook.lock_timeout', current_setting('lock_timeout'), true) is not null) is null then 0 else 1 end, $5, $6, $7, $8, 1, $9)`
	restored = `set_config('lock_timeout', current_setting('webhook.lock_timeout'), true)`
)

var forPostgreSQL = statements{
	schema: schema, waits: true,
	claim:      columns + values + takeOver,
	insertHere: columns + valuesWait + doNothing + ` returning ` + restored,
	claimHere:  `with w as (` + columns + values + takeOver + `, ` + restored + `) select generation, deliveries from w`,
	revive:     revive,
	look: `select state, owner, generation, lease_until, body_hash, outcome, deliveries from webhook_claim
  where source = $1 and key = $2`,
	renew: `update webhook_claim set lease_until = $4, updated_at = $5
  where source = $1 and key = $2 and owner = $3 and state = 'busy'`,
	settle: `update webhook_claim set state = $4, outcome = $5, updated_at = $6
  where source = $1 and key = $2 and owner = $3 and state = 'busy'`,
	outcome: `update webhook_claim set outcome = $3 where source = $1 and key = $2`,
	clean: `delete from webhook_claim where source = $1 and keep_until < $2 and state in ('done', 'free') and key in
  (select key from webhook_claim where source = $1 and keep_until < $2 and state in ('done', 'free') order by keep_until limit $3)`,
	bury: letter + `on conflict(source, key) do update set headers = excluded.headers, body = excluded.body, error = excluded.error,
  deliveries = excluded.deliveries, last_at = excluded.last_at`,
	keep: letter + `on conflict(source, key) do nothing`,
	letter: `select source, key, headers, body, error, deliveries, first_at, last_at, replayed_at, result from webhook_dead
  where source = $1 and key = $2`,
	letters: `select source, key, headers, body, error, deliveries, first_at, last_at, replayed_at, result from webhook_dead
  where source = $1 and key > $2 order by key limit $3`,
	replayed: `update webhook_dead set replayed_at = $3, result = $4 where source = $1 and key = $2`,
	accept: `insert into webhook_inbox(id, source, key, ordering_key, sequence, state, headers, body, body_hash, next_at, received_at, updated_at)
  values($1, $2, $3, $4, $5, 'ready', $6, $7, $8, $9, $9, $9)`,
	lock: `select pg_advisory_xact_lock(hashtextextended('webhook_inbox ' || $1::text, 0))`,
	take: `update webhook_inbox set state = 'busy', owner = $2, lease_until = $3, attempts = attempts + 1, updated_at = $4
  where id = (select i.id from webhook_inbox as i
    where i.source = $1 and i.state in ('ready', 'busy')
      and (i.state = 'ready' and i.next_at <= $4 or i.state = 'busy' and i.lease_until < $4)
      and (i.ordering_key = '' or not exists(select 1 from webhook_inbox as e
        where e.source = $1 and e.ordering_key = i.ordering_key and e.state <> 'done' and e.id <> i.id
          and (e.state = 'busy' and e.lease_until >= $4
            or (e.state in ('ready', 'busy') or e.state = $5)
              and (e.sequence, e.received_at, e.id) < (i.sequence, i.received_at, i.id))))
    order by i.received_at, i.id limit 1)
  returning id, key, ordering_key, sequence, headers, body, attempts, received_at`,
	renewItem: `update webhook_inbox set lease_until = $3, updated_at = $4 where id = $1 and owner = $2 and state = 'busy'`,
	settleItem: `update webhook_inbox set state = $3, next_at = $4, error = $5, updated_at = $6
  where id = $1 and owner = $2 and state = 'busy'`,
	turn: `update webhook_claim set state = $4, outcome = $5, updated_at = $6 where source = $1 and key = $2 and state = $3`,
	reviveItem: `update webhook_inbox set state = $3, attempts = 0, next_at = $4, updated_at = $4
  where source = $1 and key = $2 and state = 'dead'`,
	cleanInbox: `delete from webhook_inbox where id in
  (select id from webhook_inbox where source = $1 and state = 'done' and updated_at < $2 order by updated_at limit $3)`,
}

const letter = `insert into webhook_dead(source, key, headers, body, error, deliveries, first_at, last_at)
  values($1, $2, $3, $4, $5, $6, $7, $8) `

// forSQLite are the same statements. A transaction of SQLite locks the whole database at its first
// statement, so a claim waits for no row.
var forSQLite = func() statements {
	s := forPostgreSQL
	s.waits, s.insertHere, s.claimHere, s.lock = false, columns+values+doNothing, s.claim, ""
	s.schema = strings.ReplaceAll(s.schema, "bytea", "blob")
	s.schema = strings.Replace(s.schema, "primary key(source, key));", "primary key(source, key)) without rowid;", 1) // webhook_claim
	for _, text := range s.all() {
		*text = strings.ReplaceAll(*text, "$", "?")
	}
	return s
}()

func (s *statements) all() []*string {
	return []*string{&s.claim, &s.revive, &s.insertHere, &s.claimHere, &s.look, &s.renew, &s.settle, &s.outcome, &s.clean,
		&s.bury, &s.keep, &s.letter, &s.letters, &s.replayed,
		&s.accept, &s.take, &s.renewItem, &s.settleItem, &s.turn, &s.reviveItem, &s.cleanInbox}
}
