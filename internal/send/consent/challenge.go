package consent

import (
	"bytes"
	"context"
	"crypto/subtle"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"time"

	"github.com/grapnelhq/grapnel"
	"github.com/grapnelhq/grapnel/internal/send/egress"
	"github.com/grapnelhq/grapnel/policy"
)

// Challenge is the data of the message that asks for consent.
type Challenge struct {
	Challenge string `json:"challenge"` // the token to answer with
	Endpoint  string `json:"endpoint_id"`
}

// challenge sends the endpoint's address a new token. It returns why there is no consent; empty:
// the answer has the token. The token is stored nowhere: the answer to this one request has it or
// none has.
func (k *Keeper) challenge(ctx context.Context, ep *grapnel.Endpoint, now time.Time) (cause string) {
	raw := make([]byte, 24)
	if _, err := io.ReadFull(k.o.Random, raw); err != nil {
		return "no challenge was sent: the server has no randomness"
	}
	token := base64.RawURLEncoding.EncodeToString(raw)
	data, err := json.Marshal(Challenge{Challenge: token, Endpoint: ep.ID})
	if err != nil {
		return "no challenge was sent: " + err.Error()
	}
	r := k.o.Sender.Send(ctx, egress.Delivery{
		Endpoint: k.asked(ep), ID: "dlv_consent", Number: ep.Consent.Asked, Trigger: grapnel.TriggerTest, CreatedAt: now,
		Event: &grapnel.Event{ID: grapnel.NewID(grapnel.EventPrefix, now, k.o.Random), Tenant: ep.Tenant, Type: grapnel.EventConsent,
			Data: data, ContentType: grapnel.JSONType, OccurredAt: now, AcceptedAt: now},
		Proxy: k.o.Engine.Terms(ep.Tenant).Proxy.Text,
	})
	switch {
	case r.Unsendable != "":
		return "no challenge could be sent: " + r.Unsendable
	case r.Outcome.Class != policy.ClassNone && r.Error != "":
		return r.Error
	case r.Outcome.Status < 200 || r.Outcome.Status > 299:
		return fmt.Sprintf("it answered %d", r.Outcome.Status)
	case !repeats(r.Body, token):
		return fmt.Sprintf("it answered %d without the challenge", r.Outcome.Status)
	}
	return ""
}

// asked is the endpoint as it is asked: its address, secrets and headers, and the standard body. A
// transform could leave the token out, and an endpoint's own success codes are for deliveries. No
// delivery is sent at this revision of the endpoint, so none gets the sender's route of it.
func (k *Keeper) asked(ep *grapnel.Endpoint) *grapnel.Endpoint {
	to := *ep
	timeout := k.bounds.Timeout
	if own := time.Duration(ep.Policy.Timeout); own > 0 {
		timeout = min(timeout, own)
	}
	to.Headers = ep.SentHeaders()
	to.Format, to.Transform, to.Former = grapnel.FormatStandard, "", nil
	to.Policy = policy.Policy{Timeout: policy.Duration(timeout)}
	return &to
}

// repeats says whether an answer has the token: alone, or as the member challenge of an object. The
// message has it one level deeper, so a server that returns each request as it came does not
// consent by that.
func repeats(body []byte, token string) bool {
	body = bytes.TrimSpace(body)
	var of struct {
		Challenge string `json:"challenge"`
	}
	given := string(body)
	if len(body) > 0 && body[0] == '{' && json.Unmarshal(body, &of) == nil {
		given = of.Challenge
	}
	return subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 1
}
