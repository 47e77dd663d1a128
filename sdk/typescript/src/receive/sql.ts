// The statements that PostgreSQL and SQLite share.
import { Buffer } from "node:buffer";
import type { Bid, Claim, DeadLetter, InboxRequest, InboxStore, Queryable, State, Taken, TransactionStore } from "./store.js";

/** What a database adds to the statements. */
export interface Driver<Tx extends Queryable> extends Queryable {
  readonly postgres: boolean;
  /**
   * Runs in one transaction, and fails if `run` has ended it, or has gone on after a statement that failed: its effect would be lost.
   * SQLite waits for its lock at most `wait` milliseconds; PostgreSQL waits so for each lock, unless `limited` is false.
   */
  begin<T>(wait: number, run: (tx: Tx) => Promise<T>, limited?: boolean): Promise<T>;
  /** Runs the first statement of a transaction. It may end the transaction and have `begin` run it again. */
  first(tx: Tx, text: string, values: unknown[]): ReturnType<Queryable["query"]>;
}

/** How long the kit's own steps wait for a lock, in milliseconds. */
const patience = 5_000;

const tables = (bytes: string) => [
  `create table if not exists webhook_claim(
    source text not null, key text not null, state text not null, owner text not null, generation bigint not null,
    lease_until bigint not null, keep_until bigint not null, body_hash text not null,
    outcome text not null default '', deliveries bigint not null default 1, updated_at bigint not null,
    primary key(source, key))${bytes === "blob" ? " without rowid" : ""}`,
  `create index if not exists webhook_claim_keep on webhook_claim(source, keep_until)`,
  `create table if not exists webhook_inbox(
    id text primary key, source text not null, key text not null, ordering_key text not null default '', sequence bigint not null,
    state text not null, headers text not null, body ${bytes} not null, body_hash text not null,
    attempts bigint not null default 0, owner text not null default '', lease_until bigint not null default 0,
    next_at bigint not null, received_at bigint not null, updated_at bigint not null, error text not null default '')`,
  `create index if not exists webhook_inbox_next on webhook_inbox(source, state, sequence, id)`,
  `create index if not exists webhook_inbox_order on webhook_inbox(source, ordering_key, sequence, id)`,
  `create table if not exists webhook_dead(
    source text not null, key text not null, headers text not null, body ${bytes} not null, error text not null,
    deliveries bigint not null, first_at bigint not null, last_at bigint not null,
    replayed_at bigint not null default 0, result text not null default '', primary key(source, key))`,
];

const columns = `insert into webhook_claim as c
  (source, key, state, owner, generation, lease_until, keep_until, body_hash, outcome, deliveries, updated_at)`;
// Columns carry the table's name, because PostgreSQL rejects a bare generation + 1 as ambiguous.
const takeOver = `on conflict(source, key) do update set state = excluded.state, owner = excluded.owner, generation = c.generation + 1,
    lease_until = excluded.lease_until, keep_until = excluded.keep_until, body_hash = excluded.body_hash,
    outcome = excluded.outcome, deliveries = c.deliveries + 1, updated_at = excluded.updated_at
  where c.state = 'free' or c.state = 'busy' and c.lease_until < excluded.updated_at
    or c.state = 'done' and c.keep_until < excluded.updated_at
  returning generation, deliveries`;
const claimNew = `${columns} values ($1, $2, $3, $4, 1, $5, $6, $7, $8, 1, $9) ${takeOver}`;
const claimDead = `update webhook_claim set state = $3, owner = $4, generation = generation + 1, lease_until = $5, keep_until = $6,
    body_hash = $7, outcome = $8, deliveries = deliveries + 1, updated_at = $9
  where source = $1 and key = $2 and (state = 'dead' or (state = 'busy' and lease_until < $9))
  returning generation, deliveries`;

// Most keys have no row. For them a transaction needs an insert alone, which a database prepares and runs in less time than the statement
// that may take a row over.
const insertNew = `${columns} values ($1, $2, $3, $4, 1, $5, $6, $7, $8, 1, $9) on conflict(source, key) do nothing`;

// In PostgreSQL the first statement of a claim in a transaction sets how long it waits for the key's row, before it inserts, and the result
// of the one that claims restores what the session had: the handler's own statements are not limited, and no round trip is added. If the
// claim fails, or the row may not be taken, its transaction ends. The inner set_config is an argument of the outer one, so it comes first.
const restored = `set_config('lock_timeout', current_setting('webhook.lock_timeout'), true)`;
const insertHere = `${columns} values ($1, $2, $3, $4, case when set_config('lock_timeout', $10::text,
    set_config('webhook.lock_timeout', current_setting('lock_timeout'), true) is not null) is null then 0 else 1 end, $5, $6, $7, $8, 1, $9)
  on conflict(source, key) do nothing returning ${restored}`;
const claimHere = `with w as (${claimNew}, ${restored}) select generation, deliveries from w`;

const claimOf = (b: Bid) => (b.replay ? claimDead : claimNew);

const replacing = `do update set headers = excluded.headers, body = excluded.body, error = excluded.error,
  deliveries = excluded.deliveries, last_at = excluded.last_at`;

/** The store of a database with SQL; `pgStore` and `sqliteStore` make one. */
export class SqlStore<Tx extends Queryable> implements TransactionStore<Tx>, InboxStore {
  constructor(
    private readonly driver: Driver<Tx>,
    private readonly db: Queryable = driver,
  ) {}

  async setup(): Promise<void> {
    await this.driver.begin(patience, async (tx) => {
      // Two processes that create one table at once fail in PostgreSQL.
      if (this.driver.postgres) await tx.query("select pg_advisory_xact_lock(7238412)");
      for (const statement of tables(this.driver.postgres ? "bytea" : "blob")) await tx.query(statement);
    });
  }

  transact(b: Bid, wait: number, run: (tx: Tx, claim: Claim) => Promise<string>): Promise<Claim | undefined> {
    return this.commits(b, wait, "processed", (store, claim) => run(store.db as Tx, claim));
  }

  /**
   * Makes the key done before the rest of a transaction: no other one sees that before the commit, and those that want the row wait.
   * `likely` is the outcome that costs no further statement.
   */
  private commits(
    b: Bid,
    wait: number,
    likely: string,
    run: (store: SqlStore<Tx>, claim: Claim) => Promise<string>,
  ): Promise<Claim | undefined> {
    const waits = this.driver.postgres && !b.replay;
    const begun = async (tx: Tx) => {
      const store = new SqlStore(this.driver, tx);
      const claim = b.replay ? await store.bid(claimDead, b, "done", likely) : await store.bidHere(b, wait, likely);
      if (!claim) return store.look(b.source, b.key);
      if (b.replay && this.driver.postgres) await tx.query("set local lock_timeout to default");
      const outcome = await run(store, claim);
      if (outcome !== likely)
        await store.rows("update webhook_claim set outcome = $3 where source = $1 and key = $2", b.source, b.key, outcome);
      claim.outcome = outcome;
      return claim;
    };
    return this.driver.begin(wait, begun, !waits);
  }

  private atomic<T>(run: (store: SqlStore<Tx>) => Promise<T>): Promise<T> {
    return this.driver.begin(patience, (tx) => run(new SqlStore(this.driver, tx)));
  }

  private async rows(text: string, ...values: unknown[]) {
    return (await this.db.query(text, values)).rows;
  }

  private async changed(text: string, ...values: unknown[]) {
    return (await this.db.query(text, values)).rowCount ?? 0;
  }

  /** Runs a claiming statement. Its result is the row if the bid has won. */
  private async bid(statement: string, b: Bid, state: State, outcome: string): Promise<Claim | undefined> {
    const [won] = await this.rows(statement, ...columnsOf(b, state, outcome));
    return won && claimed(b, state, outcome, Number(won.generation), Number(won.deliveries));
  }

  /** Makes a bid in a transaction, which waits for the key's row at most `wait` milliseconds. */
  private async bidHere(b: Bid, wait: number, outcome: string): Promise<Claim | undefined> {
    const { postgres } = this.driver;
    const values = columnsOf(b, "done", outcome);
    if (postgres) values.push(`${Math.ceil(wait)}ms`);
    const { rowCount } = await this.driver.first(this.db as Tx, postgres ? insertHere : insertNew, values);
    return rowCount === 1 ? claimed(b, "done", outcome, 1, 1) : this.bid(postgres ? claimHere : claimNew, b, "done", outcome);
  }

  async claim(b: Bid): Promise<Claim | undefined> {
    for (;;) {
      const row = (await this.bid(claimOf(b), b, "busy", "")) ?? (await this.look(b.source, b.key));
      // Without a row the cleaning of the window was between the two statements.
      if (row || b.replay) return row;
    }
  }

  async look(source: string, key: string): Promise<Claim | undefined> {
    const [row] = await this.rows("select * from webhook_claim where source = $1 and key = $2", source, key);
    return row && rowOf(row);
  }

  async finish(b: Bid, state: State, outcome: string, now: number): Promise<boolean> {
    const sql = `update webhook_claim set state = $4, outcome = $5, updated_at = $6
      where source = $1 and key = $2 and owner = $3 and state = 'busy'`;
    return (await this.changed(sql, b.source, b.key, b.owner, state, outcome, now)) > 0;
  }

  async renew(b: Bid, now: number, leaseUntil: number): Promise<boolean> {
    const sql = `update webhook_claim set lease_until = $4, updated_at = $5
      where source = $1 and key = $2 and owner = $3 and state = 'busy'`;
    return (await this.changed(sql, b.source, b.key, b.owner, leaseUntil, now)) > 0;
  }

  async clean(source: string, now: number, limit: number): Promise<number> {
    const old = `source = $1 and state in ('done', 'free') and keep_until < $2`;
    const claims = `delete from webhook_claim where ${old}
      and key in (select key from webhook_claim where ${old} order by keep_until limit $3)`;
    const inbox = `delete from webhook_inbox where id in (select i.id from webhook_inbox i where i.source = $1 and i.state = 'done'
      and not exists (select 1 from webhook_claim c where c.source = i.source and c.key = i.key) order by i.id limit $2)`;
    const cleaned = await this.changed(claims, source, now, limit);
    await this.changed(inbox, source, limit);
    return cleaned;
  }

  bury(b: Bid, letter: DeadLetter): Promise<boolean> {
    return this.atomic(async (store) => {
      const owned = await store.finish(b, "dead", "dead_lettered", letter.lastAt);
      if (owned) await store.write(letter, replacing);
      return owned;
    });
  }

  keep(letter: DeadLetter): Promise<void> {
    return this.write(letter, "do nothing");
  }

  private async write(d: DeadLetter, onConflict: string): Promise<void> {
    const sql = `insert into webhook_dead(source, key, headers, body, error, deliveries, first_at, last_at)
      values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict(source, key) ${onConflict}`;
    await this.rows(sql, d.source, d.key, JSON.stringify(d.headers), Buffer.from(d.body), d.error, d.deliveries, d.firstAt, d.lastAt);
  }

  async letter(source: string, key: string): Promise<DeadLetter | undefined> {
    const [row] = await this.rows("select * from webhook_dead where source = $1 and key = $2", source, key);
    return row && letterOf(row);
  }

  async letters(source: string, after = "", limit = 100): Promise<DeadLetter[]> {
    const sql = "select * from webhook_dead where source = $1 and key > $2 order by key limit $3";
    return (await this.rows(sql, source, after, limit)).map(letterOf);
  }

  async replayed(source: string, key: string, at: number, result: string): Promise<void> {
    await this.rows("update webhook_dead set replayed_at = $3, result = $4 where source = $1 and key = $2", source, key, at, result);
  }

  accept(b: Bid, r: InboxRequest): Promise<Claim | undefined> {
    return this.commits(b, patience, "accepted", async (store) => {
      const sql = `insert into webhook_inbox
        (id, source, key, ordering_key, sequence, state, headers, body, body_hash, next_at, received_at, updated_at)
        values ($1, $2, $3, $4, $5, 'ready', $6, $7, $8, $9, $9, $9)`;
      const headers = JSON.stringify(r.headers);
      await store.rows(sql, r.id, r.source, r.key, r.orderingKey, r.sequence, headers, Buffer.from(r.body), r.bodyHash, r.receivedAt);
      return "accepted";
    });
  }

  async take(source: string, owner: string, now: number, leaseUntil: number, block: boolean): Promise<Taken | undefined> {
    const sql = `update webhook_inbox set state = 'busy', owner = $2, lease_until = $4, attempts = attempts + 1, updated_at = $3
      where id = (select i.id from webhook_inbox i where i.source = $1
        and ((i.state = 'ready' and i.next_at <= $3) or (i.state = 'busy' and i.lease_until < $3))
        and (i.ordering_key = '' or not exists (select 1 from webhook_inbox e where e.source = i.source
          and e.ordering_key = i.ordering_key and (e.sequence, e.id) < (i.sequence, i.id)
          and e.state in ('ready', 'busy'${block ? ", 'dead'" : ""})))
        order by i.sequence, i.id limit 1${this.driver.postgres ? " for update skip locked" : ""})
      returning *`;
    const [row] = await this.rows(sql, source, owner, now, leaseUntil);
    return row && takenOf(row);
  }

  async extend(r: Taken, leaseUntil: number): Promise<boolean> {
    const sql = "update webhook_inbox set lease_until = $3 where id = $1 and owner = $2 and state = 'busy'";
    return (await this.changed(sql, r.id, r.owner, leaseUntil)) > 0;
  }

  revive(source: string, key: string, now: number): Promise<boolean> {
    return this.atomic(async (store) => {
      const inbox = `update webhook_inbox set state = 'ready', attempts = 0, next_at = $3, updated_at = $3
        where source = $1 and key = $2 and state = 'dead'`;
      const claim = `update webhook_claim set state = 'done', outcome = 'accepted', updated_at = $3
        where source = $1 and key = $2 and state = 'dead'`;
      return (await store.changed(inbox, source, key, now)) > 0 && (await store.changed(claim, source, key, now)) > 0;
    });
  }

  settle(r: Taken, to: Parameters<InboxStore["settle"]>[1]): Promise<boolean> {
    return this.atomic(async (store) => {
      const sql = `update webhook_inbox set state = $3, next_at = $4, error = $5, updated_at = $6
        where id = $1 and owner = $2 and state = 'busy'`;
      const owned = (await store.changed(sql, r.id, r.owner, to.state, to.nextAt, to.error, to.now)) > 0;
      if (owned && to.state === "dead") {
        const claim = `update webhook_claim set state = 'dead', outcome = 'dead_lettered', updated_at = $3
          where source = $1 and key = $2 and state = 'done'`;
        await store.rows(claim, r.source, r.key, to.now);
        const letter = { error: to.error, deliveries: r.attempts, firstAt: r.receivedAt, lastAt: to.now, replayedAt: 0, result: "" };
        await store.write({ ...r, ...letter }, replacing);
      }
      return owned;
    });
  }
}

const columnsOf = (b: Bid, state: State, outcome: string): unknown[] => [
  b.source,
  b.key,
  state,
  b.owner,
  b.leaseUntil,
  b.keepUntil,
  b.bodyHash,
  outcome,
  b.now,
];
const claimed = ({ owner, leaseUntil, bodyHash }: Bid, state: State, outcome: string, generation: number, deliveries: number): Claim => ({
  state,
  owner,
  generation,
  leaseUntil,
  bodyHash,
  outcome,
  deliveries,
});

type Columns = Record<string, any>;
const stored = (r: Columns) => ({
  source: String(r.source),
  key: String(r.key),
  headers: JSON.parse(r.headers) as Record<string, string>,
  body: new Uint8Array(r.body),
});
const rowOf = (r: Columns): Claim => ({
  state: r.state,
  owner: r.owner,
  generation: Number(r.generation),
  leaseUntil: Number(r.lease_until),
  bodyHash: r.body_hash,
  outcome: r.outcome,
  deliveries: Number(r.deliveries),
});
const letterOf = (r: Columns): DeadLetter => ({
  ...stored(r),
  error: r.error,
  deliveries: Number(r.deliveries),
  firstAt: Number(r.first_at),
  lastAt: Number(r.last_at),
  replayedAt: Number(r.replayed_at),
  result: r.result,
});
const takenOf = (r: Columns): Taken => ({
  ...stored(r),
  id: r.id,
  orderingKey: r.ordering_key,
  sequence: Number(r.sequence),
  bodyHash: r.body_hash,
  receivedAt: Number(r.received_at),
  attempts: Number(r.attempts),
  owner: r.owner,
});
