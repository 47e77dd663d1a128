// Which failures of a handler pass, and which do not.

/** What a handler's failure means. */
export type ErrorClass = "retryable" | "permanent" | "gone" | "stale";

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
const network = /^(E(CONN(REFUSED|RESET|ABORTED)|PIPE|TIMEDOUT|HOSTUNREACH|NETUNREACH|NETDOWN|AI_AGAIN|NOTFOUND|ADDRNOTAVAIL)|UND_ERR_.*)$/;

/** The class of an error by `sdk/conformance/errors.json`. What is unknown is retryable. */
export function classify(error: unknown, own?: Classifier): ErrorClass {
  if (error instanceof WebhookError) return error.kind;
  return own?.(error) ?? byDefault(error) ?? "retryable";
}

function byDefault(error: unknown, depth = 0): ErrorClass | undefined {
  if (typeof error !== "object" || error === null || depth > 8) return undefined;
  if (error instanceof WebhookError) return error.kind;
  const e = error as { name?: unknown; code?: unknown; status?: unknown; statusCode?: unknown; cause?: unknown };
  const status = typeof e.status === "number" ? e.status : e.statusCode;
  if (typeof status === "number") {
    if (status === 408 || status === 425 || status === 429 || (status >= 500 && status <= 599)) return "retryable";
  }
  if (typeof e.code === "string") {
    if (retryableStates.test(e.code) || network.test(e.code) || /^SQLITE_(BUSY|LOCKED)/.test(e.code)) return "retryable";
    if (permanentStates.test(e.code) || e.code.startsWith("SQLITE_CONSTRAINT")) return "permanent";
  }
  const sqlite = (error as { errcode?: unknown }).errcode; // node:sqlite
  if (typeof sqlite === "number") {
    if ((sqlite & 0xff) === 5 || (sqlite & 0xff) === 6) return "retryable";
    if ((sqlite & 0xff) === 19) return "permanent";
  }
  if (e.name === "AbortError" || e.name === "TimeoutError") return "retryable";
  const names = [e.name, (e.constructor as { name?: string } | undefined)?.name];
  if (names.some((n) => n === "SyntaxError" || n === "ZodError" || n === "ValidationError" || n === "$ZodError")) return "permanent";
  return byDefault(e.cause, depth + 1);
}
