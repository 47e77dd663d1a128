"""A shop that charges once: FastAPI, with the charge in the transaction of the event's key.

    DSN=shop.db SECRET=whsec_… PORT=3000 sdk/python/.venv/bin/python examples/shop/shop.py

It needs the packages grapnel, fastapi and uvicorn. /_probe is for tests: it counts the charges of an event.
"""

import os
import pathlib
import sqlite3
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "sdk/python/src"))  # as if grapnel were installed

import uvicorn
from fastapi import FastAPI

from grapnel.receive import Delivery, Permanent, Receiver, SqlStore, StandardWebhooks, web

app = FastAPI()


def connect() -> sqlite3.Connection:
    # A view runs in any thread of a pool. The kit gives each connection to one at a time.
    return sqlite3.connect(os.environ["DSN"], check_same_thread=False)


def charge(delivery: Delivery, tx: sqlite3.Connection) -> None:
    """One row for each event: it commits together with the event's key, or not at all."""
    event = delivery.json(parse_int=str, parse_float=str)  # digits beyond 2^53 stay
    data = event.get("data") if isinstance(event, dict) else None
    if not isinstance(data, dict):
        raise Permanent("the event has no data")
    tx.execute("insert into charge values(?, ?, ?)", [delivery.id, str(data.get("invoice")), str(data.get("amount"))])


with connect() as db:
    db.execute("pragma journal_mode = wal")
    db.execute("create table if not exists charge(event text, invoice text, amount text)")

kit = Receiver(StandardWebhooks("shop", os.environ["SECRET"]), SqlStore(connect))
kit.create_tables()
app.post("/hooks")(web.starlette(kit.transaction(charge)))


@app.get("/_probe")
def probe(event: str = "", key: str = "") -> dict[str, object]:
    row = connect().execute("select count(*), max(amount) from charge where event = ? or invoice = ?", (event, key)).fetchone()
    return {"effects": row[0], "amount": row[1] or ""}


if __name__ == "__main__":
    uvicorn.run(app, port=int(os.environ.get("PORT", "3000")), log_level="warning")
