"""The test receiver as a process: every mode and store, and kills."""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from worlds import SECRET, signed

OTHER = "whsec_YW5vdGhlci1zZWNyZXQtb2YtMjQtYnkh"


class Process:
    def __init__(self, directory: pathlib.Path, **environment: str) -> None:
        settings = {"PORT": "0", "SECRET": SECRET, "SECRET2": OTHER, "LEDGER": str(directory / "ledger.db"), **environment}
        program = [sys.executable, "-X", "frozen_modules=on", str(pathlib.Path(__file__).with_name("receiver.py"))]
        self.process = subprocess.Popen(
            program, env={**os.environ, **settings}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        assert self.process.stdout and self.process.stderr
        line = self.process.stdout.readline()
        assert line.startswith("listening on "), self.process.stderr.read()
        self.url, self.now = line.split()[-1], 0.0

    def ask(self, method: str, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Any:
        request = urllib.request.Request(self.url + path, body, headers or {}, method=method)
        try:
            answer = urllib.request.urlopen(request, timeout=20)
        except urllib.error.HTTPError as error:
            answer = error
        with answer:
            return answer.headers.get("webhook-outcome"), json.loads(answer.read())

    def send(self, event: str, data: Any, path: str = "/hooks", secret: str = SECRET) -> str:
        body = json.dumps({"type": "invoice.paid", "data": {"invoice": "inv_1", "amount": 500, **data}}).encode()
        request = signed(event, body, self.now or time.time(), secret)
        outcome: str = self.ask("POST", path, request.body, dict(request.headers))[0]
        return outcome

    def probe(self, query: str) -> Any:
        return self.ask("GET", "/_probe?" + query)[1]

    def clock(self, now: float) -> None:
        self.now = now
        self.ask("POST", f"/_clock?now={int(now)}", b"")

    def settle(self, query: str, effects: int) -> Any:
        """The probe once a worker of the inbox has run."""
        while (found := self.probe(query))["effects"] != effects:
            assert self.process.poll() is None
        return found

    def end(self) -> None:
        """Ends it gracefully."""
        self.process.terminate()
        _, errors = self.process.communicate(timeout=20)
        assert self.process.returncode == 0, errors


@contextlib.contextmanager
def started(directory: pathlib.Path, **environment: str) -> Iterator[Process]:
    made = Process(directory, **environment)
    try:
        yield made
    finally:
        if made.process.poll() is None:
            made.end()


def database(url: str, name: str) -> str:
    """A database of its own: the ledger of the other tests has other columns."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"create database {name}")
    return url.replace("/postgres?", f"/{name}?")


MODES = [
    ("transaction", "sqlite"),
    ("transaction", "postgres"),
    ("transaction", "sqlalchemy"),
    ("claim", "memory"),
    ("claim", "redis"),
    ("inbox", "postgres"),
    ("bare", "sqlite"),
]


@pytest.mark.parametrize(("mode", "store"), MODES)
def test_every_mode_and_store(mode: str, store: str, tmp_path: pathlib.Path, request: pytest.FixtureRequest) -> None:
    dsn = str(tmp_path / "hooks.db")
    if store in ("postgres", "sqlalchemy"):
        dsn = database(request.getfixturevalue("postgres"), f"{mode}_{store}")
        dsn = dsn.replace("postgresql", "postgresql+psycopg") if store == "sqlalchemy" else dsn
    elif store == "redis":
        dsn = request.getfixturevalue("redis_url")
    first: str | None = "accepted" if mode == "inbox" else "processed"
    second: str | None = "duplicate"
    own = f"{mode}-{store}"
    if mode == "bare":
        first = second = None  # it knows no outcomes
    with started(tmp_path, MODE=mode, STORE=store, DSN=dsn) as receiver:
        assert [receiver.send(own, {"version": 2, "status": "paid", "invoice": own}) for _ in range(2)] == [first, second]
        assert receiver.settle(f"event={own}", 1) == {"effects": 1, "state": "paid", "version": 2, "amount": "500"}
        if mode == "bare":
            return
        receiver.ask("POST", f"/_fault?event={own}-2&kind=transient&times=1", b"")
        assert receiver.send(own + "-2", {"version": 3, "invoice": own}) == ("accepted" if mode == "inbox" else "retryable")
        if mode != "inbox":
            assert receiver.send(own + "-2", {"version": 3, "invoice": own}) == "processed"
            assert receiver.send(own + "-3", {"version": 1, "invoice": own}) == "stale"
        assert receiver.settle(f"key={own}", 2)["version"] == 3
        assert receiver.send(own, {"invoice": own}, "/other", OTHER) == first
        receiver.settle(f"event={own}", 2)


@pytest.mark.parametrize(("mode", "step"), [("transaction", "after-effect"), ("transaction", "after-commit"), ("claim", "after-effect")])
def test_a_kill_leaves_one_effect(mode: str, step: str, tmp_path: pathlib.Path) -> None:
    environment = {"MODE": mode, "STORE": "sqlite", "DSN": str(tmp_path / "hooks.db")}
    killed = Process(tmp_path, **environment)
    killed.ask("POST", f"/_hold?step={step}", b"")
    with concurrent.futures.ThreadPoolExecutor() as threads:
        sent = threads.submit(killed.send, "evt_1", {"version": 1})
        while killed.ask("GET", "/_hold")[1] != ["evt_1"]:
            assert not sent.done()
        killed.process.kill()
        with pytest.raises(OSError):
            sent.result()
    killed.process.communicate()
    with started(tmp_path, **environment) as receiver:
        receiver.clock(time.time())
        first = receiver.send("evt_1", {"version": 1})
        assert first == {"after-effect": "processed", "after-commit": "duplicate"}[step] if mode == "transaction" else "in_progress"
        receiver.clock(time.time() + 31)  # the lease has passed
        assert receiver.send("evt_1", {"version": 1}) == ("processed" if mode == "claim" else "duplicate")
        assert receiver.probe("event=evt_1")["effects"] == 1
