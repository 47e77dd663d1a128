// How a delivery is claimed, how its handler runs, and how its end becomes durable.
import { Delivery, storedHeaders } from "./delivery.js";
import { classify, LostClaim, permanent, retryAfterOf, type Classifier, type ErrorClass } from "./errors.js";
import type { Outcome } from "./outcomes.js";
import { sha256 } from "./secrets.js";
import {
  LockTimeout,
  type Bid,
  type Claim,
  type DeadLetter,
  type InboxStore,
  type LetterStore,
  type Store,
  type TransactionStore,
} from "./store.js";

/** The end of a delivery. */
export interface Result {
  outcome: Outcome;
  /** Milliseconds of Retry-After. */
  retryAfter?: number;
  /** What failed; it may contain data of the event. */
  error?: unknown;
}

/** What the modes need of a receiver; durations are in milliseconds. */
export interface Kit {
  store: Store;
  /** The store, if it keeps dead letters and the receiver wants them. */
  letters?: LetterStore;
  window: number;
  timeout: number;
  wait: number;
  maxDeliveries: number;
  classify?: Classifier;
  now: () => number;
  log: (message: string, details: Record<string, unknown>) => void;
}

/** Of the lease after the handler's time. */
export const margin = 5_000;
const firstPause = 10;
const longestPause = 200;

/** Takes a delivery from its bid to what is durable. */
export type Mode = (d: Delivery) => Promise<Result>;

/** A bid for the key of a delivery, with a new owner and the times of now. */
export function bidFor(kit: Kit, d: Delivery): Bid {
  const now = kit.now();
  return {
    source: d.source,
    key: d.id,
    owner: crypto.randomUUID(),
    bodyHash: sha256(d.body),
    now,
    leaseUntil: now + kit.timeout + margin,
    keepUntil: now + kit.window,
    replay: d.replayed,
  };
}

/** The handler runs between a claim with a lease and its end: for effects outside of the store's database. */
export const claimMode =
  (kit: Kit, handle: (d: Delivery) => unknown): Mode =>
  async (d) => {
    let bid!: Bid;
    const claim = await obtain(
      kit,
      d,
      () => kit.store.claim((bid = bidFor(kit, d))),
      () => bid.owner,
    );
    if (!("state" in claim)) return claim;
    start(d, claim);
    let running = Promise.resolve();
    const run = async () => {
      exhausted(kit, d);
      await handle(d);
    };
    try {
      await limited(
        kit,
        d,
        () => (running = run()),
        (now, until) => kit.store.renew(bid, now, until),
      );
    } catch (e) {
      if (e instanceof LostClaim) return lost(kit, d, e);
      if (d.endedBy(e)) {
        // The handler has not ended: its claim stays until its lease passes, or until it ends.
        const late = running.then(() => undefined, thrown);
        void late
          .then((error) => finish(kit, d, bid, error))
          .catch((error: unknown) => kit.log("a late end was not stored", { id: d.id, error }));
        return { outcome: "retryable", error: e };
      }
      return finish(kit, d, bid, e);
    }
    return finish(kit, d, bid, undefined);
  };

/** The handler runs in the transaction of its claim: for effects in the store's own database. */
export const transactionMode =
  <Tx>(kit: Kit, store: TransactionStore<Tx>, handle: (d: Delivery, tx: Tx) => unknown): Mode =>
  async (d) => {
    let bid!: Bid;
    let failed: { error: unknown } | undefined;
    let ran = false;
    const claim = await obtain(
      kit,
      d,
      () => {
        bid = bidFor(kit, d);
        return store.transact(bid, kit.wait, async (tx, c) => {
          ran = true;
          start(d, c);
          try {
            exhausted(kit, d);
            await limited(kit, d, async () => handle(d, tx));
            return "processed";
          } catch (error) {
            if (kindOf(kit, error) === "parked") return "parked";
            failed = { error };
            throw error;
          }
        });
      },
      () => bid.owner,
    );
    if ("state" in claim) return { outcome: claim.outcome as Outcome };
    if (!ran) return claim;
    // The transaction was rolled back, so the delivery is counted in one of its own.
    try {
      const count = { ...bidFor(kit, d), leaseUntil: kit.now() + margin };
      const row = await kit.store.claim(count);
      if (row?.owner !== count.owner) return { outcome: "in_progress", error: (failed ?? claim).error };
      d.attempt = row.deliveries;
      return await finish(kit, d, count, (failed ?? claim).error ?? new Error("the transaction failed"));
    } catch (error) {
      return { outcome: "retryable", error };
    }
  };

/**
 * Makes bids until one wins, or until the row of another owner answers the request. A copy that finds a running owner waits for at most
 * `wait`, and gets the outcome with which that owner ends.
 */
export async function obtain(
  kit: Kit,
  d: Delivery,
  attempt: () => Promise<Claim | undefined>,
  owner: () => string,
): Promise<Claim | Result> {
  const until = performance.now() + kit.wait;
  let waited = false;
  let pause = firstPause;
  try {
    let row = await attempt();
    for (;;) {
      if (row?.owner === owner()) return row;
      if (d.replayed) return { outcome: "dead_lettered", error: new NotDead() };
      if (row?.state === "dead") return { outcome: row.outcome === "permanent" ? "permanent" : "dead_lettered" };
      if (row?.state === "done" && row.bodyHash !== sha256(d.body)) return await conflict(kit, d);
      if (row?.state === "done" && !waited) return { outcome: "duplicate" };
      if (waited && (row?.state === "done" || row?.state === "free")) return { outcome: row.outcome as Outcome };
      if (performance.now() >= until) return { outcome: "in_progress" };
      if (row?.state === "busy" && row.leaseUntil >= kit.now()) {
        waited = true;
        await new Promise((resolve) => setTimeout(resolve, Math.min(pause, until - performance.now())));
        pause = Math.min(2 * pause, longestPause);
        row = await kit.store.look(d.source, d.id);
      } else {
        row = await attempt(); // the row was released, expired or cleaned since the last bid
      }
    }
  } catch (error) {
    return { outcome: error instanceof LockTimeout ? "in_progress" : "retryable", error };
  }
}

/** A replay found no dead letter under the key, or another replay has taken it. */
export class NotDead extends Error {
  override name = "NotDead";
  constructor() {
    super("the key has no dead letter that can be replayed");
  }
}

export function start(d: Delivery, c: { generation: number; deliveries: number }): void {
  d.generation = c.generation;
  d.attempt = c.deliveries;
}

function exhausted(kit: Kit, d: Delivery): void {
  if (d.attempt > kit.maxDeliveries && !d.replayed) throw permanent(`the key was tried ${kit.maxDeliveries} times`);
}

/**
 * Runs a handler, awaits it for at most its time, and renews its lease meanwhile. What it throws for these two is also the signal's
 * reason.
 */
export function limited(
  kit: Kit,
  d: Delivery,
  run: () => Promise<unknown>,
  renew?: (now: number, until: number) => Promise<boolean>,
): Promise<void> {
  const lease = kit.timeout + margin;
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(over);
      clearInterval(renewal);
    };
    const end = (reason: Error) => {
      stop();
      d.end(reason);
      reject(reason);
    };
    const over = setTimeout(() => end(new DOMException("the handler took too long", "TimeoutError")), kit.timeout);
    const renewal =
      renew &&
      setInterval(() => {
        const now = kit.now();
        // A store that does not answer has not taken the claim away: the next renewal may succeed.
        renew(now, now + lease).then(
          (owned) => owned || end(new LostClaim()),
          () => {},
        );
      }, lease / 3);
    run().then(
      () => {
        stop();
        resolve();
      },
      (error: unknown) => {
        stop();
        reject(thrown(error));
      },
    );
  });
}

/** An error for `reject()` and `throw undefined`: without one a failure would be taken for success. */
const thrown = (error: unknown) => error ?? new Error("the handler failed without an error");

function kindOf(kit: Kit, error: unknown): ErrorClass {
  return classify(error, kit.classify);
}

/** Makes the end of a claim's handler durable, and says the answer. */
export async function finish(kit: Kit, d: Delivery, bid: Bid, error: unknown): Promise<Result> {
  const kind = error === undefined ? undefined : kindOf(kit, error);
  const last = d.attempt >= kit.maxDeliveries || d.replayed;
  const result: Result = { outcome: kind ?? "processed", error, retryAfter: retryAfterOf(error, kit.now()) };
  let owned: boolean;
  try {
    if (kind === undefined || kind === "stale" || kind === "parked") {
      owned = await kit.store.finish(bid, "done", result.outcome, kit.now());
    } else if (kit.letters && (kind === "permanent" || (kind === "retryable" && last))) {
      result.outcome = "dead_lettered";
      owned = await kit.letters.bury(bid, letterOf(kit, d, error));
      kit.log("the event was dead-lettered", { source: d.source, id: d.id, error });
    } else if (last && kind !== "gone") {
      result.outcome = "permanent";
      owned = await kit.store.finish(bid, "dead", "permanent", kit.now());
    } else {
      owned = await kit.store.finish(bid, "free", result.outcome, kit.now());
    }
  } catch (failure) {
    return { outcome: "retryable", error: failure };
  }
  return owned ? result : lost(kit, d, new LostClaim());
}

function lost(kit: Kit, d: Delivery, error: LostClaim): Result {
  kit.log("the claim was lost; the handler took longer than its lease", { source: d.source, id: d.id });
  return { outcome: "in_progress", error };
}

/** Stores the body that differs, so that an operator can compare the two. */
async function conflict(kit: Kit, d: Delivery): Promise<Result> {
  const error = new Error("conflict: the key was processed with another body");
  kit.log(error.message, { source: d.source, id: d.id });
  try {
    await kit.letters?.keep(letterOf(kit, d, error));
  } catch (failure) {
    return { outcome: "retryable", error: failure };
  }
  return { outcome: "conflict", error };
}

const maxError = 1000;

/** An error and its causes in words. */
export function words(error: unknown): string {
  const parts: string[] = [];
  for (let e = error; e !== undefined && e !== null && parts.length < 8; e = (e as { cause?: unknown }).cause)
    parts.push(e instanceof Error ? `${e.name}: ${e.message}` : String(e));
  return parts.join("; ").replaceAll("\u0000", "").slice(0, maxError);
}

function letterOf(kit: Kit, d: Delivery, error: unknown): DeadLetter {
  const at = kit.now();
  const times = { firstAt: at, lastAt: at, replayedAt: 0, result: "" };
  return { source: d.source, key: d.id, headers: storedHeaders(d), body: d.body, error: words(error), deliveries: d.attempt, ...times };
}

/** What a store can do beside claims. */
export const keepsLetters = (store: Store): store is LetterStore => "bury" in store;
export const hasTransactions = (store: Store): store is TransactionStore<unknown> => "transact" in store;
export const hasInbox = (store: Store): store is InboxStore => "accept" in store;
