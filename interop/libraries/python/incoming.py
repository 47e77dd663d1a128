"""Makes requests with the providers' own libraries. Reads which ones as JSON, writes the requests.

Where a library only verifies, the request is signed here as the provider describes it, and the library says whether it
believes the request and what was made of it by changing a digit ("says").
"""
import base64
import hmac
import json
import sys
import time
from datetime import datetime, timezone

import Adyen.util
import standardwebhooks
import stripe
import svix
from nacl.exceptions import BadSignatureError
from nacl.signing import SigningKey
from slack_sdk.signature import SignatureVerifier
from twilio.request_validator import RequestValidator
from urllib.parse import urlencode

INVOICE = '{"id":"evt_17","type":"invoice.paid","data":{"object":{"id":"in_17","amount":1700}},"note":"Grüße"}'


def at(now):
    return datetime.fromtimestamp(now, tz=timezone.utc)


def stripe_(secret, url, now):
    sign = stripe.WebhookSignature.generate_signature_header
    return {"body": INVOICE, "headers": {"Stripe-Signature": sign(INVOICE, secret, now)}}


def slack(secret, url, now, body=None, media="application/json"):
    body = body or '{"type":"event_callback","event_id":"Ev17","event":{"type":"app_mention","channel":"C1700","text":"Grüße"}}'
    signature = SignatureVerifier(secret).generate_signature(timestamp=str(now), body=body)
    return {"body": body, "headers": {"Content-Type": media, "X-Slack-Request-Timestamp": str(now), "X-Slack-Signature": signature}}


def slack_command(secret, url, now):
    body = urlencode({"command": "/weather", "trigger_id": "17.1700", "channel_id": "C1700", "text": "Zürich & Köln"})
    return slack(secret, url, now, body, "application/x-www-form-urlencoded")


def slack_challenge(secret, url, now):
    return slack(secret, url, now, '{"type":"url_verification","challenge":"challenge-1700"}')


def standard(secret, url, now):
    signature = standardwebhooks.Webhook(secret).sign("msg_17", at(now), INVOICE)
    return {"body": INVOICE, "headers": {"webhook-id": "msg_17", "webhook-timestamp": str(now), "webhook-signature": signature}}


def svix_(secret, url, now):
    signature = svix.Webhook(secret).sign("msg_17", at(now), INVOICE)
    return {"body": INVOICE, "headers": {"svix-id": "msg_17", "svix-timestamp": str(now), "svix-signature": signature}}


MESSAGE = {"MessageSid": "SM1700", "MessageStatus": "delivered", "To": "+15558675310", "Body": "Grüße & 100 %"}


def twilio_form(secret, url, now, algorithm=None):
    signature = RequestValidator(secret).compute_signature(url, MESSAGE, algorithm)
    headers = {"Content-Type": "application/x-www-form-urlencoded", "X-Twilio-Signature": signature}
    if algorithm:
        headers["X-Twilio-Webhooks-Signature-Settings"] = f"key=webhooks_sharedkey_17,algorithm={algorithm}"
    return {"body": urlencode(MESSAGE), "headers": headers}


def twilio_shared_key(secret, url, now):
    return twilio_form(secret, url, now, "HMAC_SHA256")


def twilio_json(secret, url, now):
    body = '[{"id":"EZ17","type":"com.twilio.messaging.message.delivered","data":{"messageSid":"SM1700"}}]'
    validator = RequestValidator(secret)
    query = "bodySHA256=" + validator.compute_hash(body)
    return {"body": body, "query": query, "headers": {"X-Twilio-Signature": validator.compute_signature(url + "?" + query, {})}}


def adyen_notification(secret, url, now):
    item = {"pspReference": "79140017", "eventCode": "AUTHORISATION", "merchantAccountCode": "TestMerchant", "success": "true",
            "merchantReference": "order 17", "amount": {"value": 1700, "currency": "EUR"}}
    signature = Adyen.util.generate_notification_sig(item, secret).decode()
    item["additionalData"] = {"hmacSignature": signature}
    return {"body": json.dumps({"live": "false", "notificationItems": [{"NotificationRequestItem": item}]}), "headers": {}}


def adyen_platform(secret, url, now):
    body = '{"type":"balancePlatform.transfer.created","data":{"id":"tr17","amount":{"value":1700,"currency":"EUR"}}}'
    signature = Adyen.util.generate_payload_sig(body.encode(), secret.removeprefix("hex:"))
    return {"body": body, "headers": {"HmacSignature": signature.decode()}}


def discord(secret, url, now, body=None):
    """The secret is the seed; the source has the public half."""
    body = body or '{"id":"17","type":1,"event":{"type":"APPLICATION_AUTHORIZED","data":{"id":"1700"}}}'
    key = SigningKey(bytes.fromhex(secret))
    signature = key.sign(str(now).encode() + body.encode()).signature

    def says(changed):
        try:
            key.verify_key.verify(str(now).encode() + changed.encode(), signature)
            return True
        except BadSignatureError:
            return False

    return {"body": body, "says": says, "headers": {"X-Signature-Timestamp": str(now), "X-Signature-Ed25519": signature.hex()}}


def discord_ping(secret, url, now):
    return discord(secret, url, now, '{"id":"1700","type":1}')


MAKERS = {f.__name__.rstrip("_"): f for f in (
    stripe_, slack, slack_command, slack_challenge, standard, svix_, twilio_form, twilio_shared_key, twilio_json, adyen_notification, adyen_platform, discord,
    discord_ping)}


def main():
    made = []
    for job in json.load(sys.stdin):
        request = MAKERS[job["make"]](job["secret"], job["url"], job["now"] or int(time.time()))
        says = request.pop("says", None)
        request["changed"] = request["body"].replace("1700", "1701")
        if says:
            request["says"] = [says(request["body"]), says(request["changed"])]
        request["headers"].setdefault("Content-Type", "application/json")
        made.append(request)
    json.dump(made, sys.stdout)


main()
