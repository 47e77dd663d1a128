// Does every operation with the SDK of Svix. Says what went wrong, by operation.
import { readFileSync } from "node:fs";
import { Svix } from "svix";

const job = JSON.parse(readFileSync(0, "utf8"));
const svix = new Svix(job.key, { serverUrl: job.server });
const hook = job.receiver + "/" + job.uid, kind = job.uid.replaceAll("-", "."), wrong = {};
let id, ep, msg, attempt;

async function task(operation, call) {
  wrong[operation] = "";
  try {
    const is = await call();
    if (is === false) wrong[operation] = "another answer";
  } catch (e) {
    wrong[operation] = String(e.body ? JSON.stringify(e.body) : e);
  }
}

await task("application.create", async () => {
  const got = await svix.application.create({ name: "Node", uid: job.uid, metadata: { planName: "gold" } });
  id = got.id;
  return got.uid === job.uid && got.metadata.planName === "gold" && !Number.isNaN(got.createdAt.getTime());
});
await task("application.getOrCreate", async () => (await svix.application.getOrCreate({ name: "Node", uid: job.uid })).id === id);
await task("application.list", async () => (await svix.application.list()).data.length > 0);
await task("application.get", async () => (await svix.application.get(job.uid)).id === id);
await task("application.upsert", async () => (await svix.application.upsert(id, { name: "Node 2", uid: job.uid })).name === "Node 2");
await task("application.patch", async () => (await svix.application.patch(id, { metadata: { a: "b" } })).metadata.a === "b");
await task("eventType.create", () => svix.eventType.create({ name: kind, description: "from Node" }));
await task("eventType.list", () => svix.eventType.list());
await task("eventType.get", async () => (await svix.eventType.get(kind)).name === kind);
await task("eventType.upsert", () => svix.eventType.upsert(kind, { description: "from Node", schemas: { 1: { type: "object" } } }));
await task("eventType.delete", () => svix.eventType.delete(kind));
await task("endpoint.create", async () => {
  const got = await svix.endpoint.create(id, { url: hook, uid: job.uid, eventTypes: [kind], channels: ["ch"], throttleRate: 50 });
  ep = got.id;
  return got.eventTypes[0] === kind && got.channels[0] === "ch" && got.throttleRate === 50;
});
await task("endpoint.list", async () => (await svix.endpoint.list(id)).data.length === 1);
await task("endpoint.get", async () => (await svix.endpoint.get(id, job.uid)).id === ep);
await task("endpoint.upsert", async () => (await svix.endpoint.upsert(id, ep, { url: hook, channels: ["ch"] })).throttleRate == null);
await task("endpoint.patch", async () => (await svix.endpoint.patch(id, ep, { description: "patched" })).description === "patched");
await task("endpoint.getSecret", async () => (await svix.endpoint.getSecret(id, ep)).key.startsWith("whsec_"));
await task("endpoint.rotateSecret", async () => { await svix.endpoint.rotateSecret(id, ep, {}); });
await task("endpoint.setHeaders", async () => { await svix.endpoint.setHeaders(id, ep, { headers: { "X-From": "Node" } }); });
await task("endpoint.getHeaders", async () => (await svix.endpoint.getHeaders(id, ep)).headers["X-From"] === "Node");
await task("message.create", async () => {
  const got = await svix.message.create(id, { eventType: kind, eventId: "one", channels: ["ch"], payload: { n: 1 } });
  msg = got.id;
  return got.eventId === "one";
});
await task("message.list", async () => (await svix.message.list(id)).data.length === 1);
await task("message.get", async () => {
  const got = await svix.message.get(id, "one", { withContent: true });
  return got.id === msg && got.payload.n === 1;
});
await task("messageAttempt.listByEndpoint", async () => {
  for (let tries = 0; tries < 500; tries++) {
    const got = await svix.messageAttempt.listByEndpoint(id, ep);
    if (got.data.length > 0) {
      attempt = got.data[0].id;
      return got.data[0].msgId === msg && got.data[0].responseStatusCode === 200 && got.data[0].statusText === "success";
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return false;
});
await task("messageAttempt.listByMsg", async () => (await svix.messageAttempt.listByMsg(id, msg)).data[0].id === attempt);
await task("messageAttempt.get", async () => (await svix.messageAttempt.get(id, msg, attempt)).id === attempt);
await task("messageAttempt.listAttemptedMessages", async () => (await svix.messageAttempt.listAttemptedMessages(id, ep)).data[0].id === msg);
await task("messageAttempt.listAttemptedDestinations", async () => (await svix.messageAttempt.listAttemptedDestinations(id, msg)).data[0].id === ep);
await task("messageAttempt.resend", async () => { await svix.messageAttempt.resend(id, msg, ep); });
await task("endpoint.recover", async () => (await svix.endpoint.recover(id, ep, { since: new Date(Date.now() - 3600e3) })).task === "endpoint.recover");
await task("endpoint.getStats", async () => typeof (await svix.endpoint.getStats(id, ep)).success === "number");
await task("authentication.appPortalAccess", async () => {
  const got = await svix.authentication.appPortalAccess(id, {});
  return got.url.includes("/portal") && got.token !== "";
});
await task("health.get", async () => { await svix.health.get(); });
await task("endpoint.delete", async () => { await svix.endpoint.delete(id, ep); });
await task("application.delete", async () => { await svix.application.delete(id); });
console.log(JSON.stringify(wrong));
