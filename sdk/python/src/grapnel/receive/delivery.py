"""A request as the framework has read it, and the delivery that the handler gets."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from .canonical import idempotency_key


@dataclass(frozen=True, slots=True)
class Request:
    """The raw request. The body is the bytes as they came: a parsed body cannot be verified."""

    body: bytes
    headers: Sequence[tuple[str, str]]
    method: str = "POST"
    url: str = ""  # as the sender called it; Twilio signs it

    def header(self, name: str) -> str | None:
        """The header's value; None if the request has none or several."""
        found = self.values(name)
        return found[0] if len(found) == 1 else None

    def values(self, name: str) -> list[str]:
        return [value for each, value in self.headers if each.lower() == name.lower()]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A verified request, as its handler gets it."""

    source: str
    id: str  # the event's, the same on each of its deliveries
    body: bytes
    headers: dict[str, str]  # names in lower case; without those that carry a secret
    generation: int = 0  # rises with each claim; a service that refuses lower ones is safe from an old handler
    attempt: int = 1  # how many times the key was claimed, this one included
    replayed: bool = False  # an operator replays a dead letter
    remaining: Callable[[], float] = lambda: float("inf")  # seconds until the handler's timeout

    @property
    def text(self) -> str:
        return self.body.decode("utf-8")

    def json(self, **options: Any) -> Any:
        """The body as JSON; ``parse_float=Decimal`` keeps digits. Its errors are permanent."""
        try:
            return json.loads(self.text, **options)
        except RecursionError as error:
            raise json.JSONDecodeError("nested too deeply", "", 0) from error

    def idempotency_key(self, step: str) -> str:
        """The key for a call of another service in this step: the same in every attempt, so it can drop a repeated call."""
        return idempotency_key(self.source, self.id, step)
