// One request to the API, with its repetitions. What the client's methods share.

/** The default address of a server. */
export const DEFAULT_SERVER = "http://127.0.0.1:8420";

const VERSION = "0.1.0";
const FIRST_PAUSE = 0.2; // seconds; before the nth repetition at most FIRST_PAUSE * 2^(n-1)
const MAX_PAUSE = 5; // seconds; if the server asks for more, its error is thrown
const RESERVE = 10; // repetitions at once after a quiet period

/** How to reach a server. All durations are seconds. */
export interface Options {
  /** Base URL; http://127.0.0.1:8420 if not given. */
  server?: string | undefined;
  /** API key, sent as a bearer token. */
  key?: string | undefined;
  /** Of one call with its repetitions; 30 if not given. */
  timeout?: number;
  /** How often one call is repeated at most; 2 if not given. */
  retries?: number;
  /** Sends requests; the global fetch if not given. */
  fetch?: typeof fetch;
  userAgent?: string;
  /** Rests before a repetition; replaces the timer in tests. */
  rest?: (seconds: number, signal?: AbortSignal) => Promise<void>;
}

/** One invalid field of a request. */
export interface Field {
  pointer: string;
  detail: string;
}

/** The server refused a call. */
export class ApiError extends Error {
  override readonly name = "ApiError";
  /** Of the HTTP answer. */
  readonly status: number;
  /** Stable, to switch on; empty if a proxy answered. */
  readonly code: string;
  readonly title: string;
  readonly detail: string;
  /** The invalid fields of the request. */
  readonly fields: Field[];
  /** To look the call up in the server's log. */
  readonly requestId: string;
  /** Seconds, from the server; 0: it asked for no pause. */
  readonly retryAfter: number;

  constructor(
    status: number,
    problem: Partial<{ code: string; title: string; detail: string; errors: Field[]; request_id: string }>,
    retryAfter = 0,
  ) {
    const fields = problem.errors ?? [];
    const detail = problem.detail ?? "";
    const said = fields.map((f) => `${f.pointer}: ${f.detail}`).filter((text) => !detail.includes(text));
    super([detail || problem.title || `the server answered ${status}`, ...said].join("; "));
    this.status = status;
    this.code = problem.code ?? "";
    this.title = problem.title ?? "";
    this.detail = detail;
    this.fields = fields;
    this.requestId = problem.request_id ?? "";
    this.retryAfter = retryAfter;
  }
}

/** No answer came, so whether the call took effect is unknown. */
export class Unreachable extends Error {
  override readonly name = "Unreachable";
  constructor(
    readonly server: string,
    reason: string,
    /** false: no connection could be made, so nothing was sent. */
    readonly sent: boolean,
  ) {
    super(`no answer from ${server}: ${reason}`);
  }
}

export type Query = Record<string, unknown>;

/** One request, which may be sent several times. */
export interface Call {
  method: string;
  path: string;
  query?: Query | undefined;
  /** Sent as JSON, bytes as they are. */
  body?: unknown;
  /** Content type of a body of bytes. */
  contentType?: string | undefined;
  /** The same key with the same request again changes nothing; a POST without one gets its own. */
  idempotencyKey?: string | undefined;
  signal?: AbortSignal | undefined;
  /** Doing it twice comes to the same, without an idempotency key. */
  idempotent?: boolean;
  /** Seconds that the call may take, with its repetitions; the client's if not given. */
  timeout?: number;
  accept?: string;
}

export interface Answer {
  status: number;
  headers: Headers;
  body: Uint8Array;
}

/** Sends requests and repeats them, within three limits: the kind, the number, and a budget. */
export class Http {
  readonly server: string;
  readonly rest: (seconds: number, signal?: AbortSignal) => Promise<void>;
  readonly #headers: Record<string, string>;
  readonly #options: Options;
  // A tenth is earned by each call, a whole one is spent by each repetition: once the reserve is
  // used up, at most one in ten requests is a repetition.
  #tenths = RESERVE * 10;

  constructor(options: Options) {
    const server = options.server || DEFAULT_SERVER;
    const url = URL.canParse(server) ? new URL(server) : undefined;
    if (!url || !/^https?:$/.test(url.protocol) || url.username || url.password) {
      throw new TypeError(`server: it has to be a URL like ${DEFAULT_SERVER}, without a user or password`);
    }
    this.server = url.origin + url.pathname.replace(/\/+$/, "");
    this.rest = options.rest ?? rest;
    this.#options = options;
    this.#headers = { "User-Agent": options.userAgent || `grapnel-typescript/${VERSION}` };
    if (options.key) this.#headers["Authorization"] = `Bearer ${options.key}`;
    printable(this.#headers);
  }

  /** Sends a request and gives the answer, which is below 300. */
  async send(call: Call): Promise<Answer> {
    const headers: Record<string, string> = { ...this.#headers, Accept: call.accept ?? "application/json, application/problem+json" };
    let body: RequestInit["body"];
    if (call.body instanceof Uint8Array) {
      body = call.body;
      headers["Content-Type"] = call.contentType ?? "application/octet-stream";
    } else if (call.body !== undefined) {
      body = JSON.stringify(call.body);
      headers["Content-Type"] = "application/json";
    }
    const once = call.idempotencyKey ?? (call.method === "POST" && !call.idempotent ? crypto.randomUUID() : undefined);
    if (once !== undefined) headers["Idempotency-Key"] = once;
    printable(headers);
    const safe = call.method === "GET" || once !== undefined || call.idempotent === true;
    const seconds = call.timeout ?? this.#options.timeout ?? 30;
    const end = performance.now() + seconds * 1000;
    const giveUp = new AbortController();
    const timer = setTimeout(
      () => giveUp.abort(new Unreachable(this.server, `none within ${seconds} s`, true)),
      Math.max(0, seconds) * 1000,
    );
    const stopped = () => giveUp.abort(call.signal?.reason);
    call.signal?.addEventListener("abort", stopped, { once: true });
    if (call.signal?.aborted) stopped();
    this.#tenths = Math.min(this.#tenths + 1, RESERVE * 10);
    try {
      for (let tries = 1; ; tries++) {
        try {
          return await this.#try(call, headers, body, giveUp.signal);
        } catch (error) {
          if (giveUp.signal.aborted || tries > (this.#options.retries ?? 2) || !repeatable(error, safe)) throw error;
          // Full jitter; the server's pause is a minimum.
          const pause = Math.random() * FIRST_PAUSE * 2 ** (tries - 1) + (error instanceof ApiError ? error.retryAfter : 0);
          if (pause > MAX_PAUSE || performance.now() + pause * 1000 > end || this.#tenths < 10) throw error;
          this.#tenths -= 10;
          await this.rest(pause, giveUp.signal);
          giveUp.signal.throwIfAborted();
        }
      }
    } finally {
      clearTimeout(timer);
      call.signal?.removeEventListener("abort", stopped);
    }
  }

  async #try(call: Call, headers: Record<string, string>, body: RequestInit["body"], signal: AbortSignal): Promise<Answer> {
    let answer: Answer;
    try {
      // Following a redirect would carry the key to wherever it points.
      const send = this.#options.fetch ?? fetch;
      const init: RequestInit = { method: call.method, headers, signal, redirect: "manual" };
      if (body != null) init.body = body;
      const response = await send(this.server + call.path + search(call.query), init);
      answer = { status: response.status, headers: response.headers, body: new Uint8Array(await response.arrayBuffer()) };
    } catch (error) {
      signal.throwIfAborted();
      const cause = (error as { cause?: { code?: string } }).cause?.code ?? "";
      throw new Unreachable(
        this.server,
        cause || String((error as Error).message),
        !/^(ECONNREFUSED|ENOTFOUND|EAI_AGAIN|UND_ERR_CONNECT_TIMEOUT)$/.test(cause),
      );
    }
    if (answer.status >= 300 || answer.status === 0) throw problem(answer);
    return answer;
  }
}

/** Gives the JSON of an answer; undefined if it has no body. */
export function json(answer: Answer): unknown {
  if (answer.body.length === 0) return undefined;
  try {
    return JSON.parse(text(answer.body));
  } catch {
    throw new ApiError(answer.status, {
      code: "unreadable",
      detail: "the server's answer is not JSON",
      request_id: answer.headers.get("X-Request-Id") ?? "",
    });
  }
}

export function text(bytes: Uint8Array): string {
  return new TextDecoder().decode(bytes);
}

/** Makes a part of a path of an id or name. */
export function part(name: string): string {
  if (/^\.*$/.test(name)) throw new TypeError(`${JSON.stringify(name)} is no id or name`);
  return encodeURIComponent(name);
}

function search(query: Query | undefined): string {
  const out = new URLSearchParams();
  for (const [name, value] of Object.entries(query ?? {})) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null) out.append(name, String(one));
    }
  }
  return out.size > 0 ? `?${out}` : "";
}

// fetch names a value that it refuses in its error, which for a key is the key.
function printable(headers: Record<string, string>): void {
  for (const [name, value] of Object.entries(headers)) {
    if (!/^[\x20-\x7e]*$/.test(value))
      throw new TypeError(`${name}: its value has a line break or another character that is not printable ASCII`);
  }
}

function repeatable(error: unknown, safe: boolean): boolean {
  if (error instanceof Unreachable) return safe || !error.sent;
  if (!(error instanceof ApiError)) return false;
  switch (error.status) {
    case 429: // turned away before anything was done
      return true;
    case 502:
    case 503:
    case 504:
      return safe;
    case 409: // the first try is still being worked on; its answer will be there
      return safe && error.code === "idempotency_in_flight";
  }
  return false;
}

function problem(answer: Answer): ApiError {
  const after = Number(answer.headers.get("Retry-After") ?? 0);
  const retryAfter = after > 0 && after < 1e6 ? after : 0;
  const id = { request_id: answer.headers.get("X-Request-Id") ?? "" };
  if (answer.status < 400) {
    return new ApiError(answer.status, {
      ...id,
      code: "redirect",
      detail: `the server redirects to ${answer.headers.get("Location")}; use that address`,
    });
  }
  try {
    const given = JSON.parse(text(answer.body));
    if (given !== null && typeof given === "object") return new ApiError(answer.status, { ...id, ...given }, retryAfter);
  } catch {
    // A proxy on the way answers with a page of its own; then only the status is known.
  }
  return new ApiError(answer.status, id, retryAfter);
}

/** Lets time pass, unless the signal comes first. */
export function rest(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, seconds * 1000);
    signal?.addEventListener("abort", done, { once: true });
    if (signal?.aborted) done();
  });
}
