package scheme

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// one is for a provider that has a single id for both.
func one(places ...Place) IDs { return IDs{places, places} }

// The proofs.
const (
	ByNothing  Proof = iota
	ByHMAC           // of a template, or of one that the source sets
	ByStandard       // Standard Webhooks: v1 and v1a
	ByEd25519        // of a template
	ByToken          // the secret itself is in a header
	ByBasic          // the secret is a password
	ByTwilio         // HMAC of the URL and a form
	ByECDSA          // P-256, of a template
	ByAdyen          // HMAC of fields of the body
	ByEither         // Standard Webhooks if the secret is of that kind, else a token
)

// The greetings.
const (
	NoGreeting Greeting = iota
	SlackGreeting
	DiscordGreeting
	ZoomGreeting
)

// checkedOn is the day on which the rows' retries were last compared with the providers'
// documentation. Rows without it come from other sources.
const checkedOn = "2026-11-20"

const (
	whsec   = "whsec_… or what follows it alone (HMAC-SHA256), or whpk_… (the public key of Ed25519)"
	anyText = "any text of 8 characters or more"
)

// settings of verify, with the names of the API.
var (
	ofHMAC  = []string{"header", "algorithm", "encoding", "prefix", "signed", "timestamp_header", "id_header", "type_header", "tolerance"}
	ofPlain = []string{"id_header", "type_header"}
)

// genericKind are the usual members for the type at providers without a row.
var genericKind = []Place{body("type"), body("event_type"), body("event")}

// rows is the table of schemes, sorted by name. It is read only.
var rows = []*Row{
	{
		Scheme: Scheme{
			Name:      "adyen",
			Title:     "Adyen",
			Signature: "HMAC-SHA256 over eight fields of the notification, in its additionalData.hmacSignature. The rest of the body is unsigned.",
			Needs:     "the webhook's HMAC key, in hexadecimal",
			Retries:   "three times at once, then with growing pauses for up to 30 days, which is longer than the default dedupe.window",
			Checked:   checkedOn,
			Docs:      "https://docs.adyen.com/development-resources/webhooks/troubleshoot",
		},
		Proof:     ByAdyen,
		algorithm: "sha256",
		IDs:       one(body(adyenItem + "pspReference")),
		Kind:      []Place{body(adyenItem + "eventCode")},
		PerType:   true,
		Key:       []Place{body(adyenItem + "originalReference"), body(adyenItem + "pspReference")},
	},
	{
		Scheme: Scheme{Name: "api_key", Title: "API key", Signature: "The secret is in a header; nothing is signed.",
			Needs: anyText, Settings: append([]string{"header", "prefix"}, ofPlain...), Unsigned: true},
		Proof: ByToken, header: "X-Api-Key", Kind: genericKind,
		Signs: SignsAnything,
	},
	{
		Scheme: Scheme{
			Name:      "basic",
			Title:     "HTTP basic authentication",
			Signature: "Name and password are in the header Authorization; nothing is signed.",
			Needs:     "the password",
			Settings:  append([]string{"username"}, ofPlain...),
			Unsigned:  true,
		},
		Proof:  ByBasic,
		header: "Authorization",
		Kind:   genericKind,
		Signs:  SignsAnything,
	},
	{
		Scheme: Scheme{
			Name:       "discord",
			Title:      "Discord",
			Signature:  "Ed25519 over timestamp and body in X-Signature-Ed25519.",
			Needs:      "the application's public key, 64 hexadecimal digits",
			RetriesFor: 10 * time.Minute,
			Retries:    "up to 10 minutes with growing pauses; interactions are sent once",
			Docs:       "https://docs.discord.com/developers/events/webhook-events",
		},
		Proof: ByEd25519, header: "X-Signature-Ed25519", signed: "{timestamp}{body}",
		timestamp: []Place{header("X-Signature-Timestamp")},
		IDs:       one(body("id")), Kind: []Place{body("event.type"), body("type")}, Greets: DiscordGreeting,
	},
	{
		Scheme: Scheme{
			Name:      "github",
			Title:     "GitHub",
			Signature: "HMAC-SHA256 over the body in X-Hub-Signature-256.",
			Needs:     "the webhook's secret",
			Unsigned:  true,
			Retries:   "never; deliveries of the last 3 days can be asked for again",
			Checked:   checkedOn,
			Docs:      "https://docs.github.com/en/webhooks/using-webhooks/handling-failed-webhook-deliveries",
		},
		Proof: ByHMAC, header: "X-Hub-Signature-256", prefix: "sha256=", algorithm: "sha256", signed: "{body}",
		IDs: one(header("X-GitHub-Delivery")), Kind: []Place{header("X-GitHub-Event")}, Signs: SignsType,
		Key: []Place{body("repository.full_name"), body("organization.login"), payload("repository.full_name"), payload("organization.login")},
	},
	{
		Scheme: Scheme{
			Name:      "gitlab",
			Title:     "GitLab",
			Signature: "With a signing token (whsec_…) HMAC-SHA256 over id, timestamp and body, as Standard Webhooks does; else the secret token is in X-Gitlab-Token.",
			Needs:     "the webhook's signing token, or its secret token",
			Unsigned:  true,
			Retries:   "not by itself; deliveries can be sent again by hand, with the same Idempotency-Key",
			Docs:      "https://docs.gitlab.com/user/project/integrations/webhooks/",
		},
		Proof: ByEither, header: "X-Gitlab-Token",
		IDs:   one(header("Webhook-Id"), header("Idempotency-Key")), // the same value; a signing token covers the former
		Kind:  []Place{body("object_kind"), body("event_name"), header("X-Gitlab-Event")},
		Key:   []Place{body("project.path_with_namespace"), body("group.full_path")},
		Signs: SignsAnything,
	},
	{
		Scheme: Scheme{Name: "hmac", Title: "any HMAC", Signature: "An HMAC over what the source says, in the header that it says.",
			Needs: anyText + "; hex:… and base64:… are the bytes that they stand for", Settings: ofHMAC, Unsigned: true},
		Proof: ByHMAC, algorithm: "sha256", signed: "{body}", Kind: genericKind,
		Signs: SignsAnything,
	},
	{
		Scheme: Scheme{Name: "linear", Title: "Linear", Signature: "HMAC-SHA256 over the body, which has the timestamp, in Linear-Signature.",
			Success: http.StatusOK, Needs: "the webhook's signing secret", Unsigned: true, RetriesFor: 7*time.Hour + time.Minute,
			Retries: "three times, after 1 minute, 1 hour and 6 hours", Docs: "https://linear.app/developers/webhooks"},
		Proof: ByHMAC, header: "Linear-Signature", algorithm: "sha256", signed: "{body}",
		timestamp: []Place{body("webhookTimestamp")}, Signs: SignsOnce,
		IDs: one(header("Linear-Delivery")), Kind: []Place{body("type"), header("Linear-Event")}, Key: []Place{body("data.id")},
	},
	{
		Scheme: Scheme{
			Name:       "mailgun",
			Title:      "Mailgun",
			Signature:  "HMAC-SHA256 over timestamp and token, both in the body beside it. The rest of the body is not covered.",
			Needs:      "the account's webhook signing key",
			Unsigned:   true,
			Success:    http.StatusOK,
			RetriesFor: 8 * time.Hour,
			Retries:    "for 8 hours; an answer of 406 ends it",
			Checked:    checkedOn,
			Docs:       "https://documentation.mailgun.com/docs/mailgun/user-manual/webhooks/webhooks",
		},
		Proof:     ByHMAC,
		algorithm: "sha256",
		signed:    "{timestamp}{token}",
		Signs:     SignsOnce,
		timestamp: []Place{body("signature.timestamp"), field("timestamp")},
		signature: []Place{body("signature.signature"), field("signature")},
		IDs:       IDs{[]Place{body("event-data.id"), field("token")}, []Place{body("signature.token"), field("token")}},
		Kind:      []Place{body("event-data.event"), field("event")},
		Key:       []Place{body("event-data.message.headers.message-id"), field("Message-Id")},
	},
	{
		Scheme: Scheme{
			Name:      "none",
			Title:     "nothing",
			Signature: "None: every request to the address is accepted.",
			Settings:  ofPlain,
			Unsigned:  true,
		},
		Proof: ByNothing,
		Kind:  genericKind,
		Signs: SignsAnything,
	},
	{
		Scheme: Scheme{
			Name:       "paddle",
			Title:      "Paddle",
			Signature:  "HMAC-SHA256 over timestamp and body in Paddle-Signature, as ts=…;h1=….",
			Needs:      "the notification destination's secret key",
			Success:    http.StatusOK,
			RetriesFor: 72 * time.Hour,
			Retries:    "60 times within 3 days; in sandboxes 3 times within 15 minutes",
			Checked:    checkedOn,
			Docs:       "https://developer.paddle.com/webhooks/respond-to-webhooks",
		},
		Proof:     ByHMAC,
		header:    "Paddle-Signature",
		pairs:     ";",
		pairTime:  "ts",
		pairSum:   "h1",
		algorithm: "sha256",
		signed:    "{timestamp}:{body}",
		IDs:       IDs{[]Place{body("event_id")}, []Place{body("notification_id")}},
		Kind:      []Place{body("event_type")},
		Key:       []Place{body("data.id")},
	},
	{
		Scheme: Scheme{
			Name:       "sendgrid",
			Title:      "SendGrid",
			Signature:  "ECDSA over timestamp and body in X-Twilio-Email-Event-Webhook-Signature. One request has several events.",
			Needs:      "the verification key of the Event Webhook, MFkw…",
			RetriesFor: 24 * time.Hour,
			Retries:    "for 24 hours with growing pauses",
			Docs:       "https://www.twilio.com/docs/sendgrid/for-developers/tracking-events/getting-started-event-webhook-security-features",
		},
		Proof:     ByECDSA,
		header:    "X-Twilio-Email-Event-Webhook-Signature",
		encoding:  "base64",
		signed:    "{timestamp}{body}",
		timestamp: []Place{header("X-Twilio-Email-Event-Webhook-Timestamp")},
		Kind:      []Place{body("0.event")},
	},
	{
		Scheme: Scheme{
			Name:       "shopify",
			Title:      "Shopify",
			Signature:  "HMAC-SHA256 over the body in X-Shopify-Hmac-Sha256, in base64.",
			Needs:      "the app's client secret, or the one below the list of webhooks in the shop's settings",
			Unsigned:   true,
			RetriesFor: 4 * time.Hour,
			Retries:    "8 times within 4 hours, then the subscription may be removed",
			Checked:    checkedOn,
			Docs:       "https://shopify.dev/docs/apps/build/webhooks/troubleshooting-webhooks",
		},
		Proof: ByHMAC, header: "X-Shopify-Hmac-Sha256", algorithm: "sha256", encoding: "base64", signed: "{body}",
		IDs:  IDs{[]Place{header("X-Shopify-Event-Id")}, []Place{header("X-Shopify-Webhook-Id")}},
		Kind: []Place{header("X-Shopify-Topic")}, Key: []Place{body("admin_graphql_api_id"), body("id")}, PerType: true,
		Signs: SignsAnything,
	},
	{
		Scheme: Scheme{Name: "slack", Title: "Slack", Signature: "HMAC-SHA256 over version, timestamp and body in X-Slack-Signature.",
			Needs: "the app's signing secret", RetriesFor: 6 * time.Minute,
			Retries: "three times, at once, after 1 minute and after 5 minutes", Docs: "https://docs.slack.dev/apis/events-api/"},
		Proof: ByHMAC, header: "X-Slack-Signature", prefix: "v0=", algorithm: "sha256", signed: "v0:{timestamp}:{body}",
		timestamp: []Place{header("X-Slack-Request-Timestamp")},
		IDs:       one(body("event_id"), payload("trigger_id"), field("trigger_id")),
		Kind:      []Place{body("event.type"), body("type"), payload("type"), field("command")},
		Key:       []Place{body("event.channel"), payload("channel.id"), field("channel_id")}, Greets: SlackGreeting, Signs: SignsOnce,
	},
	{
		Scheme: Scheme{
			Name:       "standard",
			Title:      "Standard Webhooks",
			Signature:  "HMAC-SHA256 (v1) or Ed25519 (v1a) over id, timestamp and body in webhook-signature.",
			Needs:      whsec,
			RetriesFor: 75*time.Hour + 35*time.Minute + 5*time.Second,
			Retries:    "as the sender likes; the specification's example goes on for 75 hours",
			Checked:    checkedOn,
			Docs:       "https://www.standardwebhooks.com/",
		},
		Proof:     ByStandard,
		header:    "Webhook-",
		timestamp: []Place{header("Webhook-Timestamp")},
		IDs:       one(header("Webhook-Id")),
		Kind:      genericKind,
		Signs:     SignsIDs,
	},
	{
		Scheme: Scheme{
			Name:       "stripe",
			Title:      "Stripe",
			Signature:  "HMAC-SHA256 over timestamp and body in Stripe-Signature, as t=…,v1=….",
			Needs:      "the endpoint's signing secret, whsec_…, as it is",
			RetriesFor: 72 * time.Hour,
			Retries:    "for 3 days with growing pauses; in sandboxes three times in a few hours",
			Checked:    checkedOn,
			Docs:       "https://docs.stripe.com/webhooks",
		},
		Proof:     ByHMAC,
		header:    "Stripe-Signature",
		pairs:     ",",
		pairTime:  "t",
		pairSum:   "v1",
		algorithm: "sha256",
		signed:    "{timestamp}.{body}",
		IDs:       one(body("id")),
		Kind:      []Place{body("type")},
		Key:       []Place{body("data.object.id"), body("related_object.id")},
	},
	{
		Scheme: Scheme{Name: "svix", Title: "Svix", Signature: "As Standard Webhooks, in headers that start with svix- or webhook-.",
			Needs: whsec, RetriesFor: 27*time.Hour + 35*time.Minute + 5*time.Second,
			Retries: "at once, after 5 s, 5 min, 30 min, 2 h, 5 h, 10 h and 10 h", Checked: checkedOn, Docs: "https://docs.svix.com/retries"},
		Proof: ByStandard, header: "Svix-",
		timestamp: []Place{header("Svix-Timestamp"), header("Webhook-Timestamp")},
		IDs:       one(header("Svix-Id"), header("Webhook-Id")), Kind: genericKind,
		Signs: SignsIDs,
	},
	{
		Scheme: Scheme{
			Name:       "twilio",
			Title:      "Twilio",
			Signature:  "HMAC over the URL and the fields of a form in X-Twilio-Signature; of a JSON body the URL has the hash (bodySHA256). SHA-1 with the auth token; with a SharedKey what X-Twilio-Webhooks-Signature-Settings names, such as SHA-256.",
			Needs:      "the account's auth token, or the secret of a SharedKey",
			Unsigned:   true,
			RetriesFor: 15 * time.Second,
			Retries:    "once, within 15 seconds; up to 5 times if the URL asks for it",
			Docs:       "https://www.twilio.com/docs/usage/webhooks/webhooks-security",
		},
		Proof:     ByTwilio,
		header:    "X-Twilio-Signature",
		algorithm: "sha1",
		encoding:  "base64",
		IDs:       one(header("I-Twilio-Idempotency-Token"), body("0.id")),
		Kind: []Place{
			field("EventType"),
			field("StatusCallbackEvent"),
			field("MessageStatus"),
			field("SmsStatus"),
			field("CallStatus"),
			body("0.type"),
			body("type"),
		},
		Key:   []Place{field("MessageSid"), field("CallSid"), field("ConversationSid")},
		Signs: SignsAnything,
	},
	{
		Scheme: Scheme{
			Name:      "zendesk",
			Title:     "Zendesk",
			Signature: "HMAC-SHA256 over timestamp and body in X-Zendesk-Webhook-Signature, in base64.",
			Needs:     "the webhook's signing secret",
			Unsigned:  true,
			Retries:   "a few times, after timeouts and some answers; for how long is not said",
			Docs:      "https://developer.zendesk.com/api-reference/webhooks/introduction/",
		},
		Proof:     ByHMAC,
		header:    "X-Zendesk-Webhook-Signature",
		algorithm: "sha256",
		encoding:  "base64",
		signed:    "{timestamp}{body}",
		timestamp: []Place{header("X-Zendesk-Webhook-Signature-Timestamp")},
		Signs:     SignsOnce,
		IDs: IDs{
			[]Place{body("id").given("zendesk_event_version"), header("X-Zendesk-Webhook-Invocation-Id")},
			[]Place{header("X-Zendesk-Webhook-Invocation-Id")},
		},
		Kind: []Place{body("type").given("zendesk_event_version")},
		Key:  []Place{body("subject").given("zendesk_event_version")},
	},
	{
		Scheme: Scheme{Name: "zoom", Title: "Zoom", Signature: "HMAC-SHA256 over version, timestamp and body in X-Zm-Signature.",
			Success: http.StatusOK, Needs: "the app's secret token", RetriesFor: 85 * time.Minute,
			Retries: "three times, after 5, 20 and 60 minutes", Checked: checkedOn, Docs: "https://developers.zoom.us/blog/webhook-delays"},
		Proof: ByHMAC, header: "X-Zm-Signature", prefix: "v0=", algorithm: "sha256", signed: "v0:{timestamp}:{body}",
		timestamp: []Place{header("X-Zm-Request-Timestamp")},
		Kind:      []Place{body("event")}, Key: []Place{body("payload.object.uuid"), body("payload.object.id")}, Greets: ZoomGreeting,
	},
}

// Find returns the row of a scheme; nil: none.
func Find(scheme string) *Row {
	at, there := slices.BinarySearchFunc(rows, scheme, func(r *Row, name string) int { return strings.Compare(r.Name, name) })
	if !there {
		return nil
	}
	return rows[at]
}

// timed says whether requests of the scheme carry a timestamp that is checked.
func (r *Row) timed() bool { return r.pairTime != "" || len(r.timestamp) > 0 || r.Proof == ByEither }
