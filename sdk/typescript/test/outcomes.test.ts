import assert from "node:assert/strict";
import { test } from "node:test";
import { classify, gone, parked, permanent, retryable, retryAfter, stale, WebhookError } from "grapnel/receive";
import { cases } from "./conformance.js";
// Not part of the package's door.
const { answer, responseOf } = (await import("../dist/receive/outcomes.js" as string)) as any;
const { retryAfterOf } = (await import("../dist/receive/errors.js" as string)) as any;

test("outcomes.json", async (t) => {
  for (const { name, given, want } of cases("outcomes.json")) {
    await t.test(name, async () => {
      const response: Response = responseOf(answer(given.outcome, given.retry_after_ms, given.reason));
      const headers = Object.fromEntries(
        [...response.headers].filter(([n]) => Object.keys(want.headers).some((w) => w.toLowerCase() === n)),
      );
      const wanted = Object.fromEntries(Object.entries(want.headers).map(([n, v]) => [n.toLowerCase(), v]));
      assert.deepEqual({ status: response.status, headers, body: await response.json() }, { ...want, headers: wanted });
      assert.equal(response.headers.has("retry-after"), "retry-after" in wanted);
    });
  }
});

/** JavaScript's error for what a case describes. */
function errorOf(given: any): unknown {
  const cause = given.cause && errorOf(given.cause);
  const e = Object.assign(new Error(given.message ?? "m", cause && { cause }), {}) as any;
  if (given.typed) {
    const text = given.message ?? "m";
    if (given.typed === "retry_after") return retryAfter(given.after_ms / 1000, text);
    const make = { permanent, retryable, gone, stale, parked }[given.typed as "permanent"];
    return given.typed === "permanent" || given.typed === "retryable" ? make(text, cause) : make(text);
  }
  if (given.sqlstate) e.code = given.sqlstate;
  if (given.sqlite !== undefined) e.errcode = given.sqlite;
  if (given.http_status) {
    e.status = given.http_status;
    if (given.retry_after) e.headers = new Headers({ "retry-after": given.retry_after });
  }
  if (given.timeout) return new DOMException("m", "TimeoutError");
  if (given.cancelled) return new DOMException("m", "AbortError");
  const code =
    given.network && { refused: "ECONNREFUSED", reset: "ECONNRESET", dns: "ENOTFOUND", eof: "UND_ERR_SOCKET" }[given.network as "eof"];
  if (code) return new TypeError("fetch failed", { cause: Object.assign(new Error("m"), { code }) });
  if (given.json === "syntax") {
    try {
      JSON.parse("{");
    } catch (thrown) {
      return thrown;
    }
  }
  if (given.json === "type" || given.schema) e.name = "ZodError";
  return given.panic ? new TypeError(given.panic) : e;
}

test("errors.json", async (t) => {
  for (const { name, given, want } of cases("errors.json")) {
    await t.test(name, () => {
      const error = errorOf(given.error);
      const class_ = classify(error, given.classifier && ((e) => given.classifier[(e as Error).message]));
      const wait = retryAfterOf(error, (given.now ?? 0) * 1000);
      assert.deepEqual({ class: class_, ...(wait !== undefined && { retry_after_ms: wait }) }, want);
    });
  }
});

test("a typed error keeps its cause and its kind", () => {
  const error = permanent("no", new Error("why"));
  assert.ok(error instanceof WebhookError && error.kind === "permanent" && (error.cause as Error).message === "why");
  assert.throws(() => retryAfter(-1), /0 or more/);
});
