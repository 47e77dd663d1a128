"""Verifies what Grapnel sent with the libraries of the standards. Reads captures as JSON, writes a tally for each library.

A check is one capture with one secret. It counts as right when the library returns, or when it raises nothing but a parser's
complaint about a body that is not JSON, which it does only after the signature has matched. The same capture with another body
and with another id must be refused.
"""
import base64
import json
import sys

import standardwebhooks
import svix
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from nacl.exceptions import BadSignatureError
from nacl.signing import VerifyKey

tallies = {}


def count(library, outcome, says=""):
    tally = tallies.setdefault(library, {"right": 0, "unparsed": 0, "bytes": 0, "wrong": 0, "accepted": 0, "says": ""})
    tally[outcome] += 1
    if outcome in ("wrong", "accepted") and not tally["says"]:
        tally["says"] = says


def verdict(verify, body, headers):
    """right, unparsed, bytes or wrong."""
    try:
        verify(body, headers)
        return "right", ""
    except json.JSONDecodeError:
        return "unparsed", ""
    except UnicodeDecodeError:
        return "bytes", ""
    except Exception as e:
        return "wrong", f"{type(e).__name__}: {e}"


def check(library, verify, body, headers):
    outcome, says = verdict(verify, body, headers)
    if outcome == "bytes" and is_utf8(body):
        outcome = "wrong"
    count(library, outcome, says)
    other = {**headers, **{name: headers[name] + "0" for name in headers if name.endswith("-id")}}
    for what, changed in (("another body", (body + b"x", headers)), ("another id", (body, other))):
        if verdict(verify, *changed)[0] in ("right", "unparsed"):
            count(library, "accepted", what)


def is_utf8(body):
    try:
        body.decode()
        return True
    except UnicodeDecodeError:
        return False


def by_specification(public):
    """Ed25519 (v1a) as the specification has it: none of the libraries knows it."""
    key = VerifyKey(base64.b64decode(public.removeprefix("whpk_")))

    def verify(body, headers):
        content = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        for entry in headers["webhook-signature"].split(" "):
            version, _, signature = entry.partition(",")
            if version != "v1a":
                continue
            try:
                key.verify(content, base64.b64decode(signature))
                return
            except BadSignatureError:
                continue
        raise ValueError("no signature matches")

    return verify


def cloud_event(capture, body, headers):
    event = from_http_event(HTTPMessage(headers=headers, body=body))
    data = event.get_data()
    want = json.loads(body) if headers["content-type"] == "application/json" else body
    if isinstance(want, bytes) and isinstance(data, str):
        data = data.encode()
    if data != want and (data is not None or want != b""):
        return f"the data is {data!r}"
    got = (event.get_id(), event.get_type(), event.get_specversion(), event.get_extension("partitionkey"))
    if got != (headers["webhook-id"], capture["type"], "1.0", capture["key"]) or not event.get_source() or not event.get_time():
        return f"the attributes are {got}"
    return ""


def main():
    for capture in json.load(sys.stdin):
        headers, body = capture["headers"], base64.b64decode(capture["body"])
        family = "svix-*" if "svix-id" in headers else "webhook-*"
        for secret in capture["secrets"]:
            check("standardwebhooks webhook-*", standardwebhooks.Webhook(secret).verify, body, headers)
            check("svix " + family, svix.Webhook(secret).verify, body, headers)
        for public in capture["public"]:
            check("PyNaCl webhook-*", by_specification(public), body, headers)
        if capture["format"] == "cloudevents":
            try:
                fault = cloud_event(capture, body, headers)
            except Exception as e:
                fault = f"{type(e).__name__}: {e}"
            count("cloudevents", "wrong" if fault else "right", fault)
    json.dump(tallies, sys.stdout)


main()
