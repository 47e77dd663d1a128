"""Every case of sdk/conformance. A case that only another kit passes is a failing test of this one."""

import asyncio
import base64
import contextlib
import hashlib
import json
import pathlib
import socket
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from grapnel.receive import (
    Gone,
    MemoryStore,
    Permanent,
    Receiver,
    Request,
    Retryable,
    RetryAfter,
    Source,
    Stale,
    StandardWebhooks,
    canonical,
    canonical_body,
    idempotency_key,
    raw_body,
)
from grapnel.receive.classify import classify
from grapnel.receive.gates import Gate, GapGate, StateMachine, TimestampGate, VersionGate, nanoseconds
from grapnel.receive.outcome import Answer, Outcome, Refused
from grapnel.receive.schemes import SCHEMES

FILES = pathlib.Path(__file__).resolve().parents[2] / "conformance"
RUN = {"README.md"}  # the names of the files that tests below run
Case = dict[str, Any]


def cases(file: str) -> Callable[[Any], Any]:
    RUN.add(f"{file}.json")
    loaded = json.loads((FILES / f"{file}.json").read_text())["cases"]
    assert loaded
    return pytest.mark.parametrize("case", loaded, ids=[case["name"] for case in loaded])


def body_of(given: Case) -> bytes:
    return base64.b64decode(given["body_base64"]) if "body_base64" in given else given["body"].encode("utf-8", "surrogatepass")


def request_of(given: Case) -> Request:
    return Request(body_of(given), [(name, value) for name, value in given["headers"]], url=given.get("url", ""))


@cases("signatures")
def test_signatures(case: Case) -> None:
    given, want = case["given"], case["want"]
    source = StandardWebhooks("acme", *given["secrets"])
    try:
        got = {"outcome": "verified", "id": source.event(request_of(given), given["now"])}
    except Refused as refused:
        got = {"outcome": str(refused.outcome)}
    assert got == want


@cases("canonical")
def test_canonical(case: Case) -> None:
    given, want = case["given"], case["want"]
    if want.get("error"):
        with pytest.raises(ValueError):
            canonical(body_of(given), given.get("ignore", ()))
        return
    form = canonical(body_of(given), given.get("ignore", ()))
    assert (form.decode(), hashlib.sha256(form).hexdigest()) == (want["canonical"], want["sha256"])


@cases("idempotency")
def test_idempotency(case: Case) -> None:
    given = case["given"]
    assert idempotency_key(given["source"], given["event"], given["step"]) == case["want"]["key"]


@cases("outcomes")
def test_outcomes(case: Case) -> None:
    given, want = case["given"], case["want"]
    after = given.get("retry_after_ms")
    answer = Answer(Outcome(given["outcome"]), None if after is None else after / 1000)
    body = json.loads(answer.body)
    assert bool(body.pop("reason", "")) == bool(want["body"].pop("reason", ""))
    assert (answer.status, {k.lower(): v for k, v in answer.headers.items()}, body) == (
        want["status"], {k.lower(): v for k, v in want["headers"].items()}, want["body"])


GATES: dict[str, Callable[[Case], Gate]] = {
    "version": lambda given: VersionGate("row"),
    "timestamp": lambda given: TimestampGate("row", skew=given["skew_ms"] / 1000),
    "state": lambda given: StateMachine("row", given["edges"], terminal=given["terminal"], unknown=given["unknown"], state="state"),
    "gap": lambda given: GapGate("row", max_wait=given["max_wait_ms"] / 1000),
}
COLUMNS = {
    "version": ("version", "value"),
    "timestamp": ("time_ns", "event", "value"),
    "state": ("state",),
    "gap": ("version", "value"),
}


@cases("gates")
def test_gates(case: Case) -> None:
    given, want = case["given"], case["want"]
    kind, columns = given["gate"], COLUMNS[given["gate"]]
    if want.get("error"):
        with pytest.raises(ValueError):
            GATES[kind](given)
        return
    with contextlib.closing(sqlite3.connect(":memory:")) as tx:
        tx.execute(f"create table row(id text primary key, {','.join(columns)})")
        results = []
        for event in given["events"]:
            row = {"id": "1", **{name: event["time" if name == "time_ns" else name] for name in columns}}
            if "version" in row:
                row["version"] = int(row["version"])
            now = nanoseconds(given["now"]) / 10**9 if "now" in given else event.get("at_ms", 0) / 1000
            results.append(GATES[kind](given).apply(tx, row, now=now, first=event.get("first_ms", 0) / 1000))
        found = tx.execute(f"select {','.join(columns)} from row").fetchone()
    assert results == want["results"]
    wanted = want["row"] and {name: str(value) for name, value in want["row"].items() if value is not None}
    assert (wanted or None) == (found and {name: str(value) for name, value in zip(columns, found, strict=True)})


@cases("providers")
def test_providers(case: Case) -> None:
    given, want = case["given"], case["want"]
    source = source_of(given, *given["secrets"], public_url=given.get("public_url", ""))
    got: Case
    try:
        source.event(request_of(given), given["now"])
        got = {"outcome": "verified"}
    except Refused as refused:
        got = {"outcome": str(refused.outcome)}
    assert got["outcome"] == want["outcome"]
    if "id" in want and source.scheme.id:
        own = source_of({**given, "key_from_body": None}, *given["secrets"], trust_unsigned_id=True)
        assert own.key_of(request_of(given)).rpartition(":" if own.scheme.type else "\0")[2] == want["id"]


@cases("schemes")
def test_schemes(case: Case) -> None:
    scheme, want = SCHEMES[case["given"]["scheme"]], case["want"]
    signed = not scheme.unsigned_id
    assert {"id": bool(scheme.id), "id_signed": signed, "type_in_key": bool(scheme.type), "span_ms": scheme.span * 1000} == want
    assert len(SCHEMES) == len(json.loads((FILES / "schemes.json").read_text())["cases"])


def source_of(given: Case, *secrets: str, **options: Any) -> Source:
    """A source with the settings that the kit has; where the scheme has no place for an id, the body is the key."""
    settings = {name: value for name, value in given.get("settings", {}).items() if name != "type_header"}
    form = given.get("key_from_body", {"form": "raw"})
    if form:
        options["key_from_body"] = raw_body if form["form"] == "raw" else canonical_body(*form.get("ignore", ()))
    return Source("acme", given["scheme"], *secrets, **options, **settings)


SECRET_OF = {
    "standard": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "svix": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "adyen": "44782DEF547AAA06",
}


@cases("keys")
def test_keys(case: Case) -> None:
    given, want = case["given"], case["want"]
    secret = SECRET_OF.get(given["scheme"], "a-secret-of-a-test")
    trusting = {"key_from_body": None, **given}
    source = source_of(trusting, secret, trust_unsigned_id=True)
    got: Case
    try:
        got = {"key": source.key_of(request_of(given)), "signed": bool(source.key_from_body) or not source.scheme.unsigned_id}
    except Refused as refused:
        got = {"outcome": str(refused.outcome)}
    assert got == want
    if want.get("signed") is False:
        with pytest.raises(ValueError, match="signs no event id"):
            source_of(trusting, secret)


class Service(Exception):
    """An error of an HTTP client: it has the response."""

    def __init__(self, given: Case) -> None:
        super().__init__(given.get("message", "boom"))
        self.response = type("Response", (), {"status_code": given["http_status"], "headers": {"retry-after": given.get("retry_after", "")}})


class ValidationError(Exception):
    """An error as pydantic and jsonschema name theirs."""


def error_of(given: Case) -> BaseException:
    """This language's error of a neutral description."""
    text = given.get("message", "boom")
    error: BaseException = Exception(text)
    if "typed" in given:
        kinds = {"permanent": Permanent, "retryable": Retryable, "gone": Gone, "stale": Stale}
        after = given.get("after_ms", 0) / 1000
        error = RetryAfter(after, text) if given["typed"] == "retry_after" else kinds[given["typed"]](text)
    elif "sqlstate" in given:
        error = type("DatabaseError", (Exception,), {"sqlstate": given["sqlstate"]})(text)
    elif "sqlite" in given:
        error = sqlite3.OperationalError(text)
        error.sqlite_errorcode = given["sqlite"]
    elif "http_status" in given:
        error = Service(given)
    elif given.get("timeout"):
        error = TimeoutError(text)
    elif given.get("cancelled"):
        error = asyncio.CancelledError(text)
    elif "network" in given:
        kinds = {"refused": ConnectionRefusedError, "reset": ConnectionResetError, "dns": socket.gaierror, "eof": EOFError}
        error = kinds[given["network"]](text)
    elif "json" in given:
        error = json.JSONDecodeError(text, "{", 0) if given["json"] == "syntax" else ValidationError(text)
    elif given.get("schema"):
        error = ValidationError(text)
    if "cause" in given:
        error.__cause__ = error_of(given["cause"])
    return error


@cases("errors")
def test_errors(case: Case) -> None:
    given, want = case["given"], case["want"]
    chosen = given.get("classifier", {})
    classifier = (lambda error: Outcome(chosen[str(error)]) if str(error) in chosen else None) if chosen else None
    outcome, after = classify(error_of(given["error"]), given.get("now", 0), classifier)
    assert (str(outcome), after and after * 1000) == (want["class"], want.get("retry_after_ms"))


@cases("windows")
def test_windows(case: Case) -> None:
    """The constructor; test_stores plays the steps on every store."""
    given = case["given"]
    source, store = Source("acme", "none", key_from_body=raw_body, span=given["span_ms"] / 1000), MemoryStore(test=True)
    try:
        if case["want"].get("error"):
            with pytest.raises(ValueError, match="window"):
                Receiver(source, store, window=given["window_ms"] / 1000)
        else:
            Receiver(source, store, window=given["window_ms"] / 1000)
    finally:
        store.close()


def test_every_file_is_run() -> None:
    """A new file fails this test until a test runs it."""
    assert {file.name for file in FILES.iterdir()} == RUN | {"redis"}
    assert {file.name for file in (FILES / "redis").iterdir()} == {"claim.lua", "renew.lua", "settle.lua"}  # of every RedisStore
