// Reads a queue as server-sent events. The first connection ends after its sixth; the library goes on by itself with Last-Event-ID.
import { readFileSync } from "node:fs";
import { EventSource } from "eventsource";

const job = JSON.parse(readFileSync(0, "utf8"));
const authorization = { Authorization: "Bearer " + job.key };
const asked = [], settled = [];

// endAfter lets a number of blocks of a stream through, and loses what comes behind them, as a connection that is cut does.
function endAfter(body, blocks) {
  let before = 0;
  return body.pipeThrough(new TransformStream({
    transform(chunk, controller) {
      for (let i = 0; i < chunk.length; i++) {
        if (chunk[i] === 10 && before === 10 && --blocks === 0) {
          controller.enqueue(chunk.subarray(0, i + 1));
          controller.terminate();
          return;
        }
        before = chunk[i];
      }
      controller.enqueue(chunk);
    },
  }));
}

const source = new EventSource(`${job.server}/v1/queues/eventsource/stream`, {
  async fetch(url, init) {
    asked.push(init.headers["Last-Event-ID"] ?? "");
    const answer = await fetch(url, { ...init, headers: { ...init.headers, ...authorization } });
    const body = asked.length === 1 ? endAfter(answer.body, 7) : answer.body; // the first block is a greeting
    return { body, url: answer.url, status: answer.status, redirected: answer.redirected, headers: answer.headers };
  },
});
await new Promise((resolve, reject) => {
  source.onmessage = async (event) => {
    try {
      const { meta, body } = JSON.parse(event.data);
      const answer = await fetch(`${job.server}/v1/leases/${meta.lease}/ack`, { method: "POST", headers: authorization });
      if (!answer.ok) throw new Error(`an ack was answered ${answer.status}`);
      settled.push(body.n);
      if (settled.length === job.count) resolve();
    } catch (e) {
      reject(e);
    }
  };
});
source.close();
process.stdout.write(JSON.stringify({ eventsource: { settled, resumed: asked.length === 2 && asked[1] !== "" } }));
