"""Outcomes, the answers that they make, and the class of an error."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from enum import StrEnum


class Outcome(StrEnum):
    """What became of a request; never a boolean."""

    PROCESSED = "processed"
    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    STALE = "stale"
    PARKED = "parked"
    CONFLICT = "conflict"
    IN_PROGRESS = "in_progress"
    RETRYABLE = "retryable"
    DEAD_LETTERED = "dead_lettered"
    PERMANENT = "permanent"
    GONE = "gone"
    UNVERIFIED = "unverified"
    EXPIRED = "expired"
    MALFORMED = "malformed"
    TOO_LARGE = "too_large"
    OVERLOADED = "overloaded"


STATUS = {
    Outcome.PROCESSED: 200,
    Outcome.ACCEPTED: 202,
    Outcome.DUPLICATE: 200,
    Outcome.STALE: 200,
    Outcome.PARKED: 202,
    Outcome.CONFLICT: 200,
    Outcome.IN_PROGRESS: 503,
    Outcome.RETRYABLE: 503,
    Outcome.DEAD_LETTERED: 200,
    Outcome.PERMANENT: 422,
    Outcome.GONE: 410,
    Outcome.UNVERIFIED: 401,
    Outcome.EXPIRED: 400,
    Outcome.MALFORMED: 400,
    Outcome.TOO_LARGE: 413,
    Outcome.OVERLOADED: 429,
}

# The outcomes of a handler after which its key is done.
DONE = (Outcome.PROCESSED, Outcome.STALE, Outcome.PARKED)

# The outcomes with a Retry-After, and its seconds where nothing better is known; 0: none.
RETRY_AFTER = {Outcome.IN_PROGRESS: 5, Outcome.OVERLOADED: 5, Outcome.RETRYABLE: 0}

# The sentence of a failure. It contains no data of the event, because senders log answers.
REASON = {
    Outcome.CONFLICT: "The event id was processed with another body.",
    Outcome.IN_PROGRESS: "Another request with this event id is being processed.",
    Outcome.RETRYABLE: "Processing failed and may succeed later.",
    Outcome.DEAD_LETTERED: "Processing failed for good; the receiver has stored the request.",
    Outcome.PERMANENT: "Processing failed for good.",
    Outcome.GONE: "The receiver wants no more events.",
    Outcome.UNVERIFIED: "The signature is missing or does not match.",
    Outcome.EXPIRED: "The signature's time is outside of the tolerance.",
    Outcome.MALFORMED: "The event id or a header is missing or cannot be read.",
    Outcome.TOO_LARGE: "The body is larger than the receiver reads.",
    Outcome.OVERLOADED: "The receiver has more requests at once than it takes.",
}

BODY = {each: json.dumps({"outcome": each, **({"reason": REASON[each]} if each in REASON else {})}).encode() for each in Outcome}


@dataclass(frozen=True, slots=True)
class Answer:
    """The HTTP answer to a request."""

    outcome: Outcome
    retry_after: float | None = None  # seconds

    @property
    def status(self) -> int:
        return STATUS[self.outcome]

    @property
    def headers(self) -> dict[str, str]:
        headers = {"content-type": "application/json", "webhook-outcome": str(self.outcome)}
        if self.outcome in RETRY_AFTER:
            seconds = math.ceil(RETRY_AFTER[self.outcome] if self.retry_after is None else self.retry_after)
            if seconds > 0:
                headers["retry-after"] = str(seconds)
        return headers

    @property
    def body(self) -> bytes:
        return BODY[self.outcome]


class Refused(Exception):
    """The request is answered with this outcome, and nothing was written."""

    def __init__(self, outcome: Outcome, detail: str = "") -> None:
        super().__init__(detail or REASON[outcome])
        self.outcome = outcome


class Permanent(Exception):
    """The handler cannot process this event, now or later."""


class Retryable(Exception):
    """The handler failed in a way that passes."""


class RetryAfter(Retryable):
    """The handler failed in a way that passes after about this many seconds."""

    def __init__(self, seconds: float, *args: object) -> None:
        super().__init__(*args)
        self.seconds = seconds


class Gone(Exception):
    """The receiver wants no more events; senders disable the endpoint at the answer 410."""


class Stale(Exception):
    """The event is older than the state it would change; nothing was changed."""


class Parked(Exception):
    """The event waits for one that comes before it."""
