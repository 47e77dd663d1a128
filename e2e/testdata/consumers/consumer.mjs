// Consume webhook payloads from Hooque and classify failures as retryable or permanent
const QUEUE_NEXT_URL =
  process.env.HOOQUE_QUEUE_NEXT_URL ??
  "https://app.hooque.io/queues/cons_webhook_events/next";
const TOKEN = process.env.HOOQUE_TOKEN ?? "hq_tok_replace_me";
const headers = { Authorization: `Bearer ${TOKEN}` };
class RetryableError extends Error {}
class PermanentError extends Error {}
async function processPayload(payload) {
  // Example: input validation failures are permanent.
  if (!payload || typeof payload !== "object") throw new PermanentError("invalid payload");
  // TODO: enforce idempotency using provider event ID (payload.id) or stable hash.
  // TODO: perform side effects (DB writes, API calls) with idempotency keys where supported.
}
while (true) {
  const resp = await fetch(QUEUE_NEXT_URL, { headers });
  if (resp.status === 204) break;
  if (!resp.ok) throw new Error(`Hooque next() failed: ${resp.status}`);
  const payload = await resp.json();
  const meta = JSON.parse(resp.headers.get("X-Hooque-Meta") ?? "{}");
  try {
    await processPayload(payload);
    await fetch(meta.ackUrl, { method: "POST", headers });
  } catch (err) {
    const isPermanent = err instanceof PermanentError;
    const url = isPermanent ? meta.rejectUrl : meta.nackUrl;
    const reason = isPermanent ? `permanent: ${err.message}` : `retryable: ${err.message}`;
    await fetch(url, {
      method: "POST",
      headers: { ...headers, "Content-Type": "application/json" },
      body: JSON.stringify({ reason }),
    });
  }
}
