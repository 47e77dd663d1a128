// The API as methods: thin over call, whose types are the server's own.

import { consume, type ConsumeOptions, type Handler } from "./consume.js";
import { ApiError, Http, json, type Options, part, type Query } from "./http.js";
import type { components, paths } from "./schema.js";

/** The objects of the API, by their names in its OpenAPI document. */
export type Schemas = components["schemas"];

type Method = "GET" | "POST" | "PATCH" | "DELETE";
type Json<C> = C extends { content: { "application/json": infer T } } ? T : undefined;
type Operation<M extends Method, P extends keyof paths> = paths[P][Lowercase<M> & keyof paths[P]];
type Parameters<O> = O extends { parameters: infer P } ? P : never;
type Path<O> = Parameters<O> extends { path: infer P } ? { path: P } : unknown;
type QueryOf<O> = Parameters<O> extends { query?: infer Q } ? Q : never;
type Body<O> = O extends { requestBody: infer B } ? { body: Json<B> } : O extends { requestBody?: infer B } ? { body?: Json<B> } : unknown;
type Good = 200 | 201 | 202 | 204;

/** What a route answers. */
export type Result<O> = O extends { responses: infer R } ? { [S in keyof R & Good]: Json<R[S]> }[keyof R & Good] : never;
/** What a call to a route takes. */
export type Input<O> = Path<O> & { query?: QueryOf<O> } & Body<O> & CallOptions;
type Needed<I> = {} extends I ? [input?: I] : [input: I];
type Paths<M extends Method> = { [P in keyof paths]: Operation<M, P> extends { responses: unknown } ? P : never }[keyof paths];
type Filter<P extends keyof paths> = QueryOf<Operation<"GET", P>>;

/** Of one call. */
export interface CallOptions {
  /** Makes a POST safe to repeat by the caller too: the same key with the same request changes nothing. One is made if it is not given. */
  idempotencyKey?: string;
  signal?: AbortSignal;
}

/** Says how often replays.watch asks, in seconds; 1 if not given. */
export interface WatchOptions {
  every?: number;
  signal?: AbortSignal;
}

/**
 * Calls one server. A call gives the server's answer, or throws an ApiError with its code, fields and request id, or
 * Unreachable. Every POST carries an Idempotency-Key, so a call whose answer was lost is repeated without doing its work twice.
 */
export class Client {
  /** Base URL of the server. */
  readonly server: string;
  readonly #http: Http;

  constructor(options: Options = {}) {
    this.#http = new Http(options);
    this.server = this.#http.server;
  }

  /** Calls any route of the API: call("GET", "/v1/issues/{id}", { path: { id } }). */
  async call<M extends Method, P extends Paths<M>>(
    method: M,
    path: P,
    ...[input]: Needed<Input<Operation<M, P>>>
  ): Promise<Result<Operation<M, P>>> {
    const { path: names = {}, ...rest } = (input ?? {}) as { path?: Record<string, unknown> };
    const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => part(String(names[name] ?? "")));
    return json(await this.#http.send({ ...rest, method, path: filled })) as Result<Operation<M, P>>;
  }

  /** Publishes an event. Once this returns, the event and all its deliveries are durable. */
  publish(event: Schemas["NewEvent"], options?: CallOptions): Promise<Schemas["Published"]> {
    return this.call("POST", "/v1/events", { body: event, ...options });
  }

  /**
   * Publishes up to 1000 events, which are committed together in the order given. A refused event does not prevent the
   * others: there is an ApiError in its place.
   */
  async publishBatch(events: Schemas["NewEvent"][], options?: CallOptions): Promise<(Schemas["Published"] | ApiError)[]> {
    const answer = await this.call("POST", "/v1/events/batch", { body: { events }, ...options });
    const results = answer.data as (Schemas["Published"] | Schemas["Problem"])[];
    return results.map((one) => ("code" in one ? new ApiError(one.status, one) : one));
  }

  readonly events = {
    get: (id: string, query?: Filter<"/v1/events/{id}">) => this.call("GET", "/v1/events/{id}", { path: { id }, query }),
    /** The newest first. */
    list: (query?: Filter<"/v1/events">) => this.#list("/v1/events", query),
  };

  readonly endpoints = {
    /** Only this answer, and that of rotateSecret, shows the secret. */
    create: (endpoint: Schemas["NewEndpoint"], options?: CallOptions) => this.call("POST", "/v1/endpoints", { body: endpoint, ...options }),
    get: (id: string) => this.call("GET", "/v1/endpoints/{id}", { path: { id } }),
    list: (query?: Filter<"/v1/endpoints">) => this.#list("/v1/endpoints", query),
    /** Sets the fields given; null resets one. */
    update: (id: string, changes: Schemas["EndpointPatch"]) => this.call("PATCH", "/v1/endpoints/{id}", { path: { id }, body: changes }),
    /** Drops its pending deliveries too. */
    delete: (id: string, reason?: string) => this.call("DELETE", "/v1/endpoints/{id}", { path: { id }, query: { reason } }),
    /** Holds its deliveries. */
    pause: (id: string, reason?: string) => this.call("POST", "/v1/endpoints/{id}/pause", { path: { id }, ...because(reason) }),
    resume: (id: string, reason?: string) => this.call("POST", "/v1/endpoints/{id}/resume", { path: { id }, ...because(reason) }),
    /** The old secret signs too until the overlap has passed. */
    rotateSecret: (id: string, rotation: Schemas["NewRotation"] = {}) =>
      this.call("POST", "/v1/endpoints/{id}/rotate-secret", { path: { id }, body: rotation }),
    /** Sends an event to this endpoint alone. */
    test: (id: string, event: Schemas["NewTest"] = {}) => this.call("POST", "/v1/endpoints/{id}/test", { path: { id }, body: event }),
  };

  readonly deliveries = {
    /** With its attempts, past and planned. */
    get: (id: string) => this.call("GET", "/v1/deliveries/{id}", { path: { id } }),
    /** The newest first. */
    list: (query?: Filter<"/v1/deliveries">) => this.#list("/v1/deliveries", query),
    /** Attempts a pending delivery now; for a finished one it creates and gives a new delivery. */
    retry: (id: string, reason?: string) => this.call("POST", "/v1/deliveries/{id}/retry", { path: { id }, ...because(reason) }),
  };

  readonly deadLetters = {
    list: (query?: Filter<"/v1/dead-letters">) => this.#list("/v1/dead-letters", query),
    /** Creates and gives a new delivery. */
    retry: this.deliveries.retry,
  };

  readonly replays = {
    /** Counts what a replay would create, and creates nothing. */
    plan: async (endpoint: string, replay: Schemas["NewReplay"] = {}) => {
      const path = `/v1/endpoints/${part(endpoint)}/replay`;
      return json(await this.#http.send({ method: "POST", path, body: { ...replay, dry_run: true }, idempotent: true })) as Schemas["Plan"];
    },
    /** Starts a durable job that delivers again, the failed deliveries if nothing else is selected. */
    start: (endpoint: string, replay: Schemas["NewReplay"] = {}, options?: CallOptions) =>
      this.call("POST", "/v1/endpoints/{id}/replay", {
        path: { id: endpoint },
        body: { ...replay, dry_run: false },
        ...options,
      }) as Promise<Schemas["Replay"]>,
    get: (id: string) => this.call("GET", "/v1/replays/{id}", { path: { id } }),
    list: (query?: Filter<"/v1/replays">) => this.#list("/v1/replays", query),
    /** Gives the replay whenever it has changed; the last one is finished. */
    watch: (id: string, options?: WatchOptions) => this.#watch(id, options),
    pause: (id: string, reason?: string) => this.call("POST", "/v1/replays/{id}/pause", { path: { id }, ...because(reason) }),
    resume: (id: string, reason?: string) => this.call("POST", "/v1/replays/{id}/resume", { path: { id }, ...because(reason) }),
    cancel: (id: string, reason?: string) => this.call("POST", "/v1/replays/{id}/cancel", { path: { id }, ...because(reason) }),
  };

  readonly portalLinks = {
    /** Makes a link that opens the portal of a tenant once. */
    create: (tenant: string, link: Schemas["NewPortalLink"] = {}) =>
      this.call("POST", "/v1/tenants/{tenant}/portal-links", { path: { tenant }, body: link }),
    /** Ends all links and sessions of a tenant, or those that the query names. */
    revoke: (tenant: string, query?: QueryOf<Operation<"DELETE", "/v1/tenants/{tenant}/portal-links">>) =>
      this.call("DELETE", "/v1/tenants/{tenant}/portal-links", { path: { tenant }, query }),
  };

  /**
   * Leases messages from a queue and runs the handler for each, until the signal of the options aborts. Then it leases
   * nothing more, lets handlers finish for the time of drain, and returns. It throws earlier if asking again cannot help:
   * the queue does not exist, or the key lacks the scope.
   *
   * A handler that returns acks its message. Reject makes the message a dead letter, RetryAfter returns it to the queue for
   * a time, and any other error returns it for the backoff of the queue's policy. A message comes at least once.
   */
  consume(queue: string, handler: Handler, options?: ConsumeOptions): Promise<void> {
    return consume(this.#http, queue, handler, options);
  }

  async *#list<P extends keyof paths>(path: P, query?: Filter<P>): AsyncGenerator<Item<Result<Operation<"GET", P>>>, void, undefined> {
    for (let cursor: unknown = undefined; cursor !== null;) {
      const here = cursor === undefined ? query : { ...(query as Query), cursor };
      const page = json(await this.#http.send({ method: "GET", path, query: here as Query })) as {
        data: Item<Result<Operation<"GET", P>>>[];
        next: string | null;
      };
      yield* page.data;
      cursor = page.next;
    }
  }

  async *#watch(id: string, { every = 1, signal }: WatchOptions = {}): AsyncGenerator<Schemas["Replay"], void, undefined> {
    for (let last = ""; ;) {
      const replay = await this.call("GET", "/v1/replays/{id}", { path: { id }, signal });
      const now = JSON.stringify(replay);
      if (now !== last) yield replay;
      if (replay.status !== "running" && replay.status !== "paused") return;
      last = now;
      await this.#http.rest(every, signal);
      signal?.throwIfAborted();
    }
  }
}

type Item<L> = L extends { data: (infer T)[] } ? T : never;

/** A body that says no more than why, for the audit. */
function because(reason: string | undefined): { body?: { reason: string } } {
  return reason ? { body: { reason } } : {};
}
