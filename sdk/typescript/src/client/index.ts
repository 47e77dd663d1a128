/**
 * Calls the API of a Grapnel server: publishes events, manages endpoints, replays, and consumes queues.
 * It has no dependencies and runs where fetch does.
 */
export { type CallOptions, Client, type Input, type Result, type Schemas, type WatchOptions } from "./client.js";
export { type ConsumeOptions, type Handler, LeaseLost, Message, Reject, RetryAfter, type Settled } from "./consume.js";
export { ApiError, DEFAULT_SERVER, type Field, type Options, Unreachable } from "./http.js";
export type { components, operations, paths } from "./schema.js";
