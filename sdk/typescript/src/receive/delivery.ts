import { bigints, parseJSON, utf8 } from "./json.js";
import { idempotencyKey } from "./secrets.js";
import type { HeaderValues } from "./source.js";

/** One verified request, as its handler gets it. */
export class Delivery {
  /** How often the key was claimed; a service that refuses lower ones is safe from a handler that outlived its lease. */
  generation = 0;
  /** How many deliveries of the key were tried, this one included. */
  attempt = 0;
  private kind?: string;
  private all?: Headers;
  private ends?: AbortController;
  private reason?: Error;

  constructor(
    readonly source: string,
    /** The event's id, the same on each of its deliveries. */
    readonly id: string,
    private readonly typeOf: () => string,
    private readonly given: HeaderValues,
    /** The body exactly as it came. */
    readonly body: Uint8Array,
    /** An operator replays a dead letter. */
    readonly replayed = false,
    /** Headers whose value is a secret: they are never stored. */
    readonly secretHeaders: readonly string[] = [],
  ) {}

  get headers(): Headers {
    return (this.all ??= this.given instanceof Headers ? this.given : new Headers([...this.given]));
  }

  /** Aborts when the handler's time is over, or when another worker took the claim over. It is made when it is asked for. */
  get signal(): AbortSignal {
    if (!this.ends) {
      this.ends = new AbortController();
      if (this.reason) this.ends.abort(this.reason);
    }
    return this.ends.signal;
  }

  /** @internal Aborts the signal. */
  end(reason: Error): void {
    this.reason = reason;
    this.ends?.abort(reason);
  }

  /** @internal Whether it is the reason for which the signal was aborted. */
  endedBy(error: unknown): boolean {
    return this.reason !== undefined && error === this.reason;
  }

  /** The sender's name for the kind of event; empty if it is not known. It is read from the body when it is asked for. */
  get type(): string {
    return (this.kind ??= this.typeOf());
  }

  /** The body as text. Throws if it is not UTF-8. */
  get text(): string {
    return utf8(this.body);
  }

  /**
   * The body as JSON. `numbers` keeps what a double would round: `"bigint"` makes a BigInt of whole numbers beyond 2^53, and a function
   * gets each number as it was written. An error of it is permanent, unless the handler says otherwise.
   */
  json<T = any>({ numbers }: { numbers?: "bigint" | ((text: string) => unknown) } = {}): T {
    if (numbers === undefined) return JSON.parse(this.text) as T;
    return parseJSON(this.text, numbers === "bigint" ? bigints : { ...bigints, number: numbers }) as T;
  }

  /** The key for a call of another service in this step of the handler. Every delivery of the event gives the same one. */
  idempotencyKey(step: string): string {
    return idempotencyKey(this.source, this.id, step);
  }
}

const neverStored = ["authorization", "cookie", "proxy-authorization"];

/** The headers of a delivery that may be stored. */
export function storedHeaders(d: Delivery): Record<string, string> {
  const secret = [...neverStored, ...d.secretHeaders];
  return Object.fromEntries([...d.headers].filter(([name]) => !secret.includes(name)));
}
