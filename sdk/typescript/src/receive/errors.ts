// Which failures of a handler pass, and which do not.

/** What a handler's failure means. */
export type ErrorClass = "retryable" | "permanent" | "gone" | "stale" | "parked";

/** An error that says by itself what it means; made by {@link permanent} and its like. */
export class WebhookError extends Error {
  override name = "WebhookError";
  constructor(
    readonly kind: ErrorClass,
    message: string,
    /** Seconds until a new delivery makes sense. */
    readonly retryAfter?: number,
    cause?: unknown,
  ) {
    super(message, cause === undefined ? undefined : { cause });
  }
}

/** The handler can never process this event: it is dead-lettered, or answered 422. */
export const permanent = (message: string, cause?: unknown) => new WebhookError("permanent", message, undefined, cause);

/** The failure passes; the sender delivers again by its own schedule. */
export const retryable = (message: string, cause?: unknown) => new WebhookError("retryable", message, undefined, cause);

/** The failure passes after that many seconds. */
export const retryAfter = (seconds: number, message = "try again later", cause?: unknown) => {
  if (!(seconds >= 0)) throw new RangeError(`retryAfter(${seconds}): the seconds must be 0 or more`);
  return new WebhookError("retryable", message, Math.ceil(seconds), cause);
};

/** The receiver wants no more events: 410, by which senders disable an endpoint. */
export const gone = (message = "no more events are wanted") => new WebhookError("gone", message);

/** A newer version is in the database; nothing was changed. */
export const stale = (message = "a newer version was processed before") => new WebhookError("stale", message);

/** An earlier version is missing, and the handler has stored the event until it comes: its transaction is committed. */
export const parked = (message = "an earlier version is missing") => new WebhookError("parked", message);

/** The worker's lease passed and another one took the claim over. */
export class LostClaim extends Error {
  override name = "LostClaim";
  constructor() {
    super("the claim was lost: its lease passed and another worker took it over");
  }
}

/** What the defaults say of an error; undefined if they say nothing. */
export type Classifier = (error: unknown) => ErrorClass | undefined;

const retryableStates = /^(40001|40P01|55P03|57P0.|53...)$/;
const permanentStates = /^(22|23)...$/;
const network = /^(E(CONN(REFUSED|RESET|ABORTED)|PIPE|TIMEDOUT|HOSTUNREACH|NETUNREACH|NETDOWN|AI_AGAIN|NOTFOUND)|UND_ERR_.*)$/;

/** The class of an error by `sdk/conformance/errors.json`. What is unknown is retryable. */
export function classify(error: unknown, own?: Classifier): ErrorClass {
  const chain = chainOf(error);
  const typed = chain.find((e) => e instanceof WebhookError);
  return typed?.kind ?? own?.(error) ?? first(chain, passes) ?? first(chain, lasts) ?? "retryable";
}

/** An error and its causes. */
function chainOf(error: unknown): Failure[] {
  const chain: Failure[] = [];
  for (let e = error; typeof e === "object" && e !== null && chain.length < 8; e = (e as Failure).cause) chain.push(e as Failure);
  return chain;
}

const first = (chain: Failure[], test: (e: Failure) => ErrorClass | undefined) => chain.map(test).find((c) => c !== undefined);

interface Failure {
  name?: unknown;
  code?: unknown;
  /** Of node:sqlite. */
  errcode?: unknown;
  status?: unknown;
  statusCode?: unknown;
  cause?: unknown;
  headers?: unknown;
  response?: unknown;
}

/** Errors that are known to pass come before permanent ones, because a chain may have both. */
function passes(e: Failure): ErrorClass | undefined {
  const code = typeof e.code === "string" ? e.code : "";
  const sqlite = typeof e.errcode === "number" ? e.errcode & 255 : 0;
  const passing =
    retryableStates.test(code) || network.test(code) || /^SQLITE_(BUSY|LOCKED)/.test(code) || sqlite === 5 || sqlite === 6 ||
    e.name === "AbortError" || e.name === "TimeoutError" || statusOf(e) !== undefined;
  return passing ? "retryable" : undefined;
}

function lasts(e: Failure): ErrorClass | undefined {
  const code = typeof e.code === "string" ? e.code : "";
  const sqlite = typeof e.errcode === "number" ? e.errcode & 255 : 0;
  const lasting =
    permanentStates.test(code) || code.startsWith("SQLITE_CONSTRAINT") || sqlite === 19 || code === "ERR_ENCODING_INVALID_ENCODED_DATA" ||
    ["SyntaxError", "ZodError", "$ZodError", "ValidationError", "ValiError"].includes(String(e.name));
  return lasting ? "permanent" : undefined;
}

/** The status of an answer of a service further down, as clients for HTTP name it. */
function statusOf(e: Failure): number | undefined {
  const answer = (e.response ?? e) as Failure;
  return [e.status, e.statusCode, answer.status].find((s): s is number => typeof s === "number" && s >= 400 && s <= 599);
}

/** Milliseconds until a new delivery makes sense, if the error says it. */
export function retryAfterOf(error: unknown, now: number): number | undefined {
  for (const e of chainOf(error)) {
    if (e instanceof WebhookError) return e.retryAfter === undefined ? undefined : e.retryAfter * 1000;
    const headers = ((e.response as Failure | undefined) ?? e).headers;
    if (statusOf(e) === undefined || typeof headers !== "object" || headers === null) continue;
    const value = headers instanceof Headers ? headers.get("retry-after") : (headers as Record<string, unknown>)["retry-after"];
    const text = String(value);
    const wait = /^[0-9]+$/.test(text) ? Number(text) * 1000 : /^[A-Z][a-z]{2}, /.test(text) ? Date.parse(text) - now : NaN;
    if (wait > 0) return wait;
  }
  return undefined;
}
