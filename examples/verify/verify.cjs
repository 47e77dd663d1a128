// Verifies a request of Grapnel, or of any sender of Standard Webhooks, without a library.
const crypto = require("node:crypto");

// body is a Buffer or string as it arrived; headers has names in lower case. Returns the event's id.
function verify(secret, headers, body, now = Date.now() / 1000) {
  const id = headers["webhook-id"], timestamp = headers["webhook-timestamp"];
  if (!/^\d+$/.test(timestamp)) throw new Error("not a time"); // its fraction could be the beginning of the body
  if (Math.abs(now - Number(timestamp)) > 300) throw new Error("too old, or too new");
  if (id.includes(".")) throw new Error("an id has no dot"); // part of the signed text could be read as the id
  const key = Buffer.from(secret.replace(/^whsec_/, ""), "base64");
  const digest = crypto.createHmac("sha256", key).update(`${id}.${timestamp}.`).update(body).digest("base64");
  const want = Buffer.from("v1," + digest);
  const matches = headers["webhook-signature"].split(" ").map((s) => Buffer.from(s))
    .filter((s) => s.length === want.length && crypto.timingSafeEqual(s, want));
  if (matches.length === 0) throw new Error("no signature matches");
  return id;
}

module.exports = { verify };
