// How each provider signs a request, and where the request says which event it is. Times of retries are those that the providers
// document, as of 2026-11-20.

/** Where a value is: `header:NAME`, `body:PATH` of JSON, `form:FIELD`, or `payload:PATH` of JSON in the form's field payload.
 * After `?` is a path of the body without which the place does not count. */
export type Place = string;

export interface Scheme {
  /** How a request proves its origin. */
  proof: "hmac" | "standard" | "ed25519" | "ecdsa" | "token" | "basic" | "twilio" | "adyen" | "gitlab" | "none";
  /** Where the signature or token is. */
  header?: string;
  /** Before the signature. */
  prefix?: string;
  /** The header is name=value pairs: separator, name of the time, name of signatures. */
  pairs?: [string, string, string];
  algorithm?: "sha1" | "sha256" | "sha512";
  encoding?: "hex" | "base64";
  /** Template of the signed text. */
  signed?: string;
  timestamp?: Place[];
  /** Where the signature is, unless it is in a header. */
  signature?: Place[];
  id?: Place[];
  type?: Place[];
  /** A part of the signed text that is not the id. */
  token?: Place[];
  /** The id is a header that the signature does not cover. */
  unsignedId?: boolean;
  /** One id is shared by events of several types. */
  perType?: boolean;
  /** For how many seconds the sender repeats an event. */
  span?: number;
}

const usual = ["body:type", "body:event_type", "body:event"];
const hour = 3600;
const item = "body:notificationItems.0.NotificationRequestItem.";
const hex256 = { proof: "hmac", algorithm: "sha256", encoding: "hex" } as const;
const base256 = { proof: "hmac", algorithm: "sha256", encoding: "base64" } as const;

export const schemes = {
  adyen: { proof: "adyen", id: [`${item}pspReference`], type: [`${item}eventCode`], perType: true },
  api_key: { proof: "token", header: "x-api-key", type: usual, unsignedId: true },
  basic: { proof: "basic", header: "authorization", type: usual, unsignedId: true },
  discord: {
    proof: "ed25519", header: "x-signature-ed25519", encoding: "hex", signed: "{timestamp}{body}",
    timestamp: ["header:x-signature-timestamp"], id: ["body:id"], type: ["body:event.type", "body:type"], span: 600,
  },
  github: {
    ...hex256, header: "x-hub-signature-256", prefix: "sha256=", signed: "{body}",
    id: ["header:x-github-delivery"], type: ["header:x-github-event"], unsignedId: true,
  },
  gitlab: {
    proof: "gitlab", header: "x-gitlab-token", id: ["header:webhook-id", "header:idempotency-key"],
    type: ["body:object_kind", "body:event_name", "header:x-gitlab-event"], unsignedId: true,
  },
  hmac: { ...hex256, signed: "{body}", type: usual, unsignedId: true },
  linear: {
    ...hex256, header: "linear-signature", signed: "{body}", timestamp: ["body:webhookTimestamp"],
    id: ["header:linear-delivery"], type: ["body:type", "header:linear-event"], unsignedId: true, span: 7 * hour + 60,
  },
  mailgun: {
    ...hex256, signed: "{timestamp}{token}", timestamp: ["body:signature.timestamp", "form:timestamp"],
    signature: ["body:signature.signature", "form:signature"], token: ["body:signature.token", "form:token"],
    id: ["body:event-data.id", "form:token"], type: ["body:event-data.event", "form:event"], unsignedId: true, span: 8 * hour,
  },
  none: { proof: "none", type: usual, unsignedId: true },
  paddle: {
    ...hex256, header: "paddle-signature", pairs: [";", "ts", "h1"], signed: "{timestamp}:{body}",
    id: ["body:event_id"], type: ["body:event_type"], span: 72 * hour,
  },
  sendgrid: {
    proof: "ecdsa", header: "x-twilio-email-event-webhook-signature", encoding: "base64", signed: "{timestamp}{body}",
    timestamp: ["header:x-twilio-email-event-webhook-timestamp"], type: ["body:0.event"], span: 24 * hour,
  },
  shopify: {
    ...base256, header: "x-shopify-hmac-sha256", signed: "{body}", id: ["header:x-shopify-event-id"],
    type: ["header:x-shopify-topic"], perType: true, unsignedId: true, span: 4 * hour,
  },
  slack: {
    ...hex256, header: "x-slack-signature", prefix: "v0=", signed: "v0:{timestamp}:{body}",
    timestamp: ["header:x-slack-request-timestamp"], id: ["body:event_id", "payload:trigger_id", "form:trigger_id"],
    type: ["body:event.type", "body:type", "payload:type", "form:command"], span: 360,
  },
  standard: {
    proof: "standard", header: "webhook-", id: ["header:webhook-id"], type: usual, span: 75 * hour + 35 * 60 + 5,
  },
  stripe: {
    ...hex256, header: "stripe-signature", pairs: [",", "t", "v1"], signed: "{timestamp}.{body}",
    id: ["body:id"], type: ["body:type"], span: 72 * hour,
  },
  svix: {
    proof: "standard", header: "svix-", id: ["header:svix-id", "header:webhook-id"], type: usual, span: 27 * hour + 35 * 60 + 5,
  },
  twilio: {
    proof: "twilio", header: "x-twilio-signature", algorithm: "sha1", id: ["header:i-twilio-idempotency-token", "body:0.id"],
    type: [
      ...["form:EventType", "form:StatusCallbackEvent", "form:MessageStatus", "form:SmsStatus", "form:CallStatus"],
      ...["body:0.type", "body:type"],
    ],
    unsignedId: true, span: 15,
  },
  zendesk: {
    ...base256, header: "x-zendesk-webhook-signature", signed: "{timestamp}{body}",
    timestamp: ["header:x-zendesk-webhook-signature-timestamp"],
    id: ["body:id?zendesk_event_version", "header:x-zendesk-webhook-invocation-id"], type: ["body:type?zendesk_event_version"],
    unsignedId: true,
  },
  zoom: {
    ...hex256, header: "x-zm-signature", prefix: "v0=", signed: "v0:{timestamp}:{body}",
    timestamp: ["header:x-zm-request-timestamp"], type: ["body:event"], span: 85 * 60,
  },
} as const satisfies Record<string, Scheme>;

export type SchemeName = keyof typeof schemes;
