"""Sells and publishes with each library, in one transaction: one that commits and one that is rolled back. It says which
libraries it has used. The databases are those of POSTGRES, MYSQL and SQLITE; each has a table sales(id)."""

import asyncio
import contextlib
import datetime
import os
import sqlite3
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import django
import psycopg
import pymysql
import sqlalchemy
from django.conf import settings
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from grapnel.outbox import Event, publish

POSTGRES, MYSQL, SQLITE = (os.environ[name] for name in ("POSTGRES", "MYSQL", "SQLITE"))
maria = urlsplit(MYSQL)
MARIA = {"host": maria.hostname, "port": maria.port, "user": maria.username, "password": maria.password, "database": maria.path[1:]}


class Back(Exception):
    pass


def sale(library: str, ok: bool) -> Event:
    """One event with all fields, or one that is rolled back."""
    data = {"by": library, "text": "'\"\\ é 💶 ? $1 :x %s %(a)s {}"}
    if not ok:
        return {"type": "sale.undone", "key": library, "data": data}
    at = datetime.datetime.fromtimestamp(1767323045.678, datetime.timezone(datetime.timedelta(hours=1)))
    return {"type": "sale.made", "key": library, "data": data, "id": library.replace(" ", "-"), "metadata": {"by": "py"}, "occurred_at": at}


def both(library: str, one: Callable[[Event, bool], Any]) -> None:
    one(sale(library, True), True)
    with contextlib.suppress(Back):
        one(sale(library, False), False)
        raise AssertionError("not rolled back")
    print(library)


def refused(tx: Any, error: type[Exception] = RuntimeError) -> None:
    try:
        publish(tx, sale("none", False))
    except error:
        return
    raise AssertionError(f"{tx} was taken")


def of_dbapi(library: str, connection: Any, place: str) -> None:
    def one(event: Event, ok: bool) -> None:
        try:
            connection.cursor().execute(f"INSERT INTO sales VALUES ({place})", (event["key"],))
            publish(connection, event)
            if not ok:
                raise Back
            connection.commit()
        except Back:
            connection.rollback()
            raise

    with contextlib.closing(connection):
        both(library, one)


of_dbapi("psycopg postgres", psycopg.connect(POSTGRES), "%s")
of_dbapi("sqlite3 sqlite", sqlite3.connect(SQLITE), "?")
of_dbapi("pymysql mysql", pymysql.connect(**MARIA), "%s")
with psycopg.connect(POSTGRES, autocommit=True) as alone:
    refused(alone)
    with alone.transaction():
        publish(alone, {"type": "sale.made", "data": {"by": "psycopg block"}, "id": "block"})
with contextlib.closing(sqlite3.connect(SQLITE, isolation_level=None)) as alone:
    refused(alone)
refused(object(), TypeError)

URLS = {
    "postgres": POSTGRES.replace("postgres:", "postgresql+psycopg:"),
    "mysql": MYSQL.replace("mysql:", "mysql+pymysql:"),
    "sqlite": f"sqlite:///{SQLITE}",
}
for name, url in URLS.items():
    engine = sqlalchemy.create_engine(url)

    def by_session(event: Event, ok: bool) -> None:
        with Session(engine) as session, session.begin():
            session.execute(sqlalchemy.text("INSERT INTO sales VALUES (:key)"), {"key": event["key"]})
            publish(session, event)
            if not ok:
                raise Back

    def by_connection(event: Event, ok: bool) -> None:
        with engine.begin() as connection:
            publish(connection, event)
            if not ok:
                raise Back

    both(f"sqlalchemy {name}", by_session)
    both(f"sqlalchemy-core {name}", by_connection)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as alone:
        refused(alone)
    engine.dispose()


def by_async(event: Event, ok: bool) -> None:
    async def run() -> None:
        engine = create_async_engine(URLS["postgres"])
        try:
            async with AsyncSession(engine) as session, session.begin():
                await session.run_sync(publish, event)
                if not ok:
                    raise Back
        finally:
            await engine.dispose()

    asyncio.run(run())


both("sqlalchemy-async postgres", by_async)

pg = psycopg.conninfo.conninfo_to_dict(POSTGRES)
settings.configure(DATABASES={
    "default": {"ENGINE": "django.db.backends.postgresql", "NAME": pg["dbname"], "USER": pg["user"], "HOST": pg["host"]},
    "lite": {"ENGINE": "django.db.backends.sqlite3", "NAME": SQLITE},
})  # fmt: skip
django.setup()
from django.db import connections, transaction  # noqa: E402

for name, using in (("postgres", "default"), ("sqlite", "lite")):

    def in_block(event: Event, ok: bool) -> None:
        with transaction.atomic(using=using):
            with connections[using].cursor() as cursor:
                cursor.execute("INSERT INTO sales VALUES (%s)", [event["key"]])
            publish(connections[using], event)
            if not ok:
                raise Back

    refused(connections[using])
    both(f"django {name}", in_block)
    connections[using].close()
