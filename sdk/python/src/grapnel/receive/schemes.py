"""The table of providers: how each signs a request, and where the request says which event it is.

A place is ``header:NAME``, ``body:PATH`` of JSON, ``form:FIELD``, or ``payload:PATH`` of JSON in the form's field payload.
After ``?`` is a path of the body without which the place does not count. Spans are those that the providers document, as
of 2026-11-20.
"""

from __future__ import annotations

from dataclasses import dataclass

HOUR = 3600.0
Places = tuple[str, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Scheme:
    """One provider's way."""

    proof: str = "hmac"  # or standard, ed25519, ecdsa, token, basic, twilio, adyen, gitlab, none
    header: str = ""  # where the signature or token is
    prefix: str = ""  # before the signature
    pairs: tuple[str, str, str] | None = None  # the header is name=value pairs: separator, name of time, name of signatures
    algorithm: str = "sha256"
    encoding: str = "hex"
    signed: str = "{body}"  # template of the signed text
    timestamp: Places = ()
    signature: Places = ()  # where the signature is, unless it is in a header
    token: Places = ()  # a part of the signed text that is not the id
    id: Places = ()
    unsigned_id: bool = False  # the signature does not cover the id
    type: Places = ()  # for providers with one id for events of several types: the key is TYPE:ID
    span: float = 0  # seconds for which the sender repeats an event


ITEM = "body:notificationItems.0.NotificationRequestItem."

SCHEMES = {
    "adyen": Scheme(proof="adyen", id=(ITEM + "pspReference",), type=(ITEM + "eventCode",)),
    "api_key": Scheme(proof="token", header="x-api-key", unsigned_id=True),
    "basic": Scheme(proof="basic", header="authorization", unsigned_id=True),
    "discord": Scheme(
        proof="ed25519",
        header="x-signature-ed25519",
        signed="{timestamp}{body}",
        timestamp=("header:x-signature-timestamp",),
        id=("body:id",),
        span=600,
    ),
    "github": Scheme(header="x-hub-signature-256", prefix="sha256=", id=("header:x-github-delivery",), unsigned_id=True),
    "gitlab": Scheme(
        proof="gitlab",
        header="x-gitlab-token",
        id=("header:webhook-id", "header:idempotency-key"),
        unsigned_id=True,
    ),
    "hmac": Scheme(unsigned_id=True),
    "linear": Scheme(
        header="linear-signature",
        timestamp=("body:webhookTimestamp",),
        id=("header:linear-delivery",),
        unsigned_id=True,
        span=7 * HOUR + 60,
    ),
    "mailgun": Scheme(
        signed="{timestamp}{token}",
        timestamp=("body:signature.timestamp", "form:timestamp"),
        signature=("body:signature.signature", "form:signature"),
        token=("body:signature.token", "form:token"),
        id=("body:event-data.id", "form:token"),
        unsigned_id=True,
        span=8 * HOUR,
    ),
    "none": Scheme(proof="none", unsigned_id=True),
    "paddle": Scheme(
        header="paddle-signature", pairs=(";", "ts", "h1"), signed="{timestamp}:{body}", id=("body:event_id",), span=72 * HOUR
    ),
    "sendgrid": Scheme(
        proof="ecdsa",
        header="x-twilio-email-event-webhook-signature",
        encoding="base64",
        signed="{timestamp}{body}",
        timestamp=("header:x-twilio-email-event-webhook-timestamp",),
        span=24 * HOUR,
    ),
    "shopify": Scheme(
        header="x-shopify-hmac-sha256",
        encoding="base64",
        id=("header:x-shopify-event-id",),
        unsigned_id=True,
        type=("header:x-shopify-topic",),
        span=4 * HOUR,
    ),
    "slack": Scheme(
        header="x-slack-signature",
        prefix="v0=",
        signed="v0:{timestamp}:{body}",
        timestamp=("header:x-slack-request-timestamp",),
        id=("body:event_id", "payload:trigger_id", "form:trigger_id"),
        span=360,
    ),
    "standard": Scheme(proof="standard", header="webhook-", id=("header:webhook-id",), span=75 * HOUR + 35 * 60 + 5),
    "stripe": Scheme(
        header="stripe-signature", pairs=(",", "t", "v1"), signed="{timestamp}.{body}", id=("body:id",), span=72 * HOUR
    ),
    "svix": Scheme(proof="standard", header="svix-", id=("header:svix-id", "header:webhook-id"), span=27 * HOUR + 35 * 60 + 5),
    "twilio": Scheme(
        proof="twilio",
        header="x-twilio-signature",
        id=("header:i-twilio-idempotency-token", "body:0.id"),
        unsigned_id=True,
        span=15,
    ),
    "zendesk": Scheme(
        header="x-zendesk-webhook-signature",
        encoding="base64",
        signed="{timestamp}{body}",
        timestamp=("header:x-zendesk-webhook-signature-timestamp",),
        id=("body:id?zendesk_event_version", "header:x-zendesk-webhook-invocation-id"),
        unsigned_id=True,
    ),
    "zoom": Scheme(
        header="x-zm-signature",
        prefix="v0=",
        signed="v0:{timestamp}:{body}",
        timestamp=("header:x-zm-request-timestamp",),
        span=85 * 60,
    ),
}
