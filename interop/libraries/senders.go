package main

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"strings"
)

// sender is a provider's library that creates one request, and the expected result.
type sender struct {
	language, library string // empty library: the provider has none; it is signed as its documentation says
	make              string // the function in incoming.py or incoming.mjs
	what              string
	scheme            string
	secret            string            // of the source
	given             string            // to the script, if it needs another one: the private half
	settings          map[string]string // of the source's verify, further ones
	want              want
	answer            string // the provider expects this answer; such a request is a greeting and no event
	unrecorded        bool   // the signature differs in each run
	bodyUnsigned      bool   // parts of the body are not covered
	stampedInBody     bool
}

// want is the expected identity and type of an event.
type want struct {
	ID       string `json:"id,omitempty"`
	Delivery string `json:"delivery,omitempty"`
	Type     string `json:"type"`
	Key      string `json:"key,omitempty"`
	By       string `json:"by,omitempty"`
}

// Public secrets are no secrets: these were made up, or are in the providers' documentation.
const (
	plainSecret    = "a-secret-that-nobody-has"
	adyenKey       = "44782DEF547AAA06C910C43932B1EB0C71FC68D9D0C057550C48EC2ACF6BA056" //nolint:gosec // Adyen's example
	standardSecret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"                           //nolint:gosec // the standard's example
)

// senders are created for each run, because two of them need a pair of keys.
func senders() ([]sender, error) {
	seed := []byte(strings.Repeat("\x17", ed25519.SeedSize))
	public, ok := ed25519.NewKeyFromSeed(seed).Public().(ed25519.PublicKey)
	if !ok {
		return nil, errors.New("an Ed25519 key has another public half")
	}
	curve, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(curve)
	if err != nil {
		return nil, err
	}
	verifying, err := x509.MarshalPKIXPublicKey(&curve.PublicKey)
	if err != nil {
		return nil, err
	}
	invoice := want{ID: "evt_17", Type: "invoice.paid", Key: "in_17"}
	form := want{Type: "delivered", Key: "SM1700", By: "content"}
	platform := map[string]string{"header": "HmacSignature", "encoding": "base64"}
	return []sender{
		{language: "Python", library: "stripe", make: "stripe", what: "Stripe", scheme: "stripe", secret: "whsec_nobody_has_this", want: invoice},
		{language: "Node", library: "stripe", make: "stripe", what: "Stripe", scheme: "stripe", secret: "whsec_nobody_has_this", want: invoice},
		{language: "Python", library: "slack_sdk", make: "slack", what: "Slack, an event", scheme: "slack", secret: plainSecret,
			want: want{ID: "Ev17", Type: "app_mention", Key: "C1700"}},
		{language: "Python", library: "slack_sdk", make: "slack_command", what: "Slack, a command", scheme: "slack", secret: plainSecret,
			want: want{ID: "17.1700", Type: "_weather", Key: "C1700"}},
		{language: "Python", library: "slack_sdk", make: "slack_challenge", what: "Slack, the challenge", scheme: "slack", secret: plainSecret,
			answer: "challenge-1700"},
		{language: "Python", library: "twilio", make: "twilio_form", what: "Twilio, a form", scheme: "twilio", secret: plainSecret, want: form},
		{language: "Python", library: "twilio", make: "twilio_json", what: "Twilio, JSON with `bodySHA256`", scheme: "twilio",
			secret: plainSecret,
			want:   want{ID: "EZ17", Type: "com.twilio.messaging.message.delivered"}},
		{language: "Python", library: "twilio", make: "twilio_shared_key", what: "Twilio, a form signed with a SharedKey (SHA-256)",
			scheme: "twilio", secret: plainSecret, want: form},
		{language: "Node", library: "twilio", make: "twilio_form", what: "Twilio, a form with a field twice", scheme: "twilio",
			secret: plainSecret,
			want:   want{Type: "received", Key: "SM1700", By: "content"}},
		{language: "Node", library: "twilio", make: "twilio_json", what: "Twilio, JSON with `bodySHA256`", scheme: "twilio", secret: plainSecret,
			want: want{ID: "EZ18", Type: "com.twilio.messaging.message.delivered"}},
		{language: "Node", library: "@shopify/shopify-api", make: "shopify", what: "Shopify; `webhooks.validate` agrees", scheme: "shopify",
			secret: plainSecret,
			want:   want{ID: "17-a", Delivery: "17-b", Type: "orders_paid", Key: "gid://shopify/Order/1700"}},
		{language: "Python", library: "standardwebhooks", make: "standard", what: "Standard Webhooks", scheme: "standard", secret: standardSecret,
			want: want{ID: "msg_17", Type: "invoice.paid"}},
		{language: "Node", library: "standardwebhooks", make: "standard", what: "Standard Webhooks", scheme: "standard", secret: standardSecret,
			want: want{ID: "msg_18", Type: "invoice.paid"}},
		{language: "Python", library: "svix", make: "svix", what: "Svix", scheme: "svix", secret: standardSecret,
			want: want{ID: "msg_17", Type: "invoice.paid"}},
		{language: "Node", library: "svix", make: "svix", what: "Svix", scheme: "svix", secret: standardSecret,
			want: want{ID: "msg_18", Type: "invoice.paid"}},
		{language: "Node", library: "@octokit/webhooks-methods", make: "github", what: "GitHub, JSON", scheme: "github", secret: plainSecret,
			want: want{ID: "17", Type: "pull_request", Key: "acme/shop"}},
		{language: "Node", library: "@octokit/webhooks-methods", make: "github_form", what: "GitHub, a form", scheme: "github",
			secret: plainSecret, want: want{ID: "18", Type: "ping"}},
		{language: "Python", library: "Adyen", make: "adyen_notification", what: "Adyen, a notification", scheme: "adyen", secret: adyenKey,
			bodyUnsigned: true,
			want:         want{ID: "79140017", Type: "AUTHORISATION", Key: "79140017"}},
		{language: "Node", library: "@adyen/api-library", make: "adyen_notification", what: "Adyen, a notification", scheme: "adyen",
			secret: adyenKey, bodyUnsigned: true,
			want: want{ID: "79140018", Type: "CAPTURE", Key: "79140017"}},
		{language: "Python", library: "Adyen", make: "adyen_platform", what: "Adyen for Platforms, a hexadecimal key", scheme: "hmac",
			secret: "hex:" + adyenKey, settings: platform,
			want: want{Type: "balancePlatform.transfer.created", By: "content"}},
		{language: "Node", library: "@adyen/api-library", make: "adyen_platform", what: "Adyen for Platforms, a hexadecimal key", scheme: "hmac",
			secret: "hex:" + adyenKey, settings: platform,
			want: want{Type: "balancePlatform.transfer.updated", By: "content"}},
		{language: "Node", library: "@sendgrid/eventwebhook", make: "sendgrid", what: "SendGrid; verifies only, and agrees", scheme: "sendgrid",
			secret: base64.StdEncoding.EncodeToString(verifying), given: base64.StdEncoding.EncodeToString(private), unrecorded: true,
			want: want{Type: "delivered", By: "content"}},
		{language: "Python", library: "PyNaCl", make: "discord", what: "Discord, an event; agrees", scheme: "discord",
			secret: hex.EncodeToString(public), given: hex.EncodeToString(seed),
			want: want{ID: "17", Type: "APPLICATION_AUTHORIZED"}},
		{language: "Python", library: "PyNaCl", make: "discord_ping", what: "Discord, the ping of an interaction", scheme: "discord",
			secret: hex.EncodeToString(public),
			given:  hex.EncodeToString(seed), answer: `{"type":1}`},
		{language: "Node", library: "@paddle/paddle-node-sdk", make: "paddle", what: "Paddle; verifies only, and agrees", scheme: "paddle",
			secret: plainSecret,
			want:   want{ID: "evt_17", Delivery: "ntf_17", Type: "transaction.paid", Key: "txn_1700"}},
		{language: "Node", library: "@linear/sdk", make: "linear", what: "Linear; verifies only, and agrees", scheme: "linear",
			secret: plainSecret, stampedInBody: true,
			want: want{ID: "17", Type: "Issue", Key: "1700"}},
		{language: "Node", library: "square", make: "square", what: "Square; verifies only, and agrees", scheme: "hmac", secret: plainSecret,
			settings: map[string]string{"header": "X-Square-HmacSha256-Signature", "encoding": "base64", "signed": "{url}{body}"},
			want:     want{Type: "payment.updated", By: "content"}},
		{language: "Node", library: "", make: "zoom", what: "Zoom, an event; it has no library", scheme: "zoom", secret: plainSecret,
			want: want{Type: "meeting.started", Key: "4444AAAiAAAAAiAiAiiAii==", By: "content"}},
		{language: "Node", library: "", make: "zoom_challenge", what: "Zoom, the validation of the URL; it has no library", scheme: "zoom",
			secret: plainSecret,
			answer: `{"encryptedToken":"5eab3d014adc698fc92c136f362ab57d66483c401c09827593622e121fa6cce1","plainToken":"token-1700"}`},
	}, nil
}
