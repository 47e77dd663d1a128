// Verifies what Grapnel sent with the libraries of the standards. Reads captures as JSON, writes a tally for each library.
//
// A check is one capture with one secret. It counts as right when the library returns, or when it throws nothing but a parser's
// complaint about a body that is not JSON, which it does only after the signature has matched. The same capture with another body
// and with another id must be refused.
import crypto from "node:crypto";
import { isUtf8 } from "node:buffer";
import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";
import { HTTP } from "cloudevents";
import * as standard from "standardwebhooks";
import * as svix from "svix";

const tallies = {};

function count(library, outcome, says = "") {
  const tally = (tallies[library] ??= { right: 0, unparsed: 0, bytes: 0, wrong: 0, accepted: 0, says: "" });
  tally[outcome]++;
  if (outcome === "wrong" || outcome === "accepted") tally.says ||= says;
}

// verdict is right, unparsed, bytes or wrong.
function verdict(verify, body, headers) {
  try {
    verify(body, headers);
    return ["right", ""];
  } catch (e) {
    if (e instanceof SyntaxError) return ["unparsed", ""];
    return [isUtf8(body) ? "wrong" : "bytes", String(e)];
  }
}

function check(library, verify, body, headers) {
  count(library, ...verdict(verify, body, headers));
  const other = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, name.endsWith("-id") ? value + "0" : value]));
  for (const [what, ...changed] of [["another body", Buffer.concat([body, Buffer.from("x")]), headers], ["another id", body, other]]) {
    if (["right", "unparsed"].includes(verdict(verify, ...changed)[0])) count(library, "accepted", what);
  }
}

// bySpecification checks Ed25519 (v1a) as the specification has it: none of the libraries knows it.
function bySpecification(text) {
  const raw = Buffer.concat([Buffer.from("302a300506032b6570032100", "hex"), Buffer.from(text.replace(/^whpk_/, ""), "base64")]);
  const key = crypto.createPublicKey({ key: raw, format: "der", type: "spki" });
  return (body, headers) => {
    const content = Buffer.concat([Buffer.from(`${headers["webhook-id"]}.${headers["webhook-timestamp"]}.`), body]);
    const entries = headers["webhook-signature"].split(" ").filter((entry) => entry.startsWith("v1a,"));
    if (!entries.some((entry) => crypto.verify(null, content, key, Buffer.from(entry.slice(4), "base64")))) {
      throw new Error("no signature matches");
    }
  };
}

function cloudEvent(capture, body, headers) {
  const json = headers["content-type"] === "application/json";
  const event = HTTP.toEvent({ headers, body: json ? body.toString() : body });
  const data = event.data ?? Buffer.alloc(0);
  const want = json ? JSON.parse(body.toString()) : body;
  const same = json ? isDeepStrictEqual(data, want) : Buffer.from(data).equals(want);
  if (!same) return `the data is ${JSON.stringify(data)}`;
  const got = [event.id, event.type, event.specversion, decodeURIComponent(event.partitionkey)];
  if (!isDeepStrictEqual(got, [headers["webhook-id"], capture.type, "1.0", capture.key]) || !event.source || !event.time) {
    return `the attributes are ${got}`;
  }
  return "";
}

for (const capture of JSON.parse(readFileSync(0, "utf8"))) {
  const headers = capture.headers, body = Buffer.from(capture.body, "base64");
  const family = "svix-id" in headers ? "svix-*" : "webhook-*";
  for (const secret of capture.secrets) {
    const one = new standard.Webhook(secret), other = new svix.Webhook(secret);
    check("standardwebhooks webhook-*", (b, h) => one.verify(b, h), body, headers);
    check("svix " + family, (b, h) => other.verify(b, h), body, headers);
  }
  for (const text of capture.public) check("node:crypto webhook-*", bySpecification(text), body, headers);
  if (capture.format === "cloudevents") {
    let fault;
    try {
      fault = cloudEvent(capture, body, headers);
    } catch (e) {
      fault = String(e);
    }
    count("cloudevents", fault ? "wrong" : "right", fault);
  }
}
process.stdout.write(JSON.stringify(tallies));
