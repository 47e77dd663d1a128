// The answer of each outcome. No sentence has data of the event in it.

const answers = {
  processed: [200, ""],
  accepted: [202, ""],
  duplicate: [200, ""],
  stale: [200, ""],
  parked: [202, ""],
  conflict: [200, "The event id was processed with another body."],
  in_progress: [503, "Another request with this event id is being processed."],
  retryable: [503, "Processing failed and may succeed later."],
  dead_lettered: [200, "Processing failed for good; the receiver has stored the request."],
  permanent: [422, "Processing failed for good."],
  gone: [410, "The receiver wants no more events."],
  unverified: [401, "The signature is missing or does not match."],
  expired: [400, "The signature's time is outside of the tolerance."],
  malformed: [400, "The event id or a header is missing or cannot be read."],
  too_large: [413, "The body is larger than the receiver reads."],
  overloaded: [429, "The receiver has more requests at once than it takes."],
} as const;

/** The end of a request: the text of the header Webhook-Outcome. */
export type Outcome = keyof typeof answers;

/** Seconds until a repetition makes sense if nothing better is known. */
const usualPause = 5;

/** An answer, for a server to write. */
export interface Answer {
  status: number;
  headers: Record<string, string>;
  body: string;
}

export const responseOf = ({ body, ...init }: Answer) => new Response(body, init);

const bodies = new Map(Object.entries(answers).map(([outcome, [, reason]]) => [outcome, bodyOf(outcome, reason)]));

function bodyOf(outcome: string, reason: string): string {
  return JSON.stringify(reason === "" ? { outcome } : { outcome, reason });
}

/** The answer to a request. `retryAfter` is in milliseconds. */
export function answer(outcome: Outcome, retryAfter = 0, reason?: string): Answer {
  const status = answers[outcome][0];
  const headers: Record<string, string> = { "content-type": "application/json", "webhook-outcome": outcome };
  const seconds = retryAfter > 0 ? Math.ceil(retryAfter / 1000) : outcome === "in_progress" || outcome === "overloaded" ? usualPause : 0;
  if (seconds > 0 && (status === 503 || status === 429)) headers["retry-after"] = String(seconds);
  return { status, headers, body: reason === undefined ? bodies.get(outcome)! : bodyOf(outcome, reason) };
}

/** The answer where a server has taken the bytes away before: a fault of the program, so it says the way out, also on the console. */
export function bodyIsGone(wayOut: string): Answer {
  console.error(`grapnel/receive: ${wayOut}`);
  const headers = { "content-type": "application/json", "webhook-outcome": "retryable" };
  return { status: 500, headers, body: bodyOf("retryable", wayOut) };
}
