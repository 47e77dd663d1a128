"""Kits on every store, sync and async, behind one sync interface, so that one suite holds for all of them.

A handler of a test is a generator of steps; a world makes a plain function or a coroutine function of it.
"""

import asyncio
import base64
import contextlib
import hashlib
import hmac
import json
import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from grapnel.receive import AsyncReceiver, DjangoStore, MemoryStore, Receiver, Request, SqlStore, StandardWebhooks
from grapnel.receive.drivers import session
from grapnel.receive.outcome import Answer
from grapnel.receive.redis import RedisStore
from grapnel.receive.steps import arun, run

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def signed(event: str, body: bytes, now: float, secret: str = SECRET) -> Request:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    mac = hmac.new(key, f"{event}.{int(now)}.".encode() + body, hashlib.sha256).digest()
    signature = "v1," + base64.b64encode(mac).decode()
    headers = {"webhook-id": event, "webhook-timestamp": str(int(now)), "webhook-signature": signature}
    return Request(body, [*headers.items(), ("authorization", "Bearer secret"), ("content-type", "application/json")])


class World:
    """A store, a clock that the test moves, and a ledger that no constraint protects."""

    def __init__(self, store: Any, asynchronous: bool) -> None:
        self.store, self.asynchronous = store, asynchronous
        self.now = 1_790_000_000.0
        self.source = "acme-" + uuid.uuid4().hex[:12]  # a world shares its server with others
        self.runner = asyncio.Runner() if asynchronous else None

    def go(self, steps: Any) -> Any:
        return self.runner.run(arun(steps)) if self.runner else run(steps)

    def wait(self, result: Any) -> Any:
        return self.runner.run(_await(result)) if self.runner and asyncio.iscoroutine(result) else result

    def kit(self, **options: Any) -> Any:
        kind = AsyncReceiver if self.asynchronous else Receiver
        source = StandardWebhooks(options.pop("source", self.source), SECRET)
        return kind(source, self.store, **{"clock": lambda: self.now, "wait": 0.3, **options})

    def handler(self, steps: Callable[..., Any]) -> Any:
        if not self.asynchronous:
            return lambda *args: run(_steps(steps, args))

        async def handle(*args: Any) -> None:
            await arun(_steps(steps, args))

        return handle

    def hook(self, mode: str, steps: Callable[..., Any], **options: Any) -> Any:
        inbox = {name: options.pop(name) for name in ("ordering_key", "on_exhausted") if name in options}
        return getattr(self.kit(**options), mode)(self.handler(steps), **inbox)

    def send(self, hook: Any, event: str, body: Any = None, **how: Any) -> Answer:
        return self.wait(hook.handle(self.request(event, body, **how)))

    def request(self, event: str, body: Any = None, **how: Any) -> Request:
        raw = body if isinstance(body, bytes) else json.dumps({"type": "invoice.paid", "data": body}).encode()
        return signed(event, raw, self.now, **how)

    def send_many(self, hook: Any, events: list[str]) -> list[Answer]:
        """All at once."""
        if self.runner:
            return self.runner.run(_gather([hook.handle(self.request(event)) for event in events]))
        barrier = threading.Barrier(len(events))

        def one(event: str) -> Answer:
            barrier.wait()
            try:
                return hook.handle(self.request(event))
            finally:
                self.store.leave_thread()

        with ThreadPoolExecutor(len(events)) as pool:
            return list(pool.map(one, events))

    def ledger(self) -> list[str]:
        def body(unit: Any) -> Any:
            return (yield from session(unit.raw).execute("select event from ledger where source=? order by event", (self.source,)))

        return [row[0] for row in self.go(self.store.unit(body, 5000))]

    def record(self, d: Any, tx: Any) -> Any:
        """The effect: one row in the handler's transaction."""
        yield from session(tx).execute("insert into ledger(event,source) values(?,?)", (d.id, d.source))

    def close(self) -> None:
        if self.runner:
            self.runner.close()


async def _await(result: Any) -> Any:
    return await result


async def _gather(results: list[Any]) -> list[Any]:
    return list(await asyncio.gather(*results))


def _steps(steps: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    made = steps(*args)
    if hasattr(made, "send"):
        yield from made


SQL = ("sqlite", "aiosqlite", "psycopg", "psycopg-async", "sqlalchemy", "sqlalchemy-async", "sqlalchemy-sqlite", "django")
ALL = (*SQL, "memory", "memory-async", "redis", "redis-async")


class Pool:
    """Connections that are used again."""

    def __init__(self, connect: Callable[[], Any]) -> None:
        self.new, self.idle = connect, list[Any]()

    def connect(self) -> Any:
        if not self.idle:
            return self.new()
        found = self.idle.pop()
        return _ready(found) if hasattr(found, "__aenter__") else found

    def release(self, connection: Any) -> None:
        self.idle.append(connection)


async def _ready(connection: Any) -> Any:
    return connection


def sqlite(directory: Any, postgres: Any, redis: Any) -> Any:
    import sqlite3

    pool = Pool(lambda: sqlite3.connect(directory / "test.db", check_same_thread=False))
    return SqlStore(pool.connect, release=pool.release), pool


def aiosqlite(directory: Any, postgres: Any, redis: Any) -> Any:
    import aiosqlite

    pool = Pool(lambda: aiosqlite.connect(directory / "test.db"))
    return SqlStore(pool.connect, release=pool.release), pool


def psycopg(directory: Any, postgres: Any, redis: Any) -> Any:
    import psycopg

    pool = Pool(lambda: psycopg.connect(postgres()))
    return SqlStore(pool.connect, release=pool.release), pool


def psycopg_async(directory: Any, postgres: Any, redis: Any) -> Any:
    import psycopg

    pool = Pool(lambda: psycopg.AsyncConnection.connect(postgres()))
    return SqlStore(pool.connect, release=pool.release), pool


def sqlalchemy(directory: Any, postgres: Any, redis: Any) -> Any:
    import sqlalchemy

    engine = sqlalchemy.create_engine(postgres().replace("postgresql", "postgresql+psycopg"), pool_size=30)
    return SqlStore(engine), engine.dispose


def sqlalchemy_async(directory: Any, postgres: Any, redis: Any) -> Any:
    from sqlalchemy.ext.asyncio import create_async_engine

    engine = create_async_engine(postgres().replace("postgresql", "postgresql+psycopg"), pool_size=30)
    return SqlStore(engine), engine.dispose


def sqlalchemy_sqlite(directory: Any, postgres: Any, redis: Any) -> Any:
    import sqlalchemy

    engine = sqlalchemy.create_engine(f"sqlite:///{directory}/test.db", pool_size=30)
    return SqlStore(engine), engine.dispose


def django(directory: Any, postgres: Any, redis: Any) -> Any:
    import django.conf
    import django.db

    if not django.conf.settings.configured:
        place = postgres().partition("?host=")[2]
        database = {"ENGINE": "django.db.backends.postgresql", "NAME": "postgres", "USER": "postgres", "HOST": place}
        django.conf.settings.configure(DATABASES={"default": database}, SECRET_KEY="test", ALLOWED_HOSTS=["*"])
        django.setup()
    return DjangoStore(), django.db.connections.close_all


def memory(directory: Any, postgres: Any, redis: Any) -> Any:
    store = MemoryStore(test=True)
    return store, store.close


def redis(directory: Any, postgres: Any, redis_url: Any) -> Any:
    import redis

    client = redis.from_url(redis_url())
    return RedisStore(client), client.close


def redis_async(directory: Any, postgres: Any, redis_url: Any) -> Any:
    import redis.asyncio

    client = redis.asyncio.from_url(redis_url())
    return RedisStore(client), client.aclose


created: set[str] = set()  # the kinds whose server has its tables


@contextlib.contextmanager
def world(kind: str, postgres: Callable[[], str], redis_url: Callable[[], str], directory: Any) -> Iterator[World]:
    asynchronous = kind.endswith("async") or kind == "aiosqlite"
    make = memory if kind == "memory-async" else globals()[kind.replace("-", "_")]
    store, end = make(directory, postgres, redis_url)
    made = World(store, asynchronous)
    try:
        if kind not in created and not kind.startswith("redis"):
            made.wait(made.kit().create_tables())
            made.go(store.unit(_ledger, 5000))
            if kind in ("psycopg", "psycopg-async", "sqlalchemy", "sqlalchemy-async", "django"):
                created.add(kind)
        yield made
    finally:
        for each in [connection.close for connection in end.idle] if isinstance(end, Pool) else [end]:
            made.wait(each())
        made.close()


def _ledger(unit: Any) -> Any:
    yield from session(unit.raw).execute("create table if not exists ledger(event text, source text)")
