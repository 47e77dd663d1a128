"""The store in PostgreSQL and SQLite: one table of claims, one of dead letters, one inbox."""

from __future__ import annotations

import contextlib
import functools
import json
import sqlite3
import threading
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from .drivers import Session, session
from .steps import Steps, run
from .store import Bid, Claim, Key, Letter, Locked, LostClaim, Unit
from .turns import Turns

T = TypeVar("T")

SCHEMA = """
create table if not exists webhook_claim(
  source text not null, key text not null, state text not null,
  owner text not null, generation bigint not null,
  lease_until bigint not null, keep_until bigint not null,
  body_hash text not null, outcome text not null default '', deliveries bigint not null default 1,
  updated_at bigint not null, primary key(source, key));
create index if not exists webhook_claim_keep on webhook_claim(source, keep_until);
create table if not exists webhook_inbox(
  id text primary key, source text not null, key text not null,
  ordering_key text not null default '', sequence bigint not null, state text not null,
  headers text not null, body bytea not null, body_hash text not null,
  attempts bigint not null default 0, owner text not null default '', lease_until bigint not null default 0,
  next_at bigint not null, received_at bigint not null, updated_at bigint not null, error text not null default '');
create index if not exists webhook_inbox_next on webhook_inbox(source, state, ordering_key, sequence);
create table if not exists webhook_dead(
  source text not null, key text not null, headers text not null, body bytea not null, error text not null,
  deliveries bigint not null, first_at bigint not null, last_at bigint not null,
  replayed_at bigint not null default 0, result text not null default '', primary key(source, key))
"""

ROW = "state,owner,generation,lease_until,body_hash,outcome,deliveries"

COLUMNS = """
insert into webhook_claim as c(source,key,state,owner,generation,lease_until,keep_until,body_hash,outcome,deliveries,updated_at)"""
VALUES = "values(?,?,?,?,1,?,?,?,?,1,?)"
TAKE_OVER = f"""on conflict(source,key) do update set state=excluded.state, owner=excluded.owner, generation=c.generation+1,
  lease_until=excluded.lease_until, keep_until=excluded.keep_until, body_hash=excluded.body_hash,
  outcome=excluded.outcome, deliveries=c.deliveries+1, updated_at=excluded.updated_at
where c.state='free' or (c.state='busy' and c.lease_until<excluded.updated_at) or (c.state='done' and c.keep_until<excluded.updated_at)
returning {ROW}"""

# One statement, no read before it: two copies of an event that arrive together cannot both win.
CLAIM = f"{COLUMNS} {VALUES} {TAKE_OVER}"

# Most keys have no row. For them a transaction needs an insert alone, which a database prepares and runs in less time than the
# statement that may take a row over.
#
# In PostgreSQL the first statement of a claim in a transaction sets how long it waits for the key's row, before it inserts, and that
# or the RETURNING of the one that claims restores what the session had: the handler's own statements are not limited, and no round
# trip is added. If the claim fails, or the row may not be taken, its transaction ends. The inner set_config is an argument of the
# outer one, so it comes first.
WAITING = """case when set_config('lock_timeout', '{}ms',
  set_config('webhook.lock_timeout', current_setting('lock_timeout'), true) is not null) is null then 0 else 1 end"""
RESTORED = "set_config('lock_timeout', current_setting('webhook.lock_timeout'), true)"
CLAIM_RESTORING = f"with w as ({CLAIM},{RESTORED}) select {ROW} from w"


@functools.cache
def insert(dialect: str, outcome: str, wait_ms: int) -> str:
    generation, restored = (WAITING.format(wait_ms), f" returning {RESTORED}") if dialect == "postgres" else (1, "")
    row = f"values(?,?,'done',?,{generation},0,?,?,'{outcome}',1,?)"
    return f"{COLUMNS} {row} on conflict(source,key) do nothing{restored}"


# A replay takes the key of a dead letter, or one whose replay died.
REPLAY = f"""
update webhook_claim set state=?, owner=?, generation=generation+1, lease_until=?, keep_until=?, body_hash=?, outcome=?,
  deliveries=deliveries+1, updated_at=?
where source=? and key=? and (state='dead' or (state='busy' and lease_until<?))
returning {ROW}"""

LOOK = f"select {ROW} from webhook_claim where source=? and key=?"

# Compare and set on the owner, never a delete: an owner that lost its lease changes nothing.
SETTLE = "update webhook_claim set state=?, outcome=?, updated_at=? where source=? and key=? and owner=? and state='busy' returning 1"
RENEW = "update webhook_claim set lease_until=?, updated_at=? where source=? and key=? and owner=? and state='busy' returning 1"

OUTCOME = "update webhook_claim set outcome=? where source=? and key=?"
OWNED = "select 1 from webhook_claim where source=? and key=? and owner=?"

CLEAN = """
delete from webhook_claim where source=? and key in (
  select key from webhook_claim where source=? and state in('done','free') and keep_until<? order by keep_until limit ?)
returning 1"""

KEEP = """
insert into webhook_dead(source,key,headers,body,error,deliveries,first_at,last_at) values(?,?,?,?,?,?,?,?)
on conflict(source,key) do """
REPLACE = """update set headers=excluded.headers, body=excluded.body, error=excluded.error,
  deliveries=excluded.deliveries, last_at=excluded.last_at"""

# The sequence is the order in which requests were stored: the largest one of the source and one more.
PUT = """
insert into webhook_inbox(id,source,key,ordering_key,sequence,state,headers,body,body_hash,next_at,received_at,updated_at)
values(?,?,?,?,(select coalesce(max(sequence),0)+1 from webhook_inbox where source=?),'ready',?,?,?,?,?,?)"""

# The oldest request that is ready, or whose worker's lease passed, and before which no other of its ordering key waits.
TAKE = """
update webhook_inbox set state='busy', owner=?, lease_until=?, attempts=attempts+1, updated_at=?
where id=(
  select i.id from webhook_inbox i
  where i.source=? and ((i.state='ready' and i.next_at<=?) or (i.state='busy' and i.lease_until<?))
    and (i.ordering_key='' or not exists(
      select 1 from webhook_inbox e where e.source=i.source and e.ordering_key=i.ordering_key
        and (e.sequence,e.id)<(i.sequence,i.id) and e.state in(%s)))
  order by i.sequence,i.id limit 1 %s)
and ((state='ready' and next_at<=?) or (state='busy' and lease_until<?))
returning id,key,headers,body,attempts"""
SKIP = {"postgres": "for update skip locked", "sqlite": ""}
RENEW_REQUEST = "update webhook_inbox set lease_until=?, updated_at=? where id=? and owner=? and state='busy'"
END_REQUEST = """update webhook_inbox set state=?, next_at=?, updated_at=?, error=? where id=? and owner=? and state='busy' returning 1"""
MARK_KEY = "update webhook_claim set state='{}', outcome=?, updated_at=? where source=? and key=? and state='{}'"
REVIVE = """update webhook_inbox set state=?, attempts=0, next_at=?, updated_at=?
where source=? and key=? and state='dead' returning 1"""

LETTER = "select source,key,headers,body,error,deliveries,first_at,last_at,replayed_at,result from webhook_dead"


class SqlUnit:
    """The tables within one transaction."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.raw = session.raw
        self.guard = session.guard

    def claim(self, bid: Bid) -> Steps[Claim | None]:
        return (yield from _or_locked(self._claim(bid, CLAIM, "busy", "")))

    def claim_here(self, bid: Bid, outcome: str, wait_ms: int) -> Steps[Claim | None]:
        return (yield from _or_locked(self._claim_here(bid, outcome, wait_ms)))

    def _claim(self, bid: Bid, statement: str, state: str, outcome: str) -> Steps[Claim | None]:
        row = (state, bid.owner, bid.lease_until, bid.keep_until, bid.body_hash, outcome, bid.now)
        if bid.replay:
            rows = yield from self.session.execute(REPLAY, (*row, *bid.key, bid.now))
        else:
            rows = yield from self.session.execute(statement, (*bid.key, *row))
        return Claim(*rows[0]) if rows else (yield from self.look(bid.key))

    def _claim_here(self, bid: Bid, outcome: str, wait_ms: int) -> Steps[Claim | None]:
        waits = self.session.dialect == "postgres"
        if bid.replay:
            claim = yield from self._claim(bid, REPLAY, "done", outcome)
            if waits:
                yield from self.session.execute("set local lock_timeout to default")
            return claim
        new = (*bid.key, bid.owner, bid.keep_until, bid.body_hash, bid.now)
        if (yield from self.session.count(insert(self.session.dialect, outcome, wait_ms), new)) > 0:
            return Claim("done", bid.owner, 1, 0, bid.body_hash, outcome, 1)
        return (yield from self._claim(bid, CLAIM_RESTORING if waits else CLAIM, "done", outcome))

    def ended(self, bid: Bid, outcome: str) -> Steps[None]:
        whole = self.session.whole()
        if whole is None:
            whole = bool((yield from self.session.execute(OWNED, (*bid.key, bid.owner))))
        if not whole:
            raise LostClaim()
        if outcome:
            yield from self.session.execute(OUTCOME, (outcome, *bid.key))

    def look(self, key: Key) -> Steps[Claim | None]:
        rows = yield from self.session.execute(LOOK, key)
        return Claim(*rows[0]) if rows else None

    def renew(self, key: Key, owner: str, now: int, until: int) -> Steps[bool]:
        rows = yield from self.session.execute(RENEW, (until, now, *key, owner))
        return bool(rows)

    def settle(self, key: Key, owner: str, state: str, outcome: str, now: int) -> Steps[bool]:
        rows = yield from self.session.execute(SETTLE, (state, outcome, now, *key, owner))
        return bool(rows)

    def clean(self, source: str, now: int, limit: int) -> Steps[int]:
        rows = yield from self.session.execute(CLEAN, (source, source, now, limit))
        return len(rows)

    def keep(self, letter: Letter, replace: bool) -> Steps[None]:
        values = (*letter.key, json.dumps(letter.headers), letter.body, letter.error, letter.deliveries)
        yield from self.session.execute(KEEP + (REPLACE if replace else "nothing"), (*values, letter.first_at, letter.last_at))

    def letter(self, key: Key) -> Steps[Letter | None]:
        rows = yield from self.session.execute(LETTER + " where source=? and key=?", key)
        return _letter(rows[0]) if rows else None

    def letters(self, source: str, after: str, limit: int) -> Steps[list[Letter]]:
        rows = yield from self.session.execute(LETTER + " where source=? and key>? order by key limit ?", (source, after, limit))
        return [_letter(row) for row in rows]

    def replayed(self, key: Key, at: int, result: str) -> Steps[None]:
        yield from self.session.execute("update webhook_dead set replayed_at=?, result=? where source=? and key=?", (at, result, *key))

    # Inbox

    def put(self, name: str, bid: Bid, ordering_key: str, headers: str, body: bytes) -> Steps[None]:
        values = (name, *bid.key, ordering_key, *bid.key[:1], headers, body, bid.body_hash, bid.now, bid.now, bid.now)
        yield from self.session.execute(PUT, values)

    def take(self, source: str, owner: str, now: int, lease_until: int, block: bool) -> Steps[tuple[Any, ...] | None]:
        text = TAKE % ("'ready','busy','dead'" if block else "'ready','busy'", SKIP[self.session.dialect])
        rows = yield from self.session.execute(text, (owner, lease_until, now, source, now, now, now, now))
        return rows[0] if rows else None

    def renew_request(self, name: str, owner: str, now: int, until: int) -> Steps[None]:
        yield from self.session.execute(RENEW_REQUEST, (until, now, name, owner))

    def end_request(self, name: str, owner: str, state: str, next_at: int, now: int, error: str) -> Steps[bool]:
        rows = yield from self.session.execute(END_REQUEST, (state, next_at, now, error, name, owner))
        return bool(rows)

    def mark_dead(self, key: Key, now: int) -> Steps[None]:
        """The key of a request that the inbox gives up."""
        yield from self.session.execute(MARK_KEY.format("dead", "done"), ("dead_lettered", now, *key))

    def revive(self, key: Key, state: str, now: int) -> Steps[bool]:
        """Makes a dead request ready again, or done, and its key done. False: the key has no dead request."""
        rows = yield from self.session.execute(REVIVE, (state, now, now, *key))
        if rows:
            yield from self.session.execute(MARK_KEY.format("done", "dead"), ("accepted", now, *key))
        return bool(rows)


def _or_locked(steps: Steps[T]) -> Steps[T]:
    try:
        return (yield from steps)
    except Exception as error:
        if locked(error):
            raise Locked() from error
        raise


def _letter(row: tuple[Any, ...]) -> Letter:
    source, key, headers, body, *rest = row
    return Letter(Key(source, key), json.loads(headers), bytes(body), *rest)


class SqlStore:
    """The store of a database.

    ``connect`` returns a connection of sqlite3, aiosqlite, psycopg 3 or SQLAlchemy; an engine, sync or async, serves as
    well. ``release`` takes it back (a pool's ``putconn``); without it the connection is closed.
    """

    letters = True
    transactions = True
    inbox = True
    _queues = True  # transactions of SQLite take turns
    _turns: Turns | None = None

    def __init__(self, connect: Any, *, release: Callable[[Any], Any] | None = None) -> None:
        self._connect: Callable[[], Any] = connect if callable(connect) else connect.connect
        self._release = release

    def unit(self, body: Callable[[Unit], Steps[T]], wait_ms: int, limited: bool = True) -> Steps[T]:
        held: Turns | None = None
        try:
            if turns := self._turns:
                yield turns.take(wait_ms)
                held = turns
            raw = yield self._connect()
            try:
                found = session(raw)
                if found.dialect == "sqlite" and self._queues and not held:  # only the first connections tell
                    turns = vars(self).setdefault("_turns", Turns(found.asynchronous))  # one for threads that come together
                    yield turns.take(wait_ms)
                    held = turns
                return (yield from self._transaction(found, body, wait_ms, limited))
            finally:
                if self._release:
                    yield self._release(raw)
                else:
                    yield from found.close()
        finally:
            if held:
                held.give()

    def _transaction(self, found: Session, body: Callable[[Unit], Steps[T]], wait_ms: int, limited: bool) -> Steps[T]:
        try:
            yield from found.begin(wait_ms, limited)
        except BaseException as error:  # cancelled, too: a begin that is on its way would stay open
            with contextlib.suppress(Exception):
                yield from found.rollback()
            if locked(error):
                raise Locked() from error
            raise
        try:
            result = yield from body(SqlUnit(found))
            yield from found.commit()
        except BaseException:  # of a commit, too: a connection that is used again must have no transaction open
            with contextlib.suppress(Exception):
                yield from found.rollback()
            raise
        return result

    def create_tables(self) -> Steps[None]:
        def create(unit: Unit) -> Steps[None]:
            found = session(unit.raw)
            if found.dialect == "postgres":  # of two processes that start together one would fail
                yield from found.execute("select pg_advisory_xact_lock(4772617)")
            schema = SCHEMA
            if found.dialect == "sqlite":
                schema = SCHEMA.replace("bytea", "blob").replace("primary key(source, key));", "primary key(source, key)) without rowid;", 1)
            for statement in schema.split(";"):
                yield from found.execute(statement)

        yield from self.unit(create, 30_000)

    def leave_thread(self) -> None:
        pass


class DjangoStore(SqlStore):
    """The store of a database of Django's settings. Handlers use the ORM; its connection is the transaction."""

    def __init__(self, alias: str = "default") -> None:
        from django.db import connections

        self._alias: Callable[[], Any] = lambda: connections[alias]
        super().__init__(self._alias)

    def leave_thread(self) -> None:
        self._alias().close()


class MemoryStore(SqlStore):
    """Claims in the process, for tests and programs of one process: a restart forgets every key."""

    transactions = False  # the handler's effects are elsewhere
    _queues = False  # they have a lock

    def __init__(self, *, test: bool = False) -> None:
        if not test:
            warnings.warn("MemoryStore forgets every key at a restart; use it in tests alone", stacklevel=2)
        memory = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        lock = threading.RLock()

        def connect() -> sqlite3.Connection:
            lock.acquire()
            return memory

        super().__init__(connect, release=lambda _: lock.release())
        self.close = memory.close
        run(self.create_tables())


def locked(error: BaseException | None) -> bool:
    """Whether an error says that another transaction holds a lock: SQLSTATE 55P03, or SQLite is busy."""
    while error is not None:
        if getattr(error, "sqlstate", None) == "55P03" or getattr(error, "sqlite_errorcode", 0) & 0xFF in (5, 6):
            return True
        error = getattr(error, "orig", None) or error.__cause__
    return False
