"""Connections of the database drivers, with one interface: begin, execute, commit, rollback, close.

``session`` finds out which driver a connection is of, so no caller names it. The methods are steps: with an async driver
their calls return awaitables (see ``steps``).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from .steps import Steps

Rows = list[tuple[Any, ...]]
SQLITE_TRANSACTION = 22  # the authorizer's code of begin, commit and rollback; the module has no name for it
POSTGRES_TRANSACTION = 2  # libpq's status of a connection in a transaction without a failed statement


class Session:
    """One connection. ``raw`` is what the handler gets as its transaction."""

    dialect = "postgres"
    asynchronous = False
    mark = "%s"

    def __init__(self, raw: Any) -> None:
        self.raw = raw

    def begin(self, wait_ms: int, limited: bool = True) -> Steps[None]:
        """Begins a transaction whose locks are waited for at most wait_ms, in PostgreSQL only if it is limited."""
        raise NotImplementedError

    def execute(self, sql: str, values: Sequence[Any] = ()) -> Steps[Rows]:
        """Runs one statement with ``?`` for each value, and returns its rows."""
        cursor = yield self.raw.execute(sql.replace("?", self.mark), tuple(values))
        rows: Rows = (yield cursor.fetchall()) if cursor.description else []
        return rows

    def count(self, sql: str, values: Sequence[Any]) -> Steps[int]:
        """Runs one statement whose rows are not wanted, and says how many it has changed."""
        cursor = yield self.raw.execute(sql.replace("?", self.mark), tuple(values))
        changed: int = cursor.rowcount
        return changed

    def commit(self) -> Steps[None]:
        yield self.raw.commit()

    def rollback(self) -> Steps[None]:
        yield self.raw.rollback()

    def close(self) -> Steps[None]:
        yield self.raw.close()

    def guard(self, on: bool) -> Steps[None]:
        """While on, the handler cannot end the transaction, because the driver refuses it."""
        yield from ()

    def whole(self) -> bool | None:
        """Whether the transaction still has all that was done in it: a statement that failed may have ended it. None: unknown."""
        return None

    def limit(self, wait_ms: int) -> Steps[None]:
        if self.dialect == "sqlite":
            yield from self.execute(f"pragma busy_timeout={int(wait_ms)}")
        else:
            yield from self.execute(f"set local lock_timeout='{int(wait_ms)}ms'")


class Known:
    """What the kit has set on a connection of SQLite, and what its handlers may do there."""

    def __init__(self) -> None:
        self.wait_ms = -1
        self.handler = self.kit = False  # who runs a statement now
        # Whether the database asks `authorize` about each commit. It asks when a statement is prepared, and Python keeps prepared
        # statements: of those of others it is not asked again.
        self.asks = False

    def authorize(self, action: int, *_: Any) -> int:
        if action != SQLITE_TRANSACTION or self.kit:
            return sqlite3.SQLITE_OK
        if self.handler:
            return sqlite3.SQLITE_DENY
        self.asks = False
        return sqlite3.SQLITE_OK


KNOWN: WeakKeyDictionary[Any, Known] = WeakKeyDictionary()


class Sqlite(Session):
    """sqlite3 and aiosqlite."""

    dialect = "sqlite"
    mark = "?"

    def __init__(self, raw: Any) -> None:
        super().__init__(raw)
        try:
            self._known = KNOWN.setdefault(raw, Known())
        except TypeError:  # a connection of sqlite3 cannot be remembered
            self._known = Known()

    def begin(self, wait_ms: int, limited: bool = True) -> Steps[None]:
        if self.raw.in_transaction:
            raise RuntimeError("the connection has an open transaction; give the kit one of its own")
        if self._known.wait_ms != wait_ms:
            yield from self.limit(wait_ms)
            self._known.wait_ms = wait_ms
        yield from self._own(self.raw.execute, "begin immediate")

    def commit(self) -> Steps[None]:
        yield from self._own(self.raw.commit)

    def rollback(self) -> Steps[None]:
        self._known.handler = False
        yield from self._own(self.raw.rollback)

    def _own(self, call: Callable[..., Any], *arguments: Any) -> Steps[None]:
        self._known.kit = True
        try:
            yield call(*arguments)
        finally:
            self._known.kit = False

    def guard(self, on: bool) -> Steps[None]:
        if on and not self._known.asks:
            yield self.raw.set_authorizer(self._known.authorize)  # what was prepared before is prepared again
            self._known.asks = True
        self._known.handler = on

    def whole(self) -> bool:
        found: bool = self.raw.in_transaction
        return found


class Psycopg(Session):
    """psycopg 3. The first statement begins the transaction; a block of psycopg would do more for each."""

    def begin(self, wait_ms: int, limited: bool = True) -> Steps[None]:
        if self.raw.info.transaction_status:
            raise RuntimeError("the connection has an open transaction; give the kit one of its own")
        if self.raw.autocommit:  # then psycopg begins no transaction, and sets no level
            level = self.raw.isolation_level
            yield self.raw.execute("begin" if level is None else f"begin isolation level {level.name.replace('_', ' ')}")
        if limited:
            yield from self.limit(wait_ms)

    def guard(self, on: bool) -> Steps[None]:
        yield from ()
        if on:
            self.raw.commit = self.raw.rollback = _refuse
        else:
            for name in ("commit", "rollback"):
                vars(self.raw).pop(name, None)

    def rollback(self) -> Steps[None]:
        yield from self.guard(False)
        yield self.raw.rollback()

    def whole(self) -> bool:
        return bool(self.raw.info.transaction_status == POSTGRES_TRANSACTION)


class AsyncPsycopg(Psycopg):
    asynchronous = True


class SqlAlchemy(Session):
    """A connection of SQLAlchemy's engine."""

    def __init__(self, raw: Any) -> None:
        super().__init__(raw)
        self.dialect = "sqlite" if raw.dialect.name == "sqlite" else "postgres"
        self.mark = {"qmark": "?", "numeric_dollar": "$"}.get(raw.dialect.paramstyle, "%s")

    def begin(self, wait_ms: int, limited: bool = True) -> Steps[None]:
        self._block = yield self.raw.begin()
        if limited or self.dialect == "sqlite":
            yield from self.limit(wait_ms)

    def execute(self, sql: str, values: Sequence[Any] = ()) -> Steps[Rows]:
        result = yield self._run(sql, values)
        return [tuple(row) for row in result.fetchall()] if result.returns_rows else []

    def count(self, sql: str, values: Sequence[Any]) -> Steps[int]:
        result = yield self._run(sql, values)
        changed: int = result.rowcount
        return changed

    def _run(self, sql: str, values: Sequence[Any]) -> Any:
        parts = sql.split("?")
        marks = [f"${n}" if self.mark == "$" else self.mark for n in range(1, len(parts))]
        text = parts[0] + "".join(mark + part for mark, part in zip(marks, parts[1:], strict=True))
        return self.raw.exec_driver_sql(text, tuple(values))

    def commit(self) -> Steps[None]:
        yield self._block.commit()

    def rollback(self) -> Steps[None]:
        yield from self.guard(False)
        if self._block.is_active:
            yield self._block.rollback()
        else:  # a refused commit; the pool would not reset the connection, so it is dropped
            yield self.raw.invalidate()

    def guard(self, on: bool) -> Steps[None]:
        from sqlalchemy import event

        connection = getattr(self.raw, "sync_connection", self.raw)
        if on:
            event.listen(connection, "commit", _refuse)
        elif event.contains(connection, "commit", _refuse):
            event.remove(connection, "commit", _refuse)
        yield from ()


def _refuse(*_: Any) -> None:
    raise RuntimeError("the transaction is the kit's: leave its commit to it")


class AsyncSqlAlchemy(SqlAlchemy):
    asynchronous = True


class Django(Session):
    """A connection of Django. The block is durable: inside another one nothing is committed before the answer."""

    def __init__(self, raw: Any) -> None:
        super().__init__(raw)
        self.dialect = "sqlite" if raw.vendor == "sqlite" else "postgres"

    def begin(self, wait_ms: int, limited: bool = True) -> Steps[None]:
        from django.db import transaction

        block: Any = transaction.atomic(using=self.raw.alias, durable=True)
        block.__enter__()
        self._block = block
        if limited or self.dialect == "sqlite":
            yield from self.limit(wait_ms)

    def execute(self, sql: str, values: Sequence[Any] = ()) -> Steps[Rows]:
        yield from ()
        with self.raw.cursor() as cursor:
            cursor.execute(sql.replace("?", "%s"), tuple(values))
            rows: Rows = cursor.fetchall() if cursor.description else []
            return rows

    def count(self, sql: str, values: Sequence[Any]) -> Steps[int]:
        yield from ()
        with self.raw.cursor() as cursor:
            cursor.execute(sql.replace("?", "%s"), tuple(values))
            changed: int = cursor.rowcount
            return changed

    def commit(self) -> Steps[None]:
        yield self._block.__exit__(None, None, None)

    def rollback(self) -> Steps[None]:
        yield self._block.__exit__(RuntimeError, RuntimeError("rolled back"), None)

    def close(self) -> Steps[None]:
        yield None  # Django closes its connections itself, at the end of its request


def session(raw: Any) -> Session:
    """The session of a connection, by the class that the connection is of."""
    for base in type(raw).__mro__:
        module = base.__module__.partition(".")[0]
        if isinstance(raw, sqlite3.Connection) or module == "aiosqlite":
            found = Sqlite(raw)
            found.asynchronous = module == "aiosqlite"
            return found
        if module == "psycopg":
            return AsyncPsycopg(raw) if "Async" in base.__name__ else Psycopg(raw)
        if module == "sqlalchemy":
            return AsyncSqlAlchemy(raw) if "Async" in base.__name__ else SqlAlchemy(raw)
        if module == "django":
            return Django(raw)
    raise TypeError(
        f"connection of {type(raw).__module__}.{type(raw).__name__}: use one of sqlite3, aiosqlite, psycopg 3, SQLAlchemy or Django"
    )
