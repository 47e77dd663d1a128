// Receives webhooks so that a duplicate has no second effect.
export { createReceiver, Receiver, type Handler, type Hooks, type Observation, type Options, type TransactionHandler } from "./receiver.js";
export type { Inbox, InboxOptions, WorkOptions } from "./inbox.js";
export type { Delivery } from "./delivery.js";
export type { Outcome } from "./outcomes.js";
export { NotDead } from "./modes.js";
export {
  classify, gone, LostClaim, parked, permanent, retryable, retryAfter, stale, WebhookError, type Classifier, type ErrorClass,
} from "./errors.js";
export { memoryStore } from "./memory.js";
export { pgStore } from "./pg.js";
export { redisStore } from "./redis.js";
export { sqliteStore, SqliteTransaction } from "./sqlite.js";
export type * from "./store.js";
export { canonical } from "./json.js";
export type { Scheme, SchemeName } from "./schemes.js";
export { idempotencyKey } from "./secrets.js";
export { Refused, type Source } from "./source.js";
export { Verifier } from "./verify.js";
export { gapGate, nanoseconds, StateMachine, timestampGate, versionGate, type GatedRow, type GateResult } from "./gates.js";
export { expressHooks, fastifyHooks, nestHooks, nodeHandler } from "./frameworks.js";
