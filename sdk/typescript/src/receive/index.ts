export { permanent, retryable, retryAfter, gone, stale, classify, WebhookError, LostClaim, type Classifier, type ErrorClass } from "./errors.js";
export { canonical } from "./json.js";
export { type Scheme, type SchemeName } from "./schemes.js";
export { idempotencyKey } from "./secrets.js";
export { Verifier, Refused, type Source } from "./verify.js";
