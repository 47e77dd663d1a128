// What a store does. Each step is atomic and durable when it returns, and compares times with those that it is given.

/** `busy`: an owner has it until its lease passes. `done`: its effect is committed. `free`: its last owner failed. `dead`: it failed
 * for good. */
export type State = "busy" | "done" | "free" | "dead";

/** Asks for a key. Times are milliseconds since 1970. */
export interface Bid {
  source: string;
  key: string;
  /** Random for each bid; what ends a claim compares it. */
  owner: string;
  bodyHash: string;
  now: number;
  leaseUntil: number;
  keepUntil: number;
  /** Takes what is dead, and nothing that is free or done. */
  replay: boolean;
}

/** The row of a key. A bid has won if the row's owner is its own. */
export interface Claim {
  state: State;
  owner: string;
  generation: number;
  leaseUntil: number;
  bodyHash: string;
  outcome: string;
  deliveries: number;
}

export interface Store {
  /** Its rows end with the process, so a receiver with it logs a warning. */
  readonly forgets?: boolean;
  /** Creates the tables that are missing. */
  setup(): Promise<void>;
  /** Makes a bid in one step and returns the row after it, whoever owns it; undefined if a replay finds none. */
  claim(bid: Bid): Promise<Claim | undefined>;
  /** The row of a key. */
  look(source: string, key: string): Promise<Claim | undefined>;
  /** Gives a busy claim its next state. False: another owner took it over, and nothing was changed. */
  finish(bid: Bid, state: State, outcome: string, now: number): Promise<boolean>;
  /** Moves the end of a busy claim's lease; false as for finish. */
  renew(bid: Bid, now: number, leaseUntil: number): Promise<boolean>;
  /** Deletes up to `limit` rows of a source that are no longer retained, and returns their number. */
  clean(source: string, now: number, limit: number): Promise<number>;
}

/** A request as it is stored: names of headers are in lower case, and none has a secret. */
export interface StoredRequest {
  source: string;
  key: string;
  headers: Record<string, string>;
  body: Uint8Array;
}

export interface DeadLetter extends StoredRequest {
  error: string;
  deliveries: number;
  firstAt: number;
  lastAt: number;
  /** 0: never. */
  replayedAt: number;
  /** Outcome of the last replay. */
  result: string;
}

/** A store that keeps dead letters. */
export interface LetterStore extends Store {
  /** Stores a letter and makes the busy claim dead, in one transaction; false as for finish. */
  bury(bid: Bid, letter: DeadLetter): Promise<boolean>;
  /** Stores a letter and leaves the claim as it is. It replaces none. */
  keep(letter: DeadLetter): Promise<void>;
  letter(source: string, key: string): Promise<DeadLetter | undefined>;
  /** Letters of a source by their keys, beginning after one. */
  letters(source: string, after?: string, limit?: number): Promise<DeadLetter[]>;
  replayed(source: string, key: string, at: number, result: string): Promise<void>;
}

/** A store that runs a handler in the transaction of its claim. */
export interface TransactionStore<Tx> extends Store {
  /** Makes a bid in a new transaction. If it wins, `run` says the outcome that the key is done with; an error rolls back. The result
   * is the row as the transaction leaves it. Throws LockTimeout if another transaction has the key for more than `wait` milliseconds. */
  transact(bid: Bid, wait: number, run: (tx: Tx, claim: Claim) => Promise<string>): Promise<Claim | undefined>;
}

export interface InboxRequest extends StoredRequest {
  id: string;
  orderingKey: string;
  sequence: number;
  bodyHash: string;
  receivedAt: number;
}

/** A request of the inbox that a worker has until its lease passes. */
export interface Taken extends InboxRequest {
  attempts: number;
  owner: string;
}

/** A store that has an inbox. */
export interface InboxStore extends LetterStore {
  /** Makes a bid and, if it wins, inserts the request and ends the claim as done, in one transaction. */
  accept(bid: Bid, request: InboxRequest): Promise<Claim | undefined>;
  /** The oldest request that may run now. `block`: a dead one stops the later ones of its ordering key. */
  take(source: string, owner: string, now: number, leaseUntil: number, block: boolean): Promise<Taken | undefined>;
  extend(request: Taken, leaseUntil: number): Promise<boolean>;
  /** Makes a dead request ready with no attempts, and its key done, in one transaction; false if it is not dead. */
  revive(source: string, key: string, now: number): Promise<boolean>;
  /** Ends a worker's attempt; false if another worker took the request over. A dead one leaves a letter, in one transaction. */
  settle(request: Taken, to: { state: "ready" | "done" | "dead"; nextAt: number; error: string; now: number }): Promise<boolean>;
}

/** Another transaction has the key, and did not end in time. */
export class LockTimeout extends Error {
  override name = "LockTimeout";
}

/** What gates and handlers need of a transaction. A client of `pg` has it, and so have the transactions of SQLite here. */
export interface Queryable {
  query(text: string, values?: unknown[]): Promise<{ rows: Record<string, any>[]; rowCount: number | null }>;
}
