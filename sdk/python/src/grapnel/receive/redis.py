"""The store in Redis: one hash for each key, one Lua script for each step.

Redis keeps neither dead letters nor an inbox, so a permanent failure is answered 422. A failover that loses a write can
forget a claim: use the mode transaction where that must not be.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.resources import files
from typing import Any, TypeVar, cast

from .steps import Steps
from .store import Bid, Claim, Key, Unit

T = TypeVar("T")


class RedisUnit:
    """The claims; each script is a transaction of its own."""

    raw = None

    def __init__(self, client: Any) -> None:
        folder = files("grapnel.receive") / "lua"
        self._claim, self._renew, self._settle = (
            client.register_script((folder / f"{name}.lua").read_text()) for name in ("claim", "renew", "settle")
        )
        self._client = client

    def claim(self, bid: Bid) -> Steps[Claim | None]:
        values = [bid.owner, bid.body_hash, bid.now, bid.lease_until, bid.keep_until, "1" if bid.replay else "0"]
        row = yield self._claim([name(bid.key)], values)
        return _claim(row)

    def look(self, key: Key) -> Steps[Claim | None]:
        row = yield self._client.hmget(name(key), *Claim._fields)
        return _claim(row)

    def renew(self, key: Key, owner: str, now: int, until: int) -> Steps[bool]:
        return bool((yield self._renew([name(key)], [owner, now, until])))

    def settle(self, key: Key, owner: str, state: str, outcome: str, now: int) -> Steps[bool]:
        return bool((yield self._settle([name(key)], [owner, state, str(outcome), now])))

    def clean(self, source: str, now: int, limit: int) -> Steps[int]:
        yield None  # each key has a time to live
        return 0


def name(key: Key) -> str:
    """The braces keep the keys of a source in one slot of a cluster."""
    return f"webhook:{{{key.source}}}:{key.id}"


def _claim(row: list[Any]) -> Claim | None:
    texts = [field.decode() if isinstance(field, bytes) else field for field in row]
    if not texts or texts[0] is None:
        return None
    state, owner, generation, lease_until, body_hash, outcome, deliveries = texts
    return Claim(state, owner, int(generation), int(lease_until), body_hash, outcome, int(deliveries))


class RedisStore:
    """The store of a client of redis-py, sync or async."""

    letters = inbox = transactions = False

    def __init__(self, client: Any) -> None:
        self._unit = RedisUnit(client)

    def unit(self, body: Callable[[Unit], Steps[T]], wait_ms: int, limited: bool = True) -> Steps[T]:
        return (yield from body(cast(Unit, self._unit)))

    def leave_thread(self) -> None:
        pass
