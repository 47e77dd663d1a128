"""Hooks of Schemathesis: the things that requests are about, and the refusals that a schema cannot foresee.

EXPLAINED names, rule by rule, what a JSON Schema cannot say about a request. The refusal of a request
that follows the document is explained if each of its errors has a rule; every other one is a finding.
"""

import itertools
import json
import os
import re

import schemathesis

# name: (pointer of the error, its detail, why the document cannot say it)
EXPLAINED = {
    "range of durations": (
        r".*",
        r"^must be (a duration )?from \S+ to |^must be longer than 0s|^must be from (base|probe) \(|^must be from 0s, which is never",
        "JSON Schema has no ranges of texts; x-minimum and x-maximum say them, and max is not below base, nor probe_max below probe",
    ),
    "order of times": (
        r"[?/](from|to)",
        r"^must (not )?be (before|after) |^must be at most \d+ days before to",
        "two fields are compared",
    ),
    "aggregate or key": (
        r".*(key|aggregate_type|aggregate_id)",
        r"^must not be given together with aggregate_type|^is required with aggregate_(type|id)|^must be 1 to 256 bytes",
        "null counts as not given, and the key of an aggregate is its type and id together, in bytes",
    ),
    "bytes of UTF-8": (r".*", r"^must have at most 256 bytes|^must be 1 to 256 bytes|at most 1024 bytes", "maxLength counts characters"),
    "things that exist": (
        r".*/(source|policy|preset|deliveries/\d+|endpoints/\d+)|/confirm|\?(tenant|endpoint|from|to|after)",
        r"not found$|^must be a version of the event type|^must name a tenant, because|^must be a delivery of this endpoint|^is not over|^must be .*the queue's name|^is not the name of a policy"
        r"|^must be the id of an endpoint|^must be the next of an answer|^is higher than \d+, the number of the newest entry",
        "the request names something of the server's",
    ),
    "incidents and maintenance": (
        r"/(starts_at|ends_at|status)",
        r"^must not be in the future|^must be after starts_at|^is required for maintenance|^must not be given together with (an incident|maintenance|kind)",
        "an incident has begun, and maintenance has a window that is ahead",
    ),
    "one or the other": (
        r"[?/](link|filter|from|to|bucket|endpoint|groups|type|muted_until|prev|mail|url|key)",
        r"^and after are given together|^must be given, or url|^is required, unless there is a target|^must not be given together with (mail|metadata)"
        r"|^cannot be given together with|^text is given in filter and as a parameter|^not together with|^only together with"
        r"|^types are not counted by|^must not be given together with another state",
        "some parameters and fields exclude or need others",
    ),
    "times ahead": (r"/muted_until", r"^must be in the future", "the server's clock decides"),
    "what a search finds": (r"\?filter", r"^must select pending and held deliveries", "the language of searches is not a pattern"),
    "event types with a schema": (
        r"/(check|note|schema)|((/example|/data|/events/\d+/data)(/.*)?)?",
        r"^needs a |^is required$|^must be (a schema|an object, not )|^is not allowed here",
        "a schema is a JSON value of its own, and some fields are about one that is there or comes with them",
    ),
    "pictures": (r"/logo", r"^must be the picture that its type says", "the bytes behind the base64 are looked at"),
    "deliveries or a selection": (r"/deliveries", r"^must not be given together with from", "some fields exclude others"),
    "expressions": (
        r".*/(filter|type|key|event_id|transform)",
        r"^line \d+, column \d+|^a filter |expression|^is too ",
        "filters and a source's type and key are CEL, transforms are jq",
    ),
    "signing secrets": (r"/secret", r"^sign: |^is in use already$", "they are base64 of a number of bytes, and one in use is not rotated to"),
    "addresses": (
        r".*/(url|public_url|token_url|proxy|from/\d+)",
        r"^must have a host and a port|^must be an address, or a range|^is not a URL|^has no host|^has a colon|address|blocked|^host|port|^must not contain a user|^is not an address",
        "a URL has parts with rules of their own, and some addresses are refused",
    ),
    "header names": (r"/headers/.*", r"^is reserved|^is there twice|names in braces", "names of headers have no case, and some are Grapnel's own"),
    "schemes": (
        r"/(verify(/.*)?|secret|dedupe/.*|on_unverified)?",
        r"^is not used by the scheme|^is needed|^is empty|^must not be given together with secret|^has no \{body\}|is none of|^is not the name of"
        r"|^is reject for |^has \d+ bytes; a secret has|^is shorter than|^has no effect|not (the )?base64|public key|hexadecimal|printable characters|path|does not start with|^\$",
        "what verify takes and needs depends on its scheme",
    ),
    "outbox or requests": (
        r"/(verify|dedupe|on_unverified|type|key|event_id|public_url|rate_limit|max_body|tls|outbox|outbox/dsn)",
        r"^must not be given with(out)? (outbox|broker)|^is required|^the DSN ",
        "a source with an outbox or a broker gets no requests, and a DSN is one of PostgreSQL",
    ),
    "brokers": (
        r"/(target|broker)/(kind|address|name|options/.*)|/(url|method|oauth2|format|tls)",
        r"^is required(, as in |: the |$)|^must begin with \S+://|^is unknown; |^is not in this program|together with a target|^needs a target",
        "what a broker needs depends on its kind, and a target gets no requests",
    ),
    "certificates": (
        r"/tls(/(ca|client_cert|client_key))?",
        r"^has no |^is required besides|^is encrypted|^ended on|^needs a (url|broker|target)",
        "text in PEM is looked at, a certificate needs its key, and both a connection over TLS",
    ),
    "merge patches": (
        r".*/(per_second|scheme|verify|dsn|client_id|client_secret|token_url|schedule.*|jitter.*|classify.*|max_attempts|breaker.*)",
        r"^is required|^is not a field here|^is either a fraction",
        "a part of an object is merged with what is there",
    ),
    "policies that fit": (
        r".*/(schedule/.*|max_attempts|max_age|classify/.*|success/\d+|breaker.*)",
        r"^would repeat a wait of|^must be given, or max_age|^is a success already|^is before the row above|^is not a status such as|^is neither a status",
        "fields of a policy are compared, and 299-200 is no range",
    ),
    "simulations": (
        r".*/(rate|outage/error_rate|outage/latency|duration)",
        r"^makes |^could make more than|^is required for kind|^must be above 0 and at most",
        "a simulation is bounded as a whole",
    ),
    "names of queues": (r"/name", r"must not begin with que_", "not every tool knows patterns of what a text must not begin with"),
    "services": (
        r"/url|/quiet_hours/(tz|to)",
        r"^has |^is the URL of no service|^does not have the form|^lacks |^must be the URL of a service|^must name one|^is no name of the time zone|^must not be the same as from",
        "each service has a form of its own for URLs, and time zones are a database",
    ),
    "settling": (
        r"(/(acks|nacks|rejects))?",
        r"^must name at least one lease|^is too long: at most \d+ leases are settled together",
        "all three lists may be left out, but not empty together, and their lengths are added",
    ),
    "ends of keys": (r"/expires_at", r"^must be a time, a date, a duration such as 90d, or never", "not every text that looks like a time is one"),
    "too many faults": (r".*", r"^must have at most 64 ", "an object has at most 64 members"),
}

world = json.load(open(os.environ["GRAPNEL_WORLD"]))
ENDLESS = "/v1/queues/{name}/stream"
real = re.compile(r"(evt|ep|dlv|src|que|rpl|key|pol|req|lse)_\w+")
turn = itertools.count()


def explain(problem):
    """The names of the rules that explain a problem; None: it is not explained."""
    names = set()
    for error in problem["errors"]:
        name = next((n for n, (pointer, detail, _) in EXPLAINED.items()
                     if re.fullmatch(pointer, error["pointer"]) and re.search(detail, error["detail"])), None)
        if name is None:
            return None
        names.add(name)
    return names or None


def note(kind, entry):
    with open(os.environ["GRAPNEL_NOTES"], "a") as notes:
        notes.write(json.dumps({"kind": kind, **entry}) + "\n")


@schemathesis.hook
def filter_failure(context, failure, case, response):
    """Drop what is explained; keep everything else."""
    code = getattr(failure, "code", "")
    try:
        answer = response.json()
    except ValueError:
        return True
    if code == "ST202" and answer.get("code") == "invalid":
        names = explain(answer)
        if names is not None:
            for name in names:
                note("explained", {"rule": name, "operation": case.operation.label, "errors": answer["errors"]})
            return False
        note("refused", {"operation": case.operation.label, "errors": answer["errors"]})
    # A batch is answered with one result for each event; those that are wrong have a problem there.
    if code == "ST201" and case.operation.path == "/v1/events/batch" and any("code" in one for one in answer.get("data", [])):
        note("explained", {"rule": "events of a batch", "operation": case.operation.label})
        return False
    return True


@schemathesis.hook
def before_call(context, case, kwargs):
    """Make valid requests ones that can succeed: about things that exist, each with an idempotency key of its own."""
    if isinstance(case.query, dict) and case.query.get("wait") == "20s":
        case.query["wait"] = "1ms"  # the document's example, also beside what is invalid; nothing is as patient as that
    if case.meta is None or not case.meta.generation.mode.is_positive:
        return
    n = next(turn)
    if case.headers and "Idempotency-Key" in case.headers:
        # The same key with another body is refused, as it must be.
        case.headers["Idempotency-Key"] = f"{n}-{os.urandom(8).hex()}"
    if isinstance(case.query, dict):
        case.query.pop("cursor", None)  # only an answer can give one
        if case.query.get("wait"):
            case.query["wait"] = "1ms"  # or each request would take up to a minute
    if case.operation.path == ENDLESS:
        # The stream of a queue that exists has no end, so nothing could wait for its answer.
        case.path_parameters["name"] = f"none-{n}"
    else:
        name_things(case, n)
    if isinstance(case.body, dict):
        keep_to_loopback(case.body)


def name_things(case, n):
    """Every other request names things that exist; those that are deleted are needed by nothing else."""
    path = case.operation.path
    pool = world["doomed" if case.method.upper() == "DELETE" else "things"]
    for prefix, parameter in world["paths"].items():
        if not path.startswith(prefix) or parameter not in (case.path_parameters or {}):
            continue
        ids = pool.get(prefix, [])
        if n % 2 and ids and not real.fullmatch(str(case.path_parameters[parameter])):
            used_up = pool is world["doomed"] or prefix == "/v1/leases/"
            case.path_parameters[parameter] = ids.pop() if used_up else ids[n // 2 % len(ids)]


def keep_to_loopback(body):
    """What the server is told to connect to is on this machine."""
    if isinstance(body.get("url"), str):
        body["url"] = world["receiver"]
    if isinstance(body.get("outbox"), dict) and body["outbox"].get("dsn"):
        body["outbox"]["dsn"] = "postgres://127.0.0.1:1/none"
