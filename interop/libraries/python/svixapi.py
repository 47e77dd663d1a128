"""Does every operation with the SDK of Svix. Says what went wrong, by operation."""
import json
import sys
import time
from datetime import datetime, timedelta, timezone

from svix.api import (
    AppPortalAccessIn, ApplicationIn, ApplicationPatch, EndpointHeadersIn, EndpointIn, EndpointPatch, EndpointSecretRotateIn, EndpointUpsertIn,
    EventTypeIn, EventTypeUpsertIn, MessageGetOptions, MessageIn, RecoverIn, Svix, SvixOptions,
)

JOB = json.load(sys.stdin)
SVIX = Svix(JOB["key"], SvixOptions(server_url=JOB["server"]))
UID, HOOK, KIND = JOB["uid"], JOB["receiver"] + "/" + JOB["uid"], JOB["uid"].replace("-", ".")
wrong, made = {}, {}


def keep(name, of):
    made[name] = of.id
    return of


def attempt():
    for _ in range(500):
        got = SVIX.message_attempt.list_by_endpoint(made["id"], made["ep"]).data
        if got:
            keep("attempt", got[0])
            return got[0].msg_id == made["msg"] and got[0].response_status_code == 200 and got[0].status_text == "success"
        time.sleep(0.02)
    return False


def message():
    got = SVIX.message.get(made["id"], "one", MessageGetOptions(with_content=True))
    return got.id == made["msg"] and got.payload == {"n": 1}


OPERATIONS = {
    "application.create": lambda: keep("id", SVIX.application.create(ApplicationIn(name="Python", uid=UID, metadata={"planName": "gold"}))).uid == UID,
    "application.getOrCreate": lambda: SVIX.application.get_or_create(ApplicationIn(name="Python", uid=UID)).id == made["id"],
    "application.list": lambda: len(SVIX.application.list().data) > 0,
    "application.get": lambda: SVIX.application.get(UID).metadata == {"planName": "gold"},
    "application.upsert": lambda: SVIX.application.upsert(made["id"], ApplicationIn(name="Python 2", uid=UID)).name == "Python 2",
    "application.patch": lambda: SVIX.application.patch(made["id"], ApplicationPatch(metadata={"a": "b"})).metadata == {"a": "b"},
    "eventType.create": lambda: SVIX.event_type.create(EventTypeIn(name=KIND, description="from Python")),
    "eventType.list": lambda: SVIX.event_type.list(),
    "eventType.get": lambda: SVIX.event_type.get(KIND).name == KIND,
    "eventType.upsert": lambda: SVIX.event_type.upsert(KIND, EventTypeUpsertIn(description="from Python", schemas={"1": {"type": "object"}})),
    "eventType.delete": lambda: SVIX.event_type.delete(KIND),
    "endpoint.create": lambda: keep("ep", SVIX.endpoint.create(made["id"], EndpointIn(
        url=HOOK, uid=UID, event_types=[KIND], channels=["ch"], throttle_rate=50))).channels == ["ch"],
    "endpoint.list": lambda: len(SVIX.endpoint.list(made["id"]).data) == 1,
    "endpoint.get": lambda: SVIX.endpoint.get(made["id"], UID).throttle_rate == 50,
    "endpoint.upsert": lambda: SVIX.endpoint.upsert(made["id"], made["ep"], EndpointUpsertIn(url=HOOK, channels=["ch"])).throttle_rate is None,
    "endpoint.patch": lambda: SVIX.endpoint.patch(made["id"], made["ep"], EndpointPatch(description="patched")).description == "patched",
    "endpoint.getSecret": lambda: SVIX.endpoint.get_secret(made["id"], made["ep"]).key.startswith("whsec_"),
    "endpoint.rotateSecret": lambda: SVIX.endpoint.rotate_secret(made["id"], made["ep"], EndpointSecretRotateIn()).key.startswith("whsec_"),
    "endpoint.setHeaders": lambda: SVIX.endpoint.set_headers(made["id"], made["ep"], EndpointHeadersIn(headers={"X-From": "Python"})),
    "endpoint.getHeaders": lambda: SVIX.endpoint.get_headers(made["id"], made["ep"]).headers == {"X-From": "Python"},
    "message.create": lambda: keep("msg", SVIX.message.create(made["id"], MessageIn(
        event_type=KIND, event_id="one", channels=["ch"], payload={"n": 1}))).event_id == "one",
    "message.list": lambda: len(SVIX.message.list(made["id"]).data) == 1,
    "message.get": message,
    "messageAttempt.listByEndpoint": attempt,
    "messageAttempt.listByMsg": lambda: SVIX.message_attempt.list_by_msg(made["id"], made["msg"]).data[0].id == made["attempt"],
    "messageAttempt.get": lambda: SVIX.message_attempt.get(made["id"], made["msg"], made["attempt"]).id == made["attempt"],
    "messageAttempt.listAttemptedMessages": lambda: SVIX.message_attempt.list_attempted_messages(made["id"], made["ep"]).data[0].id == made["msg"],
    "messageAttempt.listAttemptedDestinations": lambda: SVIX.message_attempt.list_attempted_destinations(made["id"], made["msg"]).data[0].id == made["ep"],
    "messageAttempt.resend": lambda: SVIX.message_attempt.resend(made["id"], made["msg"], made["ep"]),
    "endpoint.recover": lambda: SVIX.endpoint.recover(made["id"], made["ep"], RecoverIn(since=datetime.now(timezone.utc) - timedelta(hours=1))),
    "endpoint.getStats": lambda: SVIX.endpoint.get_stats(made["id"], made["ep"]),
    "authentication.appPortalAccess": lambda: "/portal" in SVIX.authentication.app_portal_access(made["id"], AppPortalAccessIn()).url,
    "health.get": lambda: SVIX.health.get(),
    "endpoint.delete": lambda: SVIX.endpoint.delete(made["id"], made["ep"]),
    "application.delete": lambda: SVIX.application.delete(made["id"]),
}

for operation, call in OPERATIONS.items():
    wrong[operation] = ""
    try:
        if call() is False:
            wrong[operation] = "another answer"
    except Exception as e:  # noqa: BLE001 - it is the result
        wrong[operation] = f"{type(e).__name__}: {e}"
print(json.dumps(wrong))
