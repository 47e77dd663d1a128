"""Every case of sdk/conformance. A case that only another kit passes is a failing test of this one."""

import base64
import contextlib
import hashlib
import json
import pathlib
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from grapnel.receive import Request, StandardWebhooks, canonical, idempotency_key
from grapnel.receive.gates import Gate, GapGate, StateMachine, TimestampGate, VersionGate, nanoseconds
from grapnel.receive.outcome import Answer, Outcome, Refused

FILES = pathlib.Path(__file__).resolve().parents[2] / "conformance"
Case = dict[str, Any]


def cases(file: str) -> Callable[[Any], Any]:
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
