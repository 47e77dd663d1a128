"""Gates make the order of arrival harmless: each is one conditional statement on the handler's own table.

A gate runs in the handler's transaction, ``gate.apply(tx, row)``, or ``await gate.apply_async(tx, row)`` with an async
driver. ``row`` has the columns by their names; those that the gate does not know are written with it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from enum import StrEnum
from typing import Any

from .drivers import Session, session
from .outcome import Permanent, RetryAfter, Stale
from .steps import Steps, arun, run

Row = Mapping[str, Any]
PAUSE = 5.0  # seconds after which a sender is asked to repeat an event that came too early


class Result(StrEnum):
    """What a gate did with an event."""

    APPLIED = "applied"
    STALE = "stale"
    EQUAL = "equal"
    REFUSED = "refused"  # its time is too far in the future
    REJECTED = "rejected"  # its state is unknown
    DEAD_LETTER = "dead_letter"  # neither state can follow the other
    PARKED = "parked"
    FETCH = "fetch"  # the gap did not close in time: fetch the state

    def check(self) -> Result:
        """Raises the typed error of an event that was not applied; returns applied, equal and fetch."""
        if self is Result.STALE:
            raise Stale("a newer version was applied before")
        if self is Result.PARKED:
            raise RetryAfter(5, "an earlier version is missing")  # the sender or the inbox brings the event again
        if self in (Result.REFUSED, Result.REJECTED, Result.DEAD_LETTER):
            raise Permanent(f"the gate refused the event: {self}")
        return self


class Gate:
    """The part that all gates share: an upsert with a condition, and the row that stands in its way."""

    def __init__(self, table: str, key: str, *columns: str) -> None:
        for name in (table, key, *columns):
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)?", name):
                raise ValueError(f"{name!r} is no name of a table or column: use letters, digits and underscores")
        self.table, self.key, self.columns = table, key, columns

    def apply(self, tx: Any, row: Row, **times: Any) -> Result:
        return run(self.steps(session(tx), row, **times))

    async def apply_async(self, tx: Any, row: Row, **times: Any) -> Result:
        return await arun(self.steps(session(tx), row, **times))

    def steps(self, at: Session, row: Row, **times: Any) -> Steps[Result]:
        raise NotImplementedError

    def upsert(self, at: Session, row: Row, condition: str, values: Sequence[Any] = ()) -> Steps[bool]:
        """Inserts the row, or updates it if the condition on ``g``, the stored row, holds, or if its column is null: a row
        that was there before the gate gives way."""
        marks, updates = ",".join("?" * len(row)), ",".join(f"{name}=excluded.{name}" for name in row if name != self.key)
        text = f"insert into {self.table} as g({','.join(row)}) values({marks}) on conflict({self.key}) do update set {updates}"
        rows = yield from at.execute(f"{text} where g.{self.columns[0]} is null or {condition} returning 1", (*row.values(), *values))
        return bool(rows)

    def stored(self, at: Session, row: Row) -> Steps[tuple[Any, ...] | None]:
        """The gate's columns of the stored row."""
        rows = yield from at.execute(f"select {','.join(self.columns)} from {self.table} where {self.key}=?", (row[self.key],))
        return tuple(rows[0]) if rows else None


class VersionGate(Gate):
    """A larger version applies."""

    def __init__(self, table: str, *, key: str = "id", version: str = "version") -> None:
        super().__init__(table, key, version)

    def steps(self, at: Session, row: Row, **times: Any) -> Steps[Result]:
        version = self.columns[0]
        if (yield from self.upsert(at, row, f"g.{version} is null or excluded.{version}>g.{version}")):
            return Result.APPLIED
        stored = yield from self.stored(at, row)
        return Result.EQUAL if stored and stored[0] == row[version] else Result.STALE


class TimestampGate(Gate):
    """A later time applies, and of one instant the larger event id. The column of times has nanoseconds since 1970."""

    def __init__(self, table: str, *, key: str = "id", time: str = "time_ns", event: str = "event", skew: float = 60.0) -> None:
        super().__init__(table, key, time, event)
        self.skew = skew

    def steps(self, at: Session, row: Row, **times: Any) -> Steps[Result]:
        """``row[time]`` is a text of RFC 3339 or nanoseconds; ``now`` is the clock in seconds."""
        time, event = self.columns
        row = {**row, time: nanoseconds(row[time]) if isinstance(row[time], str) else row[time]}
        if row[time] > int(times["now"] * 10**9) + int(self.skew * 10**9):
            return Result.REFUSED
        bytewise = 'collate "C"' if at.dialect == "postgres" else "collate binary"
        condition = f"g.{time} is null or excluded.{time}>g.{time} or (excluded.{time}=g.{time} and excluded.{event} {bytewise} > g.{event} {bytewise})"
        if (yield from self.upsert(at, row, condition)):
            return Result.APPLIED
        stored = yield from self.stored(at, row)
        return Result.EQUAL if stored == (row[time], row[event]) else Result.STALE


def nanoseconds(text: str) -> int:
    """The nanoseconds since 1970 of a time of RFC 3339, at its full precision."""
    found = re.fullmatch(r"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?([Zz]|[+-]\d\d:\d\d)", text)
    if not found:
        raise ValueError("the time is not RFC 3339, such as 2026-09-21T14:13:20.123456789Z")
    whole = datetime.fromisoformat(found[1] + found[3].replace("z", "Z")) - datetime(1970, 1, 1, tzinfo=timezone.utc)
    return (whole.days * 86_400 + whole.seconds) * 10**9 + int((found[2] or "").ljust(9, "0"))


class StateMachine(Gate):
    """An event applies if its state can be reached from the row's. ``unknown``: accept, reject or dead_letter."""

    def __init__(
        self,
        table: str,
        edges: Mapping[str, Sequence[str]],
        *,
        terminal: Sequence[str] = (),
        unknown: str = "reject",
        key: str = "id",
        state: str = "status",
    ) -> None:
        super().__init__(table, key, state)
        if unknown not in ("accept", "reject", "dead_letter"):
            raise ValueError(f"unknown is {unknown!r}; use accept, reject or dead_letter")
        self.terminal, self.unknown = tuple(terminal), unknown
        self.known = {*edges, *terminal, *(each for states in edges.values() for each in states)}
        self.after = {start: _reachable(edges, start) for start in self.known}
        for start, reached in self.after.items():
            if start in reached:
                raise ValueError(f"state {start!r} can be reached from itself: a version or a time has to say which is newer")
            if start in self.terminal and reached:
                raise ValueError(f"terminal state {start!r} has an edge")

    def steps(self, at: Session, row: Row, **times: Any) -> Steps[Result]:
        (column,) = self.columns
        new = row[column]
        if new not in self.known and self.unknown != "accept":
            return Result.REJECTED if self.unknown == "reject" else Result.DEAD_LETTER
        # The states that give way: those before the new one; with accept also all unknown ones.
        if self.unknown == "accept":
            others = [state for state in self.known if state in self.terminal or (new in self.known and new not in self.after[state])]
            condition, values = f"g.{column} not in({','.join('?' * (len(others) + 1))})", [*others, new]
        else:
            values = [state for state in self.known if new in self.after[state]]
            condition = f"g.{column} in({','.join('?' * len(values)) or 'null'})"
        if (yield from self.upsert(at, row, f"g.{column} is null or {condition}", values)):
            return Result.APPLIED
        stored = yield from self.stored(at, row)
        current = stored[0] if stored else None
        if current == new:
            return Result.EQUAL
        late = current in self.terminal or current in self.after.get(new, ())
        return Result.STALE if late else Result.DEAD_LETTER


def _reachable(edges: Mapping[str, Sequence[str]], start: str) -> set[str]:
    found: set[str] = set()
    todo = [*edges.get(start, ())]
    while todo:
        state = todo.pop()
        if state not in found:
            found.add(state)
            todo += edges.get(state, ())
    return found


class GapGate(Gate):
    """Version n+1 alone applies, for events that are differences. A later one is parked for ``max_wait`` seconds."""

    def __init__(self, table: str, *, key: str = "id", version: str = "version", max_wait: float = 60.0) -> None:
        super().__init__(table, key, version)
        self.max_wait = max_wait

    def steps(self, at: Session, row: Row, **times: Any) -> Steps[Result]:
        """``first`` is when the event came first, ``now`` the clock, both in seconds."""
        (version,) = self.columns
        current = yield from self._current(at, row)
        if row[version] == current + 1:
            if (yield from self.upsert(at, row, f"coalesce(g.{version},0)=excluded.{version}-1")):
                return Result.APPLIED
            current = yield from self._current(at, row)  # another transaction applied a version in between
        if row[version] <= current:
            return Result.EQUAL if row[version] == current else Result.STALE
        return Result.PARKED if times["now"] - times["first"] <= self.max_wait else Result.FETCH

    def _current(self, at: Session, row: Row) -> Steps[int]:
        stored = yield from self.stored(at, row)
        return stored[0] or 0 if stored else 0
