// A receiver of one source's webhooks: the door of this package.
import { Buffer } from "node:buffer";
import { Delivery } from "./delivery.js";
import type { Classifier } from "./errors.js";
import { Inbox, type InboxOptions } from "./inbox.js";
import { claimMode, hasInbox, hasTransactions, keepsLetters, NotDead, transactionMode, type Kit, type Mode, type Result } from "./modes.js";
import { answer, bodyIsGone, responseOf, type Answer, type Outcome } from "./outcomes.js";
import { Refused, type Incoming, type Source } from "./source.js";
import type { InboxStore, Store, Taken, TransactionStore } from "./store.js";
import { Verifier } from "./verify.js";

/** What a receiver needs. All durations are in seconds. */
export interface Options<S extends Store = Store> {
  source: Source;
  store: S;
  /** How long the key of a processed event is retained (8 days). */
  window?: number;
  /** Of a handler (25). */
  timeout?: number;
  /** Of a copy for the one that is running (2). */
  wait?: number;
  /** Bytes of a body (1 MiB). */
  maxBody?: number;
  /** Of one key whose handler fails (20). */
  maxDeliveries?: number;
  /** Requests at once (100). */
  concurrency?: number;
  /** False: an event whose handler fails for good is answered with 422 instead of being stored. */
  deadLetters?: boolean;
  /** May choose the class of a handler's error that is not typed; undefined: the default. */
  classify?: Classifier;
  /** Called after each answer. What it throws is dropped. */
  observe?: (o: Observation) => void;
  /** Where conflicts, lost claims and dead letters are said (console.warn). */
  log?: (message: string, details: Record<string, unknown>) => void;
  /** The clock, in milliseconds since 1970. */
  now?: () => number;
}

/** One answered request. The error may contain data of the event. */
export interface Observation {
  source: string;
  id: string;
  outcome: Outcome;
  error?: unknown;
  generation: number;
  attempt: number;
  milliseconds: number;
}

/** Answers the requests of a source, in one mode. */
export interface Hooks {
  (request: Request): Promise<Response>;
  /** Bytes of a body that it reads. */
  readonly maxBody: number;
  /** The same for a server without Web Requests, which has read the body as it came. */
  handle(request: Incoming): Promise<Answer>;
  /**
   * Runs the handler for a dead letter, through the same claim as a request: of two replays at once the second throws NotDead. A replay
   * that fails leaves the letter with its new error. In an inbox it is `accepted`: workers run the handler.
   */
  replay(id: string): Promise<Outcome>;
}

/** What a handler returns is not used. It fails by throwing. */
export type Handler = (delivery: Delivery) => unknown;
export type TransactionHandler<Tx> = (delivery: Delivery, tx: Tx) => unknown;
type TxOf<S> = S extends TransactionStore<infer Tx> ? Tx : never;

const defaults = { window: 8 * 24 * 3600, timeout: 25, wait: 2, maxBody: 1 << 20, maxDeliveries: 20, concurrency: 100 };
const cleanBatch = 500;
/** Of an event id, in bytes: an index of PostgreSQL takes 2,704. */
const maxKey = 512;

/** Checks the options and makes a receiver. It connects to nothing. */
export function createReceiver<S extends Store>(options: Options<S>): Receiver<S> {
  return new Receiver(options);
}

export class Receiver<S extends Store> {
  private readonly verifier: Verifier;
  private readonly limits: typeof defaults;
  private readonly kit: Kit;
  private running = 0;

  constructor(private readonly options: Options<S>) {
    const { source, store } = options;
    if (!source?.name) throw new TypeError('source.name is empty; give the sender a name, such as "stripe"');
    if (!store) throw new TypeError("store is missing; give one, such as pgStore(pool)");
    this.verifier = new Verifier(source);
    const given = Object.fromEntries(Object.entries(options).filter(([name, value]) => name in defaults && value !== undefined));
    this.limits = { ...defaults, ...given };
    for (const [name, value] of Object.entries(this.limits))
      if (!(value > 0)) throw new RangeError(`${name}: ${value} is not greater than 0`);
    const { window, timeout, wait, maxDeliveries } = this.limits;
    const least = this.verifier.span * 1.25;
    if (window < least)
      throw new RangeError(
        `window: ${window} s is shorter than ${least} s, the sender's span of ${this.verifier.span} s and a quarter more; raise it`,
      );
    this.kit = {
      store,
      ...(keepsLetters(store) && options.deadLetters !== false && { letters: store }),
      ...{ window: window * 1000, timeout: timeout * 1000, wait: wait * 1000, maxDeliveries },
      classify: options.classify,
      now: options.now ?? Date.now,
      log: options.log ?? ((message, details) => console.warn(`grapnel/receive: ${message}`, details)),
    };
    if (store.forgets)
      this.kit.log("keys are in memory; a restart forgets them, and events that are sent again have a second effect", {
        source: source.name,
      });
  }

  /** The handler runs in the transaction of its claim. The effect and the key commit together, so a crash leaves both or neither. */
  transaction(handle: TransactionHandler<TxOf<S>>): Hooks {
    const { store } = this.kit;
    if (!hasTransactions(store)) throw new TypeError("the store has no transactions: use pgStore or sqliteStore, or the mode claim");
    return this.hooks(transactionMode(this.kit, store as TransactionStore<TxOf<S>>, handle));
  }

  /**
   * The handler runs between a claim with a lease and its end: for effects outside of the store's database. A crash repeats it, so calls
   * of other services should carry `delivery.idempotencyKey(step)`.
   */
  claim(handle: Handler): Hooks {
    return this.hooks(claimMode(this.kit, handle));
  }

  /** Requests are answered once they are stored; the workers of `inbox.work` run the handler later. */
  inbox(handle: Handler, options: S extends InboxStore ? InboxOptions : never = {} as never): Inbox {
    const { store } = this.kit;
    if (!hasInbox(store)) throw new TypeError("the store has no inbox: use pgStore, sqliteStore or memoryStore");
    const typeOf = (r: Taken) => this.verifier.typeOf(r);
    const inbox = new Inbox(this.kit, store, this.options.source.name, handle, options as InboxOptions, typeOf);
    inbox.hooks = this.hooks(
      (d) => inbox.accept(d),
      (id) => inbox.replay(id),
    );
    return inbox;
  }

  /** Deletes the keys that are no longer retained, in batches, and returns their number. Call it about once an hour. */
  async clean(): Promise<number> {
    for (let total = 0; ;) {
      const n = await this.kit.store.clean(this.options.source.name, this.kit.now(), cleanBatch);
      total += n;
      if (n < cleanBatch) return total;
    }
  }

  private hooks(mode: Mode, replay: Hooks["replay"] = (id) => this.replay(id, mode)): Hooks {
    const { maxBody } = this.limits;
    const hooks = async (request: Request) => {
      if (request.bodyUsed)
        return responseOf(
          bodyIsGone("The body was read before the receiver got the request, and the signature covers its bytes. Call the receiver first."),
        );
      const { method, url, headers } = request;
      return responseOf(await this.respond(mode, async () => ({ method, url, headers, body: await bytesOf(request, maxBody) })));
    };
    return Object.assign(hooks, { maxBody, replay, handle: (request: Incoming) => this.respond(mode, () => request) });
  }

  private async respond(mode: Mode, incoming: () => Incoming | Promise<Incoming>): Promise<Answer> {
    const began = performance.now();
    let d: Delivery | undefined;
    let result: Result = { outcome: "overloaded" };
    if (this.running < this.limits.concurrency) {
      this.running++;
      try {
        d = this.verified(await incoming());
        result = await mode(d);
      } catch (error) {
        result = error instanceof Refusal ? error.result : { outcome: "retryable", error };
      } finally {
        this.running--;
      }
    }
    const { outcome, error, retryAfter } = result;
    try {
      const milliseconds = performance.now() - began;
      const [id, generation, attempt] = [d?.id ?? "", d?.generation ?? 0, d?.attempt ?? 0];
      this.options.observe?.({ source: this.options.source.name, id, outcome, error, generation, attempt, milliseconds });
    } catch {
      // The answer does not depend on who counts it.
    }
    return answer(outcome, retryAfter);
  }

  /** The delivery of a request that verifies; throws Refusal. */
  private verified(request: Incoming): Delivery {
    const { headers, body } = request;
    if (body.length > this.limits.maxBody) throw tooLarge();
    try {
      const verified = this.verifier.verify(request, this.kit.now());
      // A column of text takes no zero byte, and ids go to logs.
      if (Buffer.byteLength(verified.id) > maxKey || /[\u0000-\u001f\u007f-\u009f]/.test(verified.id))
        throw new Refused("malformed", `The event id is longer than ${maxKey} bytes, or has a control character.`);
      return new Delivery(this.options.source.name, verified.id, () => verified.type, headers, body, false, verified.secretHeaders);
    } catch (error) {
      throw error instanceof Refused ? new Refusal({ outcome: error.outcome, error }) : error;
    }
  }

  private async replay(id: string, mode: Mode): Promise<Outcome> {
    const { letters } = this.kit;
    if (!letters) throw new TypeError("the receiver keeps no dead letters");
    const source = this.options.source.name;
    const letter = await letters.letter(source, id);
    if (!letter) throw new NotDead();
    const d = new Delivery(source, id, () => this.verifier.typeOf(letter), new Headers(letter.headers), letter.body, true);
    const { outcome, error } = await mode(d);
    if (error instanceof NotDead) throw error;
    await letters.replayed(source, id, this.kit.now(), outcome);
    return outcome;
  }
}

/** Ends a request before its mode. */
class Refusal extends Error {
  constructor(readonly result: Result) {
    super(result.outcome);
  }
}

const tooLarge = () => new Refusal({ outcome: "too_large" });

async function bytesOf(request: Request, limit: number): Promise<Uint8Array> {
  if (Number(request.headers.get("content-length")) > limit) {
    await request.body?.cancel();
    throw tooLarge();
  }
  const chunks: Uint8Array[] = [];
  let size = 0;
  const reader = request.body?.getReader();
  for (let next = await reader?.read(); next && !next.done; next = await reader?.read()) {
    size += next.value.length;
    if (size > limit) {
      await reader?.cancel();
      throw tooLarge();
    }
    chunks.push(next.value);
  }
  return chunks.length === 1 ? chunks[0]! : Buffer.concat(chunks);
}
