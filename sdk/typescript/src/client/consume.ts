// Consuming a queue: leases, their extension while handlers run, and settling.

import { ApiError, type Http, json, part, rest, text } from "./http.js";
import type { components } from "./schema.js";

const FIRST_TROUBLE = 0.2; // seconds
const LONGEST_TROUBLE = 30;
const SHORTEST_SETTLING = 5; // seconds for settling, however little is left of the lease
const LONGEST_REASON = 500; // characters
const LONGEST_LEASE = 12 * 3600;

/** A handler throws it to make its message a dead letter: trying again would not help. */
export class Reject extends Error {
  override readonly name = "Reject";
}

/** A handler throws it to return its message to the queue for a time, in seconds. */
export class RetryAfter extends Error {
  override readonly name = "RetryAfter";
  constructor(
    readonly seconds: number,
    reason?: string,
    options?: ErrorOptions,
  ) {
    super(reason, options);
  }
}

/** The reason of a message's signal: another consumer may have the message. */
export class LeaseLost extends Error {
  override readonly name = "LeaseLost";
  constructor() {
    super("the lease has expired: another consumer may have the message");
  }
}

/** A leased message: the bytes that a publisher or provider sent. */
export class Message {
  constructor(
    /** Describes the message: event_id, type, key, attempt, content_type, first_seen_at. */
    readonly meta: components["schemas"]["Meta"],
    readonly body: Uint8Array,
    /** Aborts when the lease is lost, and when a stop takes longer than drain. */
    readonly signal: AbortSignal,
  ) {}

  get text(): string {
    return text(this.body);
  }

  json<T = any>(): T {
    return JSON.parse(this.text);
  }
}

export type Handler = (message: Message) => Promise<void> | void;

/** A message that was dealt with. */
export interface Settled {
  message: Message;
  outcome: "ack" | "nack" | "reject";
  /** Of a nack or reject. */
  reason: string;
  /** If set, it is unknown whether the server has recorded the outcome, so the message may come again. */
  error?: unknown;
}

/** How to consume. All durations are seconds. */
export interface ConsumeOptions {
  /** Aborts to stop: handlers finish within drain. */
  signal?: AbortSignal;
  /** Handlers at once; 1 if not given. */
  concurrency?: number;
  /** Ends after this many messages, and leases no others. */
  count?: number;
  /** How long one question for a message waits at the server, up to 60; 20 if not given. */
  wait?: number;
  /** How long handlers may go on after a stop; 30 if not given. */
  drain?: number;
  /** Name under which the server shows this consumer. */
  consumer?: string;
  /** Called with the settlement of each message. */
  settled?: (settled: Settled) => void;
  /** Called with the reason for missing messages before the server is asked again. */
  trouble?: (error: unknown) => void;
}

/** A message with its lease; times are of performance.now(). */
interface Lease {
  message: Message;
  cut: AbortController;
  length: number; // seconds
  end: number;
}

export async function consume(http: Http, queue: string, handler: Handler, options: ConsumeOptions = {}): Promise<void> {
  const { concurrency = 1, wait = 20, drain = 30, settled = () => {}, trouble = () => {} } = options;
  const path = `/v1/queues/${part(queue)}/next`;
  const stop = new AbortController(); // of leasing
  const working = new Set<AbortController>(); // of handlers
  let left = options.count ?? Infinity;
  let failure: { error: unknown } | undefined;
  let timer: ReturnType<typeof setTimeout> | undefined;
  const stopped = () => {
    stop.abort();
    timer = setTimeout(() => working.forEach((one) => one.abort(new Error("the consumer is being stopped"))), drain * 1000);
  };

  // One question for a message. The answer with one message has its bytes as they were sent.
  async function next(): Promise<Lease | undefined> {
    const query = { wait: duration(jittered(wait)), consumer: options.consumer };
    const answer = await http.send({ method: "GET", path, query, accept: "*/*", timeout: wait + 30, signal: stop.signal });
    if (answer.status === 204) return undefined;
    const meta = JSON.parse(answer.headers.get("Grapnel-Meta") ?? "null") as components["schemas"]["Meta"] | null;
    if (!meta) throw new ApiError(answer.status, { code: "unreadable", detail: "the server's answer has no Grapnel-Meta" });
    const cut = new AbortController();
    const length = Math.min(Math.max(remaining(meta.lease_expires_at, answer.headers.get("Date")), 1), LONGEST_LEASE);
    return { message: new Message(meta, answer.body, cut.signal), cut, length, end: performance.now() + length * 1000 };
  }

  // Takes one message after the other until the stop, the count, or an error that asking again cannot change.
  async function slot(): Promise<void> {
    for (let pause = FIRST_TROUBLE; left > 0 && !stop.signal.aborted;) {
      left--;
      const began = performance.now();
      let lease: Lease | undefined;
      let missing: unknown;
      try {
        lease = await next();
      } catch (error) {
        missing = error;
      }
      if (lease) {
        pause = FIRST_TROUBLE;
        await (stop.signal.aborted ? settle(lease, new RetryAfter(0, "the consumer is being stopped")) : work(lease));
        continue;
      }
      left++;
      if (stop.signal.aborted) return;
      if (missing !== undefined && final(missing)) {
        failure ??= { error: missing };
        stop.abort();
        return;
      }
      if (missing === undefined && performance.now() - began >= (wait * 1000) / 4) {
        pause = FIRST_TROUBLE;
        continue;
      }
      // An empty answer that comes at once is from a server that is about to stop.
      if (missing !== undefined) trouble(missing);
      await http.rest(after(pause, missing), stop.signal);
      pause = Math.min(2 * pause, LONGEST_TROUBLE);
    }
  }

  // Runs a message's handler under its lease, and settles the message.
  async function work(lease: Lease): Promise<void> {
    const { message, cut } = lease;
    working.add(cut);
    const done = new AbortController();
    const keeping = keep(lease, done.signal);
    let error: unknown;
    let failed = false;
    try {
      await handler(message);
    } catch (thrown) {
      [error, failed] = [thrown, true];
    }
    const lost = cut.signal.aborted && cut.signal.reason instanceof LeaseLost;
    done.abort();
    working.delete(cut);
    await keeping;
    if (lost) settled({ message, ...judge(failed, error), error: cut.signal.reason });
    else await settle(lease, failed ? (error ?? new Error("unknown")) : undefined);
  }

  // Extends a lease each time half of it has passed, until done. When it expires, it aborts the handler's signal.
  async function keep(lease: Lease, done: AbortSignal): Promise<void> {
    const left = () => (lease.end - performance.now()) / 1000;
    for (let pause = left() / 2; ;) {
      await rest(pause, done);
      if (done.aborted) return;
      const asked = performance.now();
      try {
        await say(lease, "extend", { by: duration(lease.length) }, left() / 2, done);
        // The server counts from when it got the request, which is after asked.
        lease.end = asked + lease.length * 1000;
        pause = lease.length / 2;
      } catch (error) {
        if (done.aborted) return;
        if (over(error) || left() <= 0) return lease.cut.abort(new LeaseLost());
        pause = Math.max(left() / 4, 0.05);
      }
    }
  }

  // Tells the server the outcome, repeatedly until it has an answer or the lease has expired. A stop does not interrupt
  // it, because the work is done by then.
  async function settle(lease: Lease, error: unknown): Promise<void> {
    const { outcome, reason } = judge(error !== undefined, error);
    const delay = error instanceof RetryAfter ? { delay: duration(Math.min(Math.max(0, error.seconds), 24 * 3600)) } : {};
    const end = Math.max(lease.end, performance.now() + SHORTEST_SETTLING * 1000);
    const report = (problem?: unknown) =>
      settled({ message: lease.message, outcome, reason, ...(problem !== undefined && { error: problem }) });
    for (let pause = FIRST_TROUBLE; ; pause = Math.min(2 * pause, LONGEST_TROUBLE)) {
      const left = (end - performance.now()) / 1000;
      try {
        await say(lease, outcome, outcome === "ack" ? undefined : { reason, ...delay }, Math.max(left / 2, 0.05));
        return report();
      } catch (problem) {
        const wait = after(pause, problem);
        if (final(problem) || over(problem) || left <= wait) return report(problem);
        await http.rest(wait);
      }
    }
  }

  // A lease can be used once, so a repetition does no harm and needs no idempotency key.
  async function say(lease: Lease, verb: string, body: unknown, timeout: number, signal?: AbortSignal): Promise<void> {
    json(
      await http.send({
        method: "POST",
        path: `/v1/leases/${part(lease.message.meta.lease)}/${verb}`,
        body,
        idempotent: true,
        timeout,
        signal,
      }),
    );
  }

  options.signal?.addEventListener("abort", stopped, { once: true });
  if (options.signal?.aborted) stopped();
  try {
    await Promise.all(Array.from({ length: Math.max(1, concurrency) }, slot));
  } finally {
    clearTimeout(timer);
    options.signal?.removeEventListener("abort", stopped);
  }
  if (failure) throw failure.error;
}

/** The settlement that a handler's end means. */
function judge(failed: boolean, error: unknown): Pick<Settled, "outcome" | "reason"> {
  if (!failed) return { outcome: "ack", reason: "" };
  const all = [...(error instanceof Error ? error.message || error.name : String(error)).replaceAll("\0", "")];
  const reason = all.length <= LONGEST_REASON ? all.join("") : `${all.slice(0, LONGEST_REASON - 1).join("")}…`;
  return { outcome: error instanceof Reject ? "reject" : "nack", reason };
}

/** Says whether asking again gives the same answer. */
function final(error: unknown): boolean {
  return error instanceof ApiError && error.status < 500 && error.status >= 300 && ![408, 409, 425, 429].includes(error.status);
}

/** Says whether a lease has expired, is settled, or is unknown to the server. */
function over(error: unknown): boolean {
  return error instanceof ApiError && [404, 409, 410].includes(error.status);
}

/** Seconds that are left of a lease. The clocks may differ: the answer has the server's time in whole seconds, rounded down. */
function remaining(until: string, date: string | null): number {
  let now = Date.now();
  const server = Date.parse(date ?? "");
  if (now - server < 0 || now - server > 3000) now = server + 500;
  return (Date.parse(until) - now) / 1000;
}

/** Between four fifths of a time and all of it, so that many consumers do not ask at the same instant. */
function jittered(seconds: number): number {
  return seconds * (1 - Math.random() / 5);
}

/** A jittered pause, but not shorter than the server asks for. */
function after(pause: number, error: unknown): number {
  return Math.max(jittered(pause), error instanceof ApiError ? error.retryAfter : 0);
}

function duration(seconds: number): string {
  return `${Math.round(seconds * 1000)}ms`;
}
