// The statements that PostgreSQL and SQLite share.
import { Buffer } from "node:buffer";
import type { Claim, Claimed, DeadLetter, Finish, InboxRequest, InboxStore, Queryable, Row, State, Taken, TransactionStore } from "./store.js";

/** What a database adds to the statements. */
export interface Driver<Tx extends Queryable> extends Queryable {
  readonly postgres: boolean;
  /** Runs in one transaction. Locks are waited for at most `wait` milliseconds; then it throws LockTimeout. */
  begin<T>(wait: number, run: (tx: Tx) => Promise<T>): Promise<T>;
}

const tables = (bytes: string) => [
  `create table if not exists webhook_claim(
    source text not null, key text not null, state text not null, owner text not null, generation bigint not null,
    lease_until bigint not null, keep_until bigint not null, body_hash text not null,
    outcome text not null default '', deliveries bigint not null default 1, updated_at bigint not null,
    primary key(source, key))`,
  `create index if not exists webhook_claim_keep on webhook_claim(source, keep_until)`,
  `create table if not exists webhook_inbox(
    id text primary key, source text not null, key text not null, ordering_key text not null default '', sequence bigint not null,
    state text not null, headers text not null, body ${bytes} not null, body_hash text not null,
    attempts bigint not null default 0, owner text not null default '', lease_until bigint not null default 0,
    next_at bigint not null, received_at bigint not null, updated_at bigint not null, error text not null default '')`,
  `create index if not exists webhook_inbox_order on webhook_inbox(source, state, sequence, id)`,
  `create index if not exists webhook_inbox_key on webhook_inbox(source, ordering_key, sequence, id)`,
  `create table if not exists webhook_dead(
    source text not null, key text not null, headers text not null, body ${bytes} not null, error text not null,
    deliveries bigint not null, first_at bigint not null, last_at bigint not null,
    replayed_at bigint not null default 0, result text not null default '', primary key(source, key))`,
];

// Columns carry the table's name, because PostgreSQL rejects a bare generation + 1 as ambiguous.
const claimStatement = `insert into webhook_claim as c
  (source, key, state, owner, generation, lease_until, keep_until, body_hash, outcome, deliveries, updated_at)
  values ($1, $2, $3, $4, 1, $5, $6, $7, $8, 1, $9)
  on conflict(source, key) do update set state = excluded.state, owner = excluded.owner, generation = c.generation + 1,
    lease_until = excluded.lease_until, keep_until = excluded.keep_until, body_hash = excluded.body_hash, outcome = excluded.outcome,
    deliveries = c.deliveries + 1, updated_at = excluded.updated_at
  where REPLACED
  returning generation, deliveries`;
const fresh = claimStatement.replace(
  "REPLACED",
  `c.state = 'free' or (c.state = 'busy' and c.lease_until < $9) or (c.state = 'done' and c.keep_until < $9)`,
);
const ofDead = claimStatement.replace("REPLACED", `c.state = 'dead'`);

/** The store of a database with SQL; `pgStore` and `sqliteStore` make one. */
export class SqlStore<Tx extends Queryable> implements TransactionStore<Tx>, InboxStore {
  constructor(
    private readonly driver: Driver<Tx>,
    private readonly db: Queryable = driver,
  ) {}

  async setup(): Promise<void> {
    await this.driver.begin(60_000, async (tx) => {
      // Two processes that create a table at once fail in PostgreSQL.
      if (this.driver.postgres) await tx.query("select pg_advisory_xact_lock(7238412)");
      for (const statement of tables(this.driver.postgres ? "bytea" : "blob")) await tx.query(statement);
    });
  }

  transaction<T>(wait: number, run: (tx: Tx, store: InboxStore) => Promise<T>): Promise<T> {
    return this.driver.begin(wait, (tx) => run(tx, new SqlStore(this.driver, tx)));
  }

  atomic<T>(run: (store: InboxStore) => Promise<T>): Promise<T> {
    return this.db === this.driver ? this.transaction(2_000, (_, store) => run(store)) : run(this);
  }

  private readonly rows = async (text: string, values: unknown[]) => (await this.db.query(text, values)).rows;
  private readonly changes = async (text: string, values: unknown[]) => (await this.db.query(text, values)).rowCount ?? 0;

  async claim(c: Claim): Promise<Claimed> {
    const values = [c.source, c.key, c.state, c.owner, c.leaseUntil, c.keepUntil, c.bodyHash, c.outcome, c.now];
    for (;;) {
      const [won] = await this.rows(c.replay ? ofDead : fresh, values);
      if (won) return { won: true, generation: Number(won.generation), deliveries: Number(won.deliveries) };
      const [row] = await this.rows("select state, body_hash, outcome, updated_at from webhook_claim where source = $1 and key = $2", [
        c.source,
        c.key,
      ]);
      // Without a row the window's cleaning was between the two statements.
      if (row) return { won: false, row: rowOf(row) };
    }
  }

  async finish(c: Claim, to: Finish): Promise<boolean> {
    const sql = `update webhook_claim set state = $4, outcome = $5, keep_until = $6, updated_at = $7
      where source = $1 and key = $2 and owner = $3 and state = 'busy'`;
    return (await this.changes(sql, [c.source, c.key, c.owner, to.state, to.outcome, to.keepUntil, to.now])) > 0;
  }

  async renew(c: Claim, leaseUntil: number): Promise<boolean> {
    const sql = `update webhook_claim set lease_until = $4 where source = $1 and key = $2 and owner = $3 and state = 'busy'`;
    return (await this.changes(sql, [c.source, c.key, c.owner, leaseUntil])) > 0;
  }

  async cleanup(source: string, now: number, limit: number): Promise<number> {
    const claims = `delete from webhook_claim where source = $1 and key in (select key from webhook_claim
      where source = $1 and state in ('done', 'free') and keep_until < $2 order by keep_until limit $3)
      and state in ('done', 'free') and keep_until < $2`;
    const inbox = `delete from webhook_inbox where id in (select i.id from webhook_inbox i where i.source = $1 and i.state = 'done'
      and not exists (select 1 from webhook_claim c where c.source = i.source and c.key = i.key) order by i.id limit $2)`;
    return (await this.changes(claims, [source, now, limit])) + (await this.changes(inbox, [source, limit]));
  }

  async bury(d: DeadLetter): Promise<void> {
    await this.db.query(
      `insert into webhook_dead(source, key, headers, body, error, deliveries, first_at, last_at)
       values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict(source, key) do update set headers = excluded.headers, body = excluded.body,
       error = excluded.error, deliveries = excluded.deliveries, last_at = excluded.last_at`,
      [d.source, d.key, JSON.stringify(d.headers), Buffer.from(d.body), d.error, d.deliveries, d.firstAt, d.lastAt],
    );
  }

  async deadLetter(source: string, key: string): Promise<DeadLetter | undefined> {
    const [row] = await this.rows("select * from webhook_dead where source = $1 and key = $2", [source, key]);
    return row && deadOf(row);
  }

  async deadLetters(source: string, limit = 100): Promise<DeadLetter[]> {
    return (await this.rows("select * from webhook_dead where source = $1 order by last_at desc limit $2", [source, limit])).map(deadOf);
  }

  async replayed(source: string, key: string, at: number, result: string): Promise<void> {
    await this.db.query("update webhook_dead set replayed_at = $3, result = $4 where source = $1 and key = $2", [source, key, at, result]);
  }

  async put(r: InboxRequest): Promise<void> {
    await this.db.query(
      `insert into webhook_inbox(id, source, key, ordering_key, sequence, state, headers, body, body_hash, next_at, received_at, updated_at)
       values ($1, $2, $3, $4, $5, 'ready', $6, $7, $8, $9, $9, $9)`,
      [r.id, r.source, r.key, r.orderingKey, r.sequence, JSON.stringify(r.headers), Buffer.from(r.body), r.bodyHash, r.receivedAt],
    );
  }

  async take(source: string, owner: string, now: number, leaseUntil: number, block: boolean): Promise<Taken | undefined> {
    const [row] = await this.rows(
      `update webhook_inbox set state = 'busy', owner = $2, lease_until = $4, attempts = attempts + 1, updated_at = $3
       where id = (select i.id from webhook_inbox i where i.source = $1
         and ((i.state = 'ready' and i.next_at <= $3) or (i.state = 'busy' and i.lease_until < $3))
         and (i.ordering_key = '' or not exists (select 1 from webhook_inbox e where e.source = i.source
           and e.ordering_key = i.ordering_key and (e.sequence, e.id) < (i.sequence, i.id)
           and e.state in ('ready', 'busy'${block ? ", 'dead'" : ""})))
         order by i.sequence, i.id limit 1${this.driver.postgres ? " for update skip locked" : ""})
       returning *`,
      [source, owner, now, leaseUntil],
    );
    return row && takenOf(row);
  }

  async extend(id: string, owner: string, leaseUntil: number): Promise<boolean> {
    const sql = "update webhook_inbox set lease_until = $3 where id = $1 and owner = $2 and state = 'busy'";
    return (await this.changes(sql, [id, owner, leaseUntil])) > 0;
  }

  async settle(id: string, owner: string, to: Parameters<InboxStore["settle"]>[2]): Promise<boolean> {
    const sql = `update webhook_inbox set state = $3, next_at = $4, error = $5, updated_at = $6
      where id = $1 and owner = $2 and state = 'busy'`;
    return (await this.changes(sql, [id, owner, to.state, to.nextAt, to.error, to.now])) > 0;
  }
}

type Columns = Record<string, unknown>;
const stored = (r: Columns) => ({
  source: String(r.source),
  key: String(r.key),
  headers: JSON.parse(String(r.headers)) as [string, string][],
  body: new Uint8Array(r.body as Uint8Array),
});
const rowOf = (r: Columns): Row => ({
  state: r.state as State,
  bodyHash: String(r.body_hash),
  outcome: String(r.outcome),
  updatedAt: Number(r.updated_at),
});
const deadOf = (r: Columns): DeadLetter => ({
  ...stored(r),
  error: String(r.error),
  deliveries: Number(r.deliveries),
  firstAt: Number(r.first_at),
  lastAt: Number(r.last_at),
  replayedAt: Number(r.replayed_at),
  result: String(r.result),
});
const takenOf = (r: Columns): Taken => ({
  ...stored(r),
  id: String(r.id),
  orderingKey: String(r.ordering_key),
  sequence: Number(r.sequence),
  bodyHash: String(r.body_hash),
  receivedAt: Number(r.received_at),
  attempts: Number(r.attempts),
});
