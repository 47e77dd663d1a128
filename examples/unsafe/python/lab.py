"""The laboratory around a sample: a Flask application with a SQLite file, the work that a sample calls, and the routes of
a test receiver (sdk/README.md). Only the sample decides about duplicates, order and answers."""

import base64
import hashlib
import hmac
import os
import queue as queues
import sqlite3
import threading
import time

from flask import Flask, jsonify, request
from werkzeug.serving import make_server

app = Flask("unsafe")
_clock = 0.0
_faults: dict[str, dict] = {}


def now() -> float:
    return _clock or time.time()


def connect() -> sqlite3.Connection:
    """A connection that commits each statement, unless the sample begins a transaction."""
    return sqlite3.connect(os.environ["DSN"], isolation_level=None, timeout=30)


with connect() as _db:
    _db.executescript("""
        PRAGMA journal_mode = wal;
        CREATE TABLE IF NOT EXISTS webhook_events(event_id text PRIMARY KEY, type text, status text, processed_at real);
        CREATE TABLE IF NOT EXISTS ledger(event text, invoice text, amount text);
        CREATE TABLE IF NOT EXISTS invoices(id text PRIMARY KEY, status text, version integer, updated_at text, amount text);""")


UPSERT = """INSERT INTO invoices VALUES(?, ?, ?, ?, ?) ON CONFLICT(id) DO UPDATE SET status = excluded.status,
    version = excluded.version, updated_at = excluded.updated_at, amount = excluded.amount WHERE """
EDGES = "(invoices.status, excluded.status) IN (VALUES('draft','open'), ('open','paid'), ('open','void'), ('paid','refunded'))"


def process_event(event: dict, db: sqlite3.Connection) -> None:
    """Charges: one row that no constraint protects. Keeps the newest version or time, and the state machine's state."""
    fault = _faults.get(event["id"])
    if fault and fault["times"] > 0:
        fault["times"] -= 1
        if fault["kind"] in ("slow", "hang"):
            time.sleep(fault["ms"] / 1000)
        if fault["kind"] != "slow":
            raise RuntimeError(f"{fault['kind']} fault")
    data = event.get("data") or {}
    invoice, amount = data.get("invoice"), str(data.get("amount"))
    newer = ("excluded.version > invoices.version" if "version" in data else
             "excluded.updated_at > invoices.updated_at" if "occurred_at" in data else EDGES)
    if data.keys() & {"version", "occurred_at", "status"}:
        at = data.get("occurred_at") and f"{data['occurred_at']} {event['id']}"
        if db.execute(UPSERT + newer, (invoice, data.get("status"), data.get("version"), at, amount)).rowcount == 0:
            return
    db.execute("INSERT INTO ledger VALUES(?, ?, ?)", (event["id"], invoice, amount))


class Queue:
    """A queue with one worker that calls what was put into it."""

    def __init__(self) -> None:
        self._jobs: queues.Queue = queues.Queue()
        threading.Thread(target=self._work, daemon=True).start()

    def enqueue(self, call, *args) -> None:
        self._jobs.put((call, args))

    def _work(self) -> None:
        while True:
            call, args = self._jobs.get()
            call(*args)


def event() -> dict:
    """The request's event. A sender of the documents has its id in the body; torture's is in webhook-id."""
    return {**request.json, "id": request.headers.get("webhook-id")}


def verified() -> bool:
    """Whether the signature and its time are right, for samples that do not say how they verify."""
    try:
        moment = int(request.headers["webhook-timestamp"])
        signed = f"{request.headers['webhook-id']}.{moment}.".encode() + request.get_data()
    except (KeyError, ValueError):
        return False
    key = base64.b64decode(os.environ["SECRET"].removeprefix("whsec_"))
    want = "v1," + base64.b64encode(hmac.digest(key, signed, hashlib.sha256)).decode()
    given = request.headers.get("webhook-signature", "").split(" ")
    return abs(now() - moment) <= 300 and any(hmac.compare_digest(want.encode(), s.encode()) for s in given)


@app.get("/_probe")
def _probe():
    db, key = connect(), request.args.get("key")
    column, value = ("invoice", key) if key else ("event", request.args.get("event"))
    effects, amount = db.execute(f"SELECT count(*), max(amount) FROM ledger WHERE {column} = ?", (value,)).fetchone()
    invoice = db.execute("SELECT status, version, amount FROM invoices WHERE id = ?", (key,)).fetchone() or (None, None, None)
    return jsonify(effects=effects, state=invoice[0] or "", version=invoice[1] or 0, amount=invoice[2] or amount or "")


@app.post("/_fault")
def _fault():
    a = request.args
    _faults[a["event"]] = {"kind": a["kind"], "times": int(a.get("times", 1)), "ms": int(a.get("ms", 0))}
    return {}


@app.post("/_clock")
def _set_clock():
    global _clock
    _clock = float(request.args["now"])
    return {}


def start() -> None:
    server = make_server("127.0.0.1", int(os.environ.get("PORT", "0")), app, threaded=True)
    print(f"listening on http://127.0.0.1:{server.port}", flush=True)
    server.serve_forever()
