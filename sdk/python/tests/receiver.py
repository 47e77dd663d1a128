"""The test receiver: one real server by the section "The receiver that tests use" of sdk/README.md.

    PORT=0 MODE=transaction STORE=sqlite DSN=/tmp/hooks.db SECRET=whsec_… SECRET2=whsec_… .venv/bin/python tests/receiver.py

STORE is memory, sqlite (aiosqlite), postgres (psycopg), sqlalchemy (with the URL of an async engine) or redis. The
ledger and the invoices are in the store's database; for memory and redis they are in the SQLite file LEDGER.
"""

import asyncio
import contextlib
import hashlib
import json
import os
import pathlib
import signal
import socket
import sys
import tempfile
import time
import urllib.parse
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "src"))

import aiosqlite
import uvicorn

from grapnel.receive import AsyncReceiver, Delivery, MemoryStore, Permanent, Retryable, SqlStore, StandardWebhooks
from grapnel.receive.delivery import Request
from grapnel.receive.drivers import Session, session
from grapnel.receive.gates import Gate, StateMachine, TimestampGate, VersionGate
from grapnel.receive.outcome import Answer, Refused
from grapnel.receive.steps import arun
from grapnel.receive.web import asgi

MODE, STORE, DSN = os.environ.get("MODE", "transaction"), os.environ.get("STORE", "memory"), os.environ.get("DSN", "")

TABLES = """
create table if not exists ledger(event text, source text, invoice text, amount text, idempotency_key text unique);
create table if not exists invoice(id text primary key, version bigint, status text, time_ns bigint, event text, amount text);
create table if not exists bare(source text, key text, primary key(source, key))
"""
VERSION, TIMESTAMP = VersionGate("invoice"), TimestampGate("invoice", skew=300)
STATES = StateMachine(
    "invoice",
    {"draft": ["open"], "open": ["paid", "void"], "paid": ["refunded"]},
    terminal=["refunded", "void"],
)


class Hold:
    """Keeps events at one step of a request, until the process is killed."""

    def __init__(self) -> None:
        self.step, self.ids = "", []

    async def at(self, step: str, event: str) -> None:
        if step == self.step:
            self.ids.append(event)
            await asyncio.get_running_loop().create_future()


HOLD = Hold()


class Database:
    """The connections of one database, and the ledger in it."""

    def __init__(self, store: str, dsn: str) -> None:
        self.store, self.dsn, self.pool, self.engine = store, dsn, None, None
        self.idle: list[Any] = []

    async def open(self) -> None:
        if self.store == "postgres":
            import psycopg_pool

            self.pool = psycopg_pool.AsyncConnectionPool(self.dsn, min_size=2, max_size=20, open=False)
            await self.pool.open()
        elif self.store == "sqlalchemy":
            from sqlalchemy.ext.asyncio import create_async_engine

            self.engine = create_async_engine(self.dsn, pool_size=20)
        async with self.transaction() as tx:
            if tx.dialect == "postgres":
                await arun(tx.execute("select pg_advisory_xact_lock(1)"))
            for statement in TABLES.split(";"):
                await arun(tx.execute(statement))

    async def connect(self) -> Any:
        if self.pool:
            return await self.pool.getconn()
        if self.engine:
            return await self.engine.connect()
        if self.idle:
            return self.idle.pop()
        connection = await aiosqlite.connect(self.dsn, isolation_level=None)
        await connection.execute("pragma journal_mode=wal")
        return connection

    async def release(self, connection: Any) -> None:
        if self.pool:
            await self.pool.putconn(connection)
        elif self.engine:
            await connection.close()
        else:
            self.idle.append(connection)

    async def close(self) -> None:
        if self.pool:
            await self.pool.close()
        if self.engine:
            await self.engine.dispose()
        for connection in self.idle:
            await connection.close()

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        raw = await self.connect()
        tx = session(raw)
        try:
            await arun(tx.begin(5000))
            try:
                yield tx
            except BaseException:
                await arun(tx.rollback())
                raise
            await arun(tx.commit())
        finally:
            await self.release(raw)


class Receiver:
    """The program: hooks, faults, probe and clock."""

    def __init__(self) -> None:
        self.ahead = 0.0  # of the kit's clock
        self.faults: dict[str, dict[str, Any]] = {}
        ledger = os.environ.get("LEDGER") or str(
            pathlib.Path(tempfile.gettempdir()) / f"grapnel-ledger-{hashlib.sha256((STORE + DSN).encode()).hexdigest()[:12]}.db"
        )
        if STORE == "memory":
            pathlib.Path(ledger).unlink(missing_ok=True)
        elsewhere = STORE in ("memory", "redis")
        self.database = Database("sqlite" if elsewhere else STORE, ledger if elsewhere else DSN)
        self.workers: list[asyncio.Task[None]] = []
        self.routes: dict[str, Any] = {}

    def clock(self) -> float:
        return time.time() + self.ahead

    async def open(self) -> None:
        await self.database.open()
        store: Any
        if STORE == "memory":
            store = MemoryStore(test=True)
        elif STORE == "redis":
            import redis.asyncio

            from grapnel.receive.redis import RedisStore

            store = RedisStore(redis.asyncio.from_url(DSN))
        else:
            store = SqlStore(self.database.connect, release=self.database.release)
        for path, name, secret in (("/hooks", "acme", "SECRET"), ("/other", "other", "SECRET2")):
            if not os.environ.get(secret):
                continue
            source = StandardWebhooks(name, os.environ[secret])
            if MODE == "bare":
                self.routes[path] = self.bare(source)
                continue
            kit = AsyncReceiver(source, store, clock=self.clock)
            await kit.create_tables()
            if MODE == "transaction":
                hook: Any = kit.transaction(self.handle)
            elif MODE == "claim":
                hook = kit.claim(self.handle_elsewhere)
            else:
                hook = kit.inbox(self.handle_elsewhere, ordering_key=invoice_of)
                workers = int(os.environ.get("WORKERS", "4"))
                self.workers += [asyncio.create_task(hook.work(idle=0.005 * workers)) for _ in range(workers)]
            self.routes[path] = holding(asgi(Holding(hook)))

    async def close(self) -> None:
        for worker in self.workers:
            worker.cancel()
        await asyncio.gather(*self.workers, return_exceptions=True)
        await self.database.close()

    async def handle(self, d: Delivery, tx: Any) -> None:
        await HOLD.at("after-claim", d.id)
        await self.fault(d)
        await self.effect(d, session(tx), None)
        await HOLD.at("after-effect", d.id)

    async def handle_elsewhere(self, d: Delivery) -> None:
        await HOLD.at("after-claim", d.id)
        await self.fault(d)
        async with self.database.transaction() as tx:
            await self.effect(d, tx, d.idempotency_key("ledger"))
        await HOLD.at("after-effect", d.id)

    async def fault(self, d: Delivery) -> None:
        fault = self.faults.get(d.id)
        if not fault or fault["times"] <= 0:
            return
        fault["times"] -= 1
        if fault["kind"] in ("slow", "hang"):
            await asyncio.sleep(fault["ms"] / 1000)
        if fault["kind"] == "permanent":
            raise Permanent("a fault of the test")
        if fault["kind"] in ("transient", "hang"):
            raise Retryable("a fault of the test")

    async def effect(self, d: Delivery, tx: Session, key: str | None) -> None:
        """One row of the ledger, and the invoice's row through its gate."""
        event = d.json(parse_int=str, parse_float=str)
        data = event.get("data") if isinstance(event, dict) else None
        if not isinstance(data, dict):
            raise Permanent("the payload has no data")
        amount, invoice = str(data.get("amount", "")), str(data.get("invoice", ""))
        if str(event.get("type", "")).startswith("invoice."):
            row: dict[str, Any] = {"id": invoice, "amount": amount}
            gate: Gate | None = None
            if "version" in data:
                gate, row = VERSION, {**row, "version": int(data["version"]), "status": data.get("status")}
            elif "status" in data:
                gate, row = STATES, {**row, "status": data["status"]}
            elif "occurred_at" in data:
                gate, row = TIMESTAMP, {**row, "time_ns": data["occurred_at"], "event": d.id}
            if gate:
                (await arun(gate.steps(tx, row, now=self.clock()))).check()
        values = (d.id, d.source, invoice, amount, key)
        insert = "insert into ledger(event,source,invoice,amount,idempotency_key) values(?,?,?,?,?) on conflict do nothing"
        await arun(tx.execute(insert, values))

    def bare(self, source: StandardWebhooks) -> Any:
        """What the kit is compared with: the same verification and effect beside a plain insert, in a plain application.

        With SQLite it has one connection, whose transactions take turns: what a person would write who knows that there is one writer.
        """
        turn = asyncio.Lock() if self.database.store == "sqlite" else contextlib.nullcontext()
        insert = "insert into bare(source,key) values(?,?) on conflict do nothing"

        async def once(raw: Any, event: str, body: bytes) -> None:
            tx = session(raw)
            if await arun(tx.count(insert, (source.name, event))):
                await self.effect(Delivery(source.name, event, body, {}), tx, None)

        async def store(event: str, body: bytes) -> None:
            if self.database.pool:
                async with self.database.pool.connection() as raw:
                    await once(raw, event, body)
            elif self.database.engine:
                async with self.database.engine.begin() as raw:
                    await once(raw, event, body)
            else:
                async with turn:
                    raw = await self.database.connect()
                    try:
                        await raw.execute("begin immediate")
                        await once(raw, event, body)
                        await raw.commit()
                    except BaseException:
                        await raw.rollback()
                        raise
                    finally:
                        await self.database.release(raw)

        async def application(scope: Any, receive: Any, send: Any) -> None:
            body, more = b"", True
            while more:
                message = await receive()
                body += message.get("body", b"")
                more = message.get("more_body", False)
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
            status, text = 200, b'{"received":true}'
            try:
                await store(source.event(Request(body, headers), self.clock()), body)
            except Refused:
                status, text = 401, b""
            sent = [(b"content-type", b"application/json"), (b"content-length", str(len(text)).encode())]
            await send({"type": "http.response.start", "status": status, "headers": sent})
            await send({"type": "http.response.body", "body": text})

        return application

    async def probe(self, query: dict[str, str]) -> dict[str, Any]:
        async with self.database.transaction() as tx:
            column, value = ("event", query["event"]) if "event" in query else ("invoice", query["key"])
            rows = await arun(tx.execute(f"select invoice from ledger where {column}=?", (value,)))
            invoice = rows[0][0] if rows else value
            found = await arun(tx.execute("select status,version,amount from invoice where id=?", (invoice,)))
        status, version, amount = found[0] if found else (None, None, None)
        return {"effects": len(rows), "state": status or "", "version": version or 0, "amount": amount or ""}

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        path = scope["path"]
        if path in self.routes:
            await HOLD.at("before-claim", id_of(dict(scope["headers"])))
            await self.routes[path](scope, receive, send)
            return
        query = dict(urllib.parse.parse_qsl(scope["query_string"].decode()))
        status = 200
        body: Any = {}
        if path == "/_probe" and scope["method"] == "GET":
            body = await self.probe(query)
        elif path == "/_fault" and scope["method"] == "POST":
            self.faults[query["event"]] = {
                "kind": query["kind"], "times": int(query.get("times", 1)), "ms": int(query.get("ms", 0))
            }
        elif path == "/_clock" and scope["method"] == "POST":
            self.ahead = float(query["now"]) - time.time() if float(query["now"]) else 0.0
        elif path == "/_hold":
            HOLD.step = query.get("step", HOLD.step)
            body = HOLD.ids
        else:
            status = 404
        await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": json.dumps(body).encode()})


def id_of(headers: dict[bytes, bytes]) -> str:
    return headers.get(b"webhook-id", b"").decode("latin-1")


class Holding:
    """A hook that can hold an event between its commit and its answer."""

    asynchronous = True

    def __init__(self, hook: Any) -> None:
        self.hook, self.max_body = hook, hook.max_body

    async def handle(self, request: Request) -> Answer:
        answer: Answer = await self.hook.handle(request)
        await HOLD.at("after-commit", request.header("webhook-id") or "")
        return answer


def holding(application: Any) -> Callable[[Any, Any, Any], Any]:
    async def run(scope: Any, receive: Any, send: Any) -> None:
        await application(scope, receive, send)
        await asyncio.sleep(0)  # the answer is written to the socket
        await HOLD.at("after-answer", id_of(dict(scope["headers"])))

    return run


def invoice_of(d: Delivery) -> str:
    event = d.json()
    data = event.get("data") if isinstance(event, dict) else None
    return str(data.get("invoice", "")) if isinstance(data, dict) else ""


class Server(uvicorn.Server):
    """Ends with 0 at SIGTERM; uvicorn would raise the signal again."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, self.handle_exit, number, None)
        yield


async def main() -> None:
    receiver = Receiver()
    await receiver.open()
    listener = socket.socket()
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else each answer waits 40 ms for the ack of its head
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(os.environ.get("PORT", "0"))))
    config = uvicorn.Config(
        receiver, log_level="warning", access_log=False, lifespan="off", timeout_graceful_shutdown=5, backlog=2048
    )
    server = Server(config)
    listener.listen(2048)
    print(f"listening on http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
    await server.serve(sockets=[listener])
    await receiver.close()


if __name__ == "__main__":
    asyncio.run(main())
