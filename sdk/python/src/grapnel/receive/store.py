"""What the kit asks of a store. ``sql`` and ``redis`` have the two implementations.

A ``Unit`` is the part of a store that one transaction sees. Each method is one atomic step; times are milliseconds since
1970 from the kit's clock, never the store's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from .steps import Steps

T = TypeVar("T")


class Key(NamedTuple):
    """The name of an event at the receiver: the source, and the id that the source signed."""

    source: str
    id: str


@dataclass(frozen=True, slots=True)
class Bid:
    """Asks for a key. It wins if the key has no row, is free, has a lease that passed, or is done and not retained."""

    key: Key
    owner: str  # random for each bid
    now: int
    lease_until: int
    keep_until: int
    body_hash: str
    replay: bool = False  # wins only if the key is dead, or busy with a lease that has passed


class Claim(NamedTuple):
    """The row of a key. A bid has won if the row's owner is the bid's."""

    state: str  # busy | done | free | dead
    owner: str
    generation: int
    lease_until: int
    body_hash: str
    outcome: str
    deliveries: int


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter: a request whose handler failed for good, or whose body differs from the processed one."""

    key: Key
    headers: dict[str, str]
    body: bytes
    error: str
    deliveries: int
    first_at: int
    last_at: int
    replayed_at: int = 0
    result: str = ""


class Unit(Protocol):
    """The claims, dead letters and requests as one transaction sees them."""

    raw: Any  # what the handler gets as its transaction

    def guard(self, on: bool) -> Steps[None]: ...

    def claim(self, bid: Bid) -> Steps[Claim | None]: ...

    def claim_here(self, bid: Bid, outcome: str, wait_ms: int) -> Steps[Claim | None]:
        """Makes the key done with an outcome. Nobody sees that before the transaction commits, and copies wait for it."""
        ...

    def ended(self, bid: Bid, outcome: str) -> Steps[None]:
        """Raises LostClaim if the transaction has lost the claim. An outcome that is not empty replaces the claim's."""
        ...

    def look(self, key: Key) -> Steps[Claim | None]: ...

    def renew(self, key: Key, owner: str, now: int, until: int) -> Steps[bool]: ...

    def settle(self, key: Key, owner: str, state: str, outcome: str, now: int) -> Steps[bool]: ...

    def clean(self, source: str, now: int, limit: int) -> Steps[int]: ...

    # Of a store with letters

    def keep(self, letter: Letter, replace: bool) -> Steps[None]: ...

    def letter(self, key: Key) -> Steps[Letter | None]: ...

    def letters(self, source: str, after: str, limit: int) -> Steps[list[Letter]]: ...

    def replayed(self, key: Key, at: int, result: str) -> Steps[None]: ...

    # Of a store with an inbox

    def put(self, name: str, bid: Bid, ordering_key: str, headers: str, body: bytes) -> Steps[None]: ...

    def take(self, source: str, owner: str, now: int, lease_until: int, block: bool) -> Steps[tuple[Any, ...] | None]: ...

    def renew_request(self, name: str, owner: str, now: int, until: int) -> Steps[None]: ...

    def end_request(self, name: str, owner: str, state: str, next_at: int, now: int, error: str) -> Steps[bool]: ...

    def mark_dead(self, key: Key, now: int) -> Steps[None]: ...

    def revive(self, key: Key, state: str, now: int) -> Steps[bool]: ...


class Store(Protocol):
    """Runs units. The three flags say what the store can do besides claims."""

    letters: bool
    inbox: bool
    transactions: bool

    def unit(self, body: Callable[[Unit], Steps[T]], wait_ms: int, limited: bool = True) -> Steps[T]:
        """Runs body in a transaction and commits; an error rolls back. A lock that is not free in wait_ms raises Locked.

        Unless it is limited, body begins with ``claim_here`` of a bid that is no replay, which limits its own wait.
        """
        ...

    def leave_thread(self) -> None:
        """Closes what the store keeps for the current thread, which ends."""
        ...


class Locked(Exception):
    """Another transaction holds the key longer than the wait that was allowed."""


class LostClaim(Exception):
    """The claim's lease passed and another owner took over, so nothing was changed."""


class NotDead(Exception):
    """A replay found no dead letter under the key, or another replay has taken it."""

    def __init__(self) -> None:
        super().__init__("the key has no dead letter that can be replayed")
