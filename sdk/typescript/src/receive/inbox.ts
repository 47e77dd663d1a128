// Requests that are stored first, and handled by workers.
import { Delivery, storedHeaders } from "./delivery.js";
import { classify, LostClaim, permanent, retryAfterOf } from "./errors.js";
import { exact, parseJSON, scalar, utf8, valueAt } from "./json.js";
import { bidFor, limited, margin, NotDead, obtain, start, words, type Kit, type Result } from "./modes.js";
import type { Hooks } from "./receiver.js";
import type { Bid, InboxStore, Taken } from "./store.js";

/** All durations are in seconds. */
export interface InboxOptions {
  /** Requests with the same ordering key run one after the other: a path such as `data.invoice_id`, or a function. */
  orderBy?: string | ((delivery: Delivery) => string);
  /** The place of a request among those of its key; those that have one place run in the order in which they came. */
  sequence?: (delivery: Delivery) => number;
  /** Whether a dead request stops the later ones of its ordering key (`skip`). */
  onExhausted?: "block" | "skip";
  /** The pause after a first failure, which doubles with each further one (1), and the longest one (3600). */
  backoff?: { first?: number; longest?: number };
}

export interface WorkOptions {
  /** Handlers at once (4). */
  concurrency?: number;
  /** How often the store is asked for requests that other processes took in, in seconds (1). */
  poll?: number;
  /** Ends the work; handlers that run are waited for. */
  signal?: AbortSignal;
}

let count = 0;

export class Inbox {
  /** Answers requests once they are stored. */
  hooks!: Hooks;
  private wake = new AbortController();

  constructor(
    private readonly kit: Kit,
    private readonly store: InboxStore,
    private readonly source: string,
    private readonly handle: (d: Delivery) => unknown,
    private readonly options: InboxOptions,
    private readonly typeOf: (r: Taken) => string,
  ) {}

  async accept(d: Delivery): Promise<Result> {
    const [orderingKey, sequence] = [this.orderingKey(d), this.options.sequence?.(d) ?? 0];
    const request = { source: d.source, key: d.id, headers: storedHeaders(d), body: d.body };
    let bid!: Bid;
    const row = await obtain(
      this.kit,
      d,
      () => {
        bid = bidFor(this.kit, d);
        const { bodyHash, now } = bid;
        return this.store.accept(bid, { ...request, id: newId(now), bodyHash, orderingKey, sequence, receivedAt: now });
      },
      () => bid.owner,
    );
    if (!("state" in row)) return row;
    start(d, row);
    this.call();
    return { outcome: "accepted" };
  }

  /** Lets the workers attempt a dead request again. Of two replays at once the second throws NotDead. */
  async replay(id: string): Promise<"accepted"> {
    const now = this.kit.now();
    if (!(await this.store.revive(this.source, id, now))) throw new NotDead();
    await this.store.replayed(this.source, id, now, "accepted");
    this.call();
    return "accepted";
  }

  /** Wakes the workers that wait. */
  private call(): void {
    this.wake.abort();
    this.wake = new AbortController();
  }

  private orderingKey(d: Delivery): string {
    const { orderBy } = this.options;
    if (typeof orderBy === "function") return orderBy(d);
    if (!orderBy) return "";
    try {
      return scalar(valueAt(parseJSON(utf8(d.body), exact), orderBy.replace(/^\$\./, "")));
    } catch {
      return "";
    }
  }

  /** Handles requests until the signal aborts. */
  async work({ concurrency = 4, poll = 1, signal }: WorkOptions = {}): Promise<void> {
    await Promise.all(Array.from({ length: concurrency }, () => this.worker(poll * 1000, signal)));
  }

  /** Handles one request, if one may run now. */
  async step(): Promise<boolean> {
    const now = this.kit.now();
    const lease = this.kit.timeout + margin;
    const taken = await this.store.take(this.source, crypto.randomUUID(), now, now + lease, this.options.onExhausted === "block");
    if (taken) await this.attempt(taken);
    return taken !== undefined;
  }

  private async worker(poll: number, signal: AbortSignal | undefined): Promise<void> {
    while (!signal?.aborted) {
      const wake = this.wake.signal;
      let worked = false;
      try {
        worked = await this.step();
      } catch (error) {
        this.kit.log("the inbox could not be read; retrying", { source: this.source, error });
      }
      if (!worked) await idle(poll, wake, signal);
    }
  }

  private async attempt(r: Taken): Promise<void> {
    const { kit } = this;
    const d = new Delivery(r.source, r.key, () => this.typeOf(r), new Headers(r.headers), r.body);
    start(d, { generation: r.attempts, deliveries: r.attempts });
    let error: unknown;
    try {
      if (r.attempts > kit.maxDeliveries) throw permanent(`the request was tried ${kit.maxDeliveries} times`);
      await limited(
        kit,
        d,
        async () => this.handle(d),
        (_, until) => this.store.extend(r, until),
      );
    } catch (e) {
      if (e instanceof LostClaim)
        return kit.log("the request was lost; the handler took longer than its lease", { source: r.source, id: r.key });
      // The handler has not ended: nobody else may run it until its lease passes.
      if (d.endedBy(e)) return kit.log("the handler took too long", { source: r.source, id: r.key });
      error = e;
    }
    const now = kit.now();
    const kind = error === undefined ? "stale" : classify(error, kit.classify);
    if (kind === "stale" || kind === "parked") {
      await this.store.settle(r, { state: "done", nextAt: 0, error: "", now });
    } else if (kind === "retryable" && r.attempts < kit.maxDeliveries) {
      await this.store.settle(r, { state: "ready", nextAt: now + this.pause(r.attempts, error), error: words(error), now });
    } else {
      kit.log("the event was dead-lettered", { source: r.source, id: r.key, error });
      await this.store.settle(r, { state: "dead", nextAt: 0, error: words(error), now });
    }
    this.call(); // the next one of its ordering key may run
  }

  /** Milliseconds until the next attempt. */
  private pause(attempts: number, error: unknown): number {
    const { first = 1, longest = 3600 } = this.options.backoff ?? {};
    return retryAfterOf(error, this.kit.now()) ?? Math.min(first * 2 ** (attempts - 1), longest) * 1000;
  }
}

/** An id that sorts by arrival in this process. */
function newId(now: number): string {
  count = (count + 1) % 0x1000000;
  const random = crypto.randomUUID().slice(0, 13).replace("-", "");
  return `ibx_${now.toString(16).padStart(12, "0")}${count.toString(16).padStart(6, "0")}${random}`;
}

/** Ends after `wait` milliseconds, or when one of the signals aborts. */
function idle(wait: number, ...signals: (AbortSignal | undefined)[]): Promise<void> {
  return new Promise((resolve) => {
    const end = () => {
      clearTimeout(timer);
      for (const s of signals) s?.removeEventListener("abort", end);
      resolve();
    };
    const timer = setTimeout(end, wait);
    for (const s of signals) {
      if (s?.aborted) return end();
      s?.addEventListener("abort", end);
    }
  });
}
