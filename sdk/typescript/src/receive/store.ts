// What a store does. Its claims are one statement each, so two workers never both win.

/** `busy`: a worker holds it. `done`: processed. `free`: failed, and the next delivery may have it. `dead`: dead-lettered. */
export type State = "busy" | "done" | "free" | "dead";

/** A claim of a key by one worker. Times are milliseconds since 1970. */
export interface Claim {
  source: string;
  key: string;
  /** Random for each claim; what completes and releases compares it. */
  owner: string;
  bodyHash: string;
  now: number;
  leaseUntil: number;
  keepUntil: number;
  /** The state that the claim leaves the row in; `busy` for a worker that runs a handler now. */
  state: State;
  outcome: string;
  /** Takes over a dead letter instead of a free row. */
  replay?: boolean;
}

export interface Row {
  state: State;
  bodyHash: string;
  outcome: string;
  updatedAt: number;
}

/** What became of a claim: won, or the row of the one that has the key. */
export type Claimed = { won: true; generation: number; deliveries: number } | { won: false; row: Row };

export interface Finish {
  state: State;
  outcome: string;
  now: number;
  keepUntil: number;
}

export interface Stored {
  source: string;
  key: string;
  headers: [string, string][];
  body: Uint8Array;
}

export interface DeadLetter extends Stored {
  error: string;
  deliveries: number;
  firstAt: number;
  lastAt: number;
  replayedAt: number;
  result: string;
}

export interface InboxRequest extends Stored {
  id: string;
  orderingKey: string;
  sequence: number;
  bodyHash: string;
  receivedAt: number;
}

/** A request of the inbox that a worker holds until its lease passes. */
export interface Taken extends InboxRequest {
  attempts: number;
}

export interface Store {
  /** Creates the tables that are missing. */
  setup(): Promise<void>;
  claim(claim: Claim): Promise<Claimed>;
  /** Ends a claim; false if another worker took it over. */
  finish(claim: Claim, to: Finish): Promise<boolean>;
  /** Moves the lease's end; false if another worker took the claim over. */
  renew(claim: Claim, leaseUntil: number): Promise<boolean>;
  /** Deletes up to `limit` rows of a source whose window is past, and says how many. */
  cleanup(source: string, now: number, limit: number): Promise<number>;
  bury(letter: DeadLetter): Promise<void>;
  deadLetter(source: string, key: string): Promise<DeadLetter | undefined>;
  deadLetters(source: string, limit?: number): Promise<DeadLetter[]>;
  replayed(source: string, key: string, at: number, result: string): Promise<void>;
  /** Runs several of these in one transaction, if the store has transactions. */
  atomic<T>(run: (store: Store) => Promise<T>): Promise<T>;
}

/** A store that can run a handler in the transaction of its claim. `wait` is in milliseconds. */
export interface TransactionStore<Tx> extends Store {
  transaction<T>(wait: number, run: (tx: Tx, store: Store) => Promise<T>): Promise<T>;
}

/** A store that has an inbox. */
export interface InboxStore extends Store {
  atomic<T>(run: (store: InboxStore) => Promise<T>): Promise<T>;
  put(request: InboxRequest): Promise<void>;
  /** The oldest request that may run now; `block`: a dead one stops the later ones of its ordering key. */
  take(source: string, owner: string, now: number, leaseUntil: number, block: boolean): Promise<Taken | undefined>;
  extend(id: string, owner: string, leaseUntil: number): Promise<boolean>;
  /** Ends a worker's attempt; false if another worker took the request over. */
  settle(id: string, owner: string, to: { state: "ready" | "done" | "dead"; nextAt: number; error: string; now: number }): Promise<boolean>;
}

/** Another transaction holds the key's lock, and did not end in time. */
export class LockTimeout extends Error {
  override name = "LockTimeout";
}

/** What gates and statements of handlers need of a transaction. A client of `pg` has it, and SQLite's transactions here. */
export interface Queryable {
  query(text: string, values?: unknown[]): Promise<{ rows: Record<string, unknown>[]; rowCount: number | null }>;
}
