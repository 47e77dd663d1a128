// Makes requests with the providers' own libraries. Reads which ones as JSON, writes the requests.
//
// Where a library only verifies, the request is signed here as the provider describes it, and the library says whether it
// believes the request and what was made of it by changing a digit ("says").
import crypto from "node:crypto";
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import "@shopify/shopify-api/adapters/node";
import { shopifyApi, ApiVersion, LogSeverity } from "@shopify/shopify-api";
import { createSHA256HMAC } from "@shopify/shopify-api/runtime";
import { LinearWebhookClient } from "@linear/sdk/webhooks";
import { sign as octokitSign } from "@octokit/webhooks-methods";
import { WebhooksHelper } from "square";
import * as standardwebhooks from "standardwebhooks";
import * as svixwebhooks from "svix";

const require = createRequire(import.meta.url);
const stripeLibrary = require("stripe");
const twilioLibrary = require("twilio");
const { Paddle } = require("@paddle/paddle-node-sdk");
const { EventWebhook } = require("@sendgrid/eventwebhook");
const { hmacValidator } = require("@adyen/api-library");

const invoice = '{"id":"evt_17","type":"invoice.paid","data":{"object":{"id":"in_17","amount":1700}},"note":"Grüße"}';
const hmac = (secret, text, encoding) => crypto.createHmac("sha256", secret).update(text).digest(encoding);

const makers = {
  stripe(secret, url, now) {
    const generate = stripeLibrary.webhooks.generateTestHeaderString.bind(stripeLibrary.webhooks);
    return { body: invoice, headers: { "Stripe-Signature": generate({ payload: invoice, secret, timestamp: now }) } };
  },
  standard(secret, url, now) {
    const signature = new standardwebhooks.Webhook(secret).sign("msg_18", new Date(now * 1000), invoice);
    return { body: invoice, headers: { "webhook-id": "msg_18", "webhook-timestamp": String(now), "webhook-signature": signature } };
  },
  svix(secret, url, now) {
    const signature = new svixwebhooks.Webhook(secret).sign("msg_18", new Date(now * 1000), invoice);
    return { body: invoice, headers: { "svix-id": "msg_18", "svix-timestamp": String(now), "svix-signature": signature } };
  },
  twilio_form(secret, url) {
    const message = { MessageSid: "SM1700", SmsStatus: "received", MediaUrl: ["https://a/2", "https://a/1"], Body: "Grüße & 100 %" };
    const form = new URLSearchParams(Object.entries(message).flatMap(([name, value]) => [value].flat().map((v) => [name, v])));
    const signature = twilioLibrary.getExpectedTwilioSignature(secret, url, message);
    return { body: form.toString(), headers: { "Content-Type": "application/x-www-form-urlencoded", "X-Twilio-Signature": signature } };
  },
  twilio_json(secret, url) {
    const body = '[{"id":"EZ18","type":"com.twilio.messaging.message.delivered","data":{"messageSid":"SM1700"}}]';
    const query = "bodySHA256=" + twilioLibrary.getExpectedBodyHash(body);
    return { body, query, headers: { "X-Twilio-Signature": twilioLibrary.getExpectedTwilioSignature(secret, url + "?" + query, {}) } };
  },
  async shopify(secret) {
    const body = '{"id":1700,"admin_graphql_api_id":"gid://shopify/Order/1700","total_price":"17.00","note":"Grüße"}';
    const headers = { "X-Shopify-Topic": "orders/paid", "X-Shopify-Event-Id": "17-a", "X-Shopify-Webhook-Id": "17-b",
      "X-Shopify-Shop-Domain": "example.myshopify.com", "X-Shopify-Api-Version": "2025-10", "X-Shopify-Hmac-Sha256": await createSHA256HMAC(secret, body) };
    const api = shopifyApi({ apiKey: "k", apiSecretKey: secret, hostName: "hooks.example.com", apiVersion: Object.values(ApiVersion).at(-1),
      isEmbeddedApp: false, logger: { log: () => {}, level: LogSeverity.Error } });
    const says = async (changed) => {
      const rawRequest = { method: "POST", url: "/", headers: { ...headers, "Content-Type": "application/json" } };
      return (await api.webhooks.validate({ rawBody: changed, rawRequest })).valid;
    };
    return { body, headers, says };
  },
  async github(secret) {
    const body = '{"action":"opened","number":1700,"repository":{"full_name":"acme/shop"},"note":"Grüße"}';
    const headers = { "X-GitHub-Event": "pull_request", "X-GitHub-Delivery": "17", "X-Hub-Signature-256": await octokitSign(secret, body) };
    return { body, headers };
  },
  async github_form(secret) {
    const body = new URLSearchParams({ payload: '{"zen":"Grüße","hook_id":1700}' }).toString();
    return { body, headers: { "Content-Type": "application/x-www-form-urlencoded", "X-GitHub-Event": "ping", "X-GitHub-Delivery": "18",
      "X-Hub-Signature-256": await octokitSign(secret, body) } };
  },
  adyen_notification(secret) {
    const item = { pspReference: "79140018", originalReference: "79140017", eventCode: "CAPTURE", merchantAccountCode: "TestMerchant",
      merchantReference: "order:18", amount: { value: 1700, currency: "EUR" }, success: "true" };
    item.additionalData = { hmacSignature: new hmacValidator().calculateHmac(item, secret) };
    return { body: JSON.stringify({ live: "false", notificationItems: [{ NotificationRequestItem: item }] }), headers: {} };
  },
  adyen_platform(secret) {
    const body = '{"type":"balancePlatform.transfer.updated","data":{"id":"tr18","amount":{"value":1700,"currency":"EUR"}}}';
    return { body, headers: { HmacSignature: new hmacValidator().calculateHmac(body, secret.replace(/^hex:/, "")) } };
  },
  sendgrid(secret, url, now) {
    // The secret is the private key; the source has the public half.
    const body = '[{"email":"a@example.com","event":"delivered","sg_event_id":"17","sg_message_id":"1700"}]\r\n';
    const key = crypto.createPrivateKey({ key: Buffer.from(secret, "base64"), format: "der", type: "pkcs8" });
    const signature = crypto.sign("sha256", Buffer.from(now + body), key).toString("base64");
    const public_ = crypto.createPublicKey(key).export({ format: "der", type: "spki" }).toString("base64");
    const events = new EventWebhook();
    return { body, headers: { "X-Twilio-Email-Event-Webhook-Signature": signature, "X-Twilio-Email-Event-Webhook-Timestamp": String(now) },
      says: (changed) => events.verifySignature(events.convertPublicKeyToECDSA(public_), changed, signature, String(now)) };
  },
  zoom(secret, url, now) {
    const body = '{"event":"meeting.started","payload":{"object":{"id":"1700","uuid":"4444AAAiAAAAAiAiAiiAii=="}}}';
    return { body, headers: { "x-zm-request-timestamp": String(now), "x-zm-signature": "v0=" + hmac(secret, `v0:${now}:${body}`, "hex") } };
  },
  zoom_challenge(secret, url, now) {
    const body = '{"event":"endpoint.url_validation","payload":{"plainToken":"token-1700"}}';
    return { body, headers: { "x-zm-request-timestamp": String(now), "x-zm-signature": "v0=" + hmac(secret, `v0:${now}:${body}`, "hex") } };
  },
  paddle(secret, url, now) {
    const body = '{"event_id":"evt_17","notification_id":"ntf_17","event_type":"transaction.paid","data":{"id":"txn_1700"}}';
    const signature = `ts=${now};h1=${hmac(secret, `${now}:${body}`, "hex")}`;
    return { body, headers: { "Paddle-Signature": signature },
      says: (changed) => new Paddle("key").webhooks.isSignatureValid(changed, secret, signature) };
  },
  linear(secret, url, now) {
    const body = JSON.stringify({ action: "create", type: "Issue", data: { id: "1700", title: "Grüße" }, webhookTimestamp: now * 1000 + 508 });
    const signature = hmac(secret, body, "hex");
    return { body, headers: { "Linear-Delivery": "17", "Linear-Event": "Issue", "Linear-Signature": signature },
      says: (changed) => new LinearWebhookClient(secret).verify(Buffer.from(changed), signature) };
  },
  square(secret, url) {
    const body = '{"event_id":"17","type":"payment.updated","data":{"id":"1700","note":"Grüße"}}';
    const signature = hmac(secret, url + body, "base64");
    return { body, headers: { "X-Square-HmacSha256-Signature": signature },
      says: (changed) => WebhooksHelper.verifySignature({ requestBody: changed, signatureHeader: signature, signatureKey: secret, notificationUrl: url }) };
  },
};

// A verifier that throws does not believe.
async function believes(says, body) {
  try {
    return Boolean(await says(body));
  } catch {
    return false;
  }
}

const made = [];
for (const job of JSON.parse(readFileSync(0, "utf8"))) {
  const { says, ...request } = await makers[job.make](job.secret, job.url, job.now || Math.floor(Date.now() / 1000));
  request.changed = request.body.replace("1700", "1701");
  if (says) request.says = [await believes(says, request.body), await believes(says, request.changed)];
  request.headers["Content-Type"] ??= "application/json";
  made.push(request);
}
process.stdout.write(JSON.stringify(made));
