"""Publishes events inside the application's own transaction: they arrive if and only if it commits.

Nothing here calls Grapnel. The database has its outbox by ``grapnel outbox install``, and a source of the server reads it.
Libraries are recognised by the methods of their objects, so none is imported.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import sqlite3
import time
import uuid
from typing import Any, NotRequired, TypedDict

__all__ = ["Event", "publish"]


class Event(TypedDict):
    """An event, with the names that it has in the API."""

    type: str
    data: Any  # becomes JSON
    key: NotRequired[str | None]  # events of one key arrive in the order in which their transactions commit
    id: NotRequired[str | None]  # the event's own, the same one for the same event; a new one if none is given
    metadata: NotRequired[dict[str, str] | None]
    occurred_at: NotRequired[datetime.datetime | None]  # now, if it is not given


_SQL = {
    "postgresql": "SELECT grapnel.grapnel_publish({}::text, {}::text, {}::text, {}::text, {}::text, {}::timestamptz)",
    "mysql": "CALL grapnel_publish({}, {}, {}, {}, {}, {})",
    "sqlite": "INSERT INTO grapnel_outbox (type, data, key, event_id, metadata, occurred_at, published_at) VALUES ({}, {}, {}, {}, {}, {}, {})",
}
_MODULES = {"psycopg": "postgresql", "pymysql": "mysql"}
_PLACES = {"qmark": "?", "format": "%s", "pyformat": "%s", "numeric_dollar": "${}"}


def publish(tx: Any, event: Event) -> None:
    """Publishes an event in a transaction.

    tx is a Connection or Session of SQLAlchemy; a connection of Django within ``transaction.atomic()``; or a connection of
    psycopg, sqlite3 or PyMySQL. With an AsyncSession or AsyncConnection of SQLAlchemy:
    ``await session.run_sync(publish, event)``. In MySQL and MariaDB the key is locked until the transaction ends.
    """
    if hasattr(tx, "get_bind") and callable(getattr(tx, "connection", None)):
        tx = tx.connection()  # of a Session of SQLAlchemy
    module = type(tx).__module__.partition(".")[0]
    if hasattr(tx, "exec_driver_sql") and hasattr(tx, "dialect"):
        name = "mysql" if tx.dialect.name == "mariadb" else tx.dialect.name
        _within(tx.get_execution_options().get("isolation_level") != "AUTOCOMMIT")
        tx.exec_driver_sql(*_statement(name, _PLACES.get(tx.dialect.paramstyle), event))
    elif hasattr(tx, "in_atomic_block") and hasattr(tx, "vendor"):
        _within(tx.in_atomic_block)
        with tx.cursor() as cursor:
            cursor.execute(*_statement(tx.vendor, "%s", event))
    elif isinstance(tx, sqlite3.Connection):
        _within(tx.in_transaction or tx.isolation_level is not None)
        tx.execute(*_statement("sqlite", "?", event))
    elif module in _MODULES and hasattr(tx, "cursor") and not type(tx).__name__.startswith("Async"):
        _within(not (getattr(tx, "autocommit", False) is True and _idle(tx)))
        with contextlib.closing(tx.cursor()) as cursor:
            cursor.execute(*_statement(_MODULES[module], "%s", event))
    else:
        raise TypeError(
            "publish takes a Connection or Session of SQLAlchemy, or a connection of Django, psycopg, sqlite3 or PyMySQL, "
            f"and not {type(tx).__module__}.{type(tx).__qualname__}"
        )


def _idle(tx: Any) -> bool:
    """Whether a connection of psycopg is outside of a transaction."""
    return getattr(getattr(tx, "info", None), "transaction_status", 1) == 0


def _within(transaction: bool) -> None:
    if not transaction:
        raise RuntimeError("an event is published in a transaction, and this connection has none: each statement commits by itself")


def _statement(database: str, place: str | None, event: Event) -> tuple[str, tuple[Any, ...]]:
    if database not in _SQL or place is None:
        raise TypeError(f"there is no outbox for {database} with this driver; there is for PostgreSQL, MySQL, MariaDB and SQLite")
    data = json.dumps(event["data"], ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    metadata, at = event.get("metadata"), event.get("occurred_at")
    if at is not None:
        if at.tzinfo is None:
            raise ValueError("occurred_at has no time zone")
        at = at.astimezone(datetime.UTC)
    values: list[Any] = [event["type"], data, event.get("key"), event.get("id"), None if metadata is None else json.dumps(metadata)]
    if database == "sqlite":
        now = time.time_ns() // 1_000_000
        values[3] = values[3] or f"evt_{now:012x}7{uuid.uuid4().hex[13:]}"
        values += [(at or datetime.datetime.now(datetime.UTC)).isoformat(), now]
    elif database == "mysql":
        values.append(None if at is None else at.replace(tzinfo=None).isoformat(" "))
    else:
        values.append(None if at is None else at.isoformat())
    return _SQL[database].format(*(place.format(n + 1) for n in range(len(values)))), tuple(values)
