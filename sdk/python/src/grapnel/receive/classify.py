"""What kind of error it is: typed errors, then the user's classifier, then the defaults."""

from __future__ import annotations

import asyncio
import email.utils
import json
import math
import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

from .outcome import Gone, Outcome, Parked, Permanent, Retryable, RetryAfter, Stale

Classifier = Callable[[BaseException], Outcome | None]

TYPED: tuple[tuple[type[BaseException], Outcome], ...] = (
    (Permanent, Outcome.PERMANENT),
    (Retryable, Outcome.RETRYABLE),
    (Gone, Outcome.GONE),
    (Stale, Outcome.STALE),
    (Parked, Outcome.PARKED),
)

# Errors that pass come before permanent ones, because a chain may have both.
PASSES = (TimeoutError, asyncio.CancelledError, ConnectionError, EOFError, OSError)
PERMANENT = (json.JSONDecodeError, UnicodeDecodeError, sqlite3.IntegrityError)
PASSING_STATES = ("40001", "40P01", "55P03", "57P0", "53", "08")
SCHEMA_ERRORS = ("ValidationError", "IntegrityError")  # of pydantic, jsonschema, SQLAlchemy, Django
SQLITE_CONSTRAINT = 19
PASSING_STATUSES = (408, 425, 429)


def chain(error: BaseException) -> Iterator[BaseException]:
    """The error and its causes; ``orig`` is where SQLAlchemy has the driver's error."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        current = todo.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        yield current
        todo += [current.__cause__, getattr(current, "orig", None)]


def classify(error: BaseException, now: float = 0, classifier: Classifier | None = None) -> tuple[Outcome, float | None]:
    """The outcome that an error asks for, and the seconds after which it passes if known."""
    causes = list(chain(error))
    for cause in causes:
        for kind, outcome in TYPED:
            if isinstance(cause, kind):
                return outcome, cause.seconds if isinstance(cause, RetryAfter) else None
    if classifier and (chosen := classifier(error)):
        return chosen, None
    for cause in causes:
        status = _status(cause)
        if status in PASSING_STATUSES or status // 100 == 5:
            return Outcome.RETRYABLE, _retry_after(cause, now)
        if isinstance(cause, PASSES) or _state(cause).startswith(PASSING_STATES):
            return Outcome.RETRYABLE, None
    for cause in causes:
        constraint = _state(cause).startswith(("22", "23")) or _sqlite(cause) == SQLITE_CONSTRAINT
        if constraint or isinstance(cause, PERMANENT) or type(cause).__name__ in SCHEMA_ERRORS:
            return Outcome.PERMANENT, None
    return Outcome.RETRYABLE, None


def _state(error: BaseException) -> str:
    return str(getattr(error, "sqlstate", None) or getattr(error, "pgcode", None) or "")


def _sqlite(error: BaseException) -> int:
    return int(getattr(error, "sqlite_errorcode", None) or 0) & 0xFF


def _response(error: BaseException) -> Any:
    return getattr(error, "response", None) or error


def _status(error: BaseException) -> int:
    """The status of an HTTP error of httpx, requests, aiohttp or urllib; 0: none."""
    response = _response(error)
    for name in ("status_code", "status", "code"):
        status = getattr(response, name, None)
        if isinstance(status, int):
            return status
    return 0


def _retry_after(error: BaseException, now: float) -> float | None:
    headers: Any = getattr(_response(error), "headers", None)
    text = str((headers.get("Retry-After") or headers.get("retry-after") or "") if headers else "")
    if text.isascii() and text.isdigit():
        return float(text)
    try:
        seconds = email.utils.parsedate_to_datetime(text).timestamp() - now
    except ValueError:
        return None
    return math.ceil(seconds) if seconds > 0 else None
