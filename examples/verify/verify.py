# Verifies a request of Grapnel, or of any sender of Standard Webhooks, without a library.
import base64, hashlib, hmac, time

def verify(secret, headers, body, now=None):
    """body is bytes; headers is a dict with names in lower case. Returns the event's id."""
    id, timestamp = headers["webhook-id"], headers["webhook-timestamp"]
    if abs((now or time.time()) - int(timestamp)) > 300:
        raise ValueError("too old, or too new")
    if "." in id:  # part of the signed text could be read as the id
        raise ValueError("an id has no dot")
    key = base64.b64decode(secret.removeprefix("whsec_"))
    digest = hmac.new(key, f"{id}.{timestamp}.".encode() + body, hashlib.sha256).digest()
    want = "v1," + base64.b64encode(digest).decode()
    given = headers["webhook-signature"].split(" ")
    if not any([hmac.compare_digest(want.encode(), s.encode()) for s in given]):
        raise ValueError("no signature matches")
    return id
