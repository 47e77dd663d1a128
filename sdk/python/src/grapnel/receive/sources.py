"""A sender of webhooks: how its requests are verified, and which event a request is."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

from .canonical import canonical
from .delivery import Request
from .outcome import Outcome, Refused
from .standard import MAX_HEADER, MAX_SIGNATURES, matcher, verify

TOLERANCE = 300.0
MAX_ID = 512  # bytes; an index of PostgreSQL takes 2,704

# Makes the key of a request from its body.
KeyFromBody = Callable[[bytes], str]


def raw_body(body: bytes) -> str:
    """The key of a source without ids: SHA-256 of the bytes."""
    return hashlib.sha256(body).hexdigest()


def canonical_body(*ignore: str) -> KeyFromBody:
    """The key of a source without ids: SHA-256 of the canonical form without the ignored paths."""
    canonical(b"{}", ignore)  # a path that cannot be read fails here and not at a request
    return lambda body: hashlib.sha256(canonical(body, ignore)).hexdigest()


class Source:
    """One sender. ``name`` is a part of each key, so ids of two senders never meet."""

    secret_headers: Sequence[str] = ()  # that carry a secret and not a signature; they are never stored

    def __init__(self, name: str, *, span: float = 0, key_from_body: KeyFromBody | None = None) -> None:
        if not name:
            raise ValueError("the source's name is empty; give the sender one, such as stripe")
        self.name, self.span, self.key_from_body = name, span, key_from_body

    def verify(self, request: Request, now: float) -> str:
        """Returns the event's id, empty if the sender gives none, or raises Refused."""
        raise NotImplementedError

    def event(self, request: Request, now: float) -> str:
        """Verifies a request and returns its key's id."""
        event = self.verify(request, now)
        if self.key_from_body:
            try:
                event = self.key_from_body(request.body)
            except (ValueError, RecursionError) as error:
                raise Refused(Outcome.MALFORMED, "the body has no key") from error
        if not event or len(event.encode("utf-8", "replace")) > MAX_ID or not event.isprintable():
            raise Refused(Outcome.MALFORMED, f"the event id has 1 to {MAX_ID} printable bytes")
        return event


class StandardWebhooks(Source):
    """Standard Webhooks with any of the secrets (``whsec_…`` or ``whpk_…``)."""

    def __init__(
        self,
        name: str,
        *secrets: str,
        tolerance: float = TOLERANCE,
        span: float = 272_105,  # 75 h 35 min 5 s, the specification's example
        key_from_body: KeyFromBody | None = None,
        prefixes: Sequence[str] = ("webhook-",),
        lenient: bool = False,
    ) -> None:
        super().__init__(name, span=span, key_from_body=key_from_body)
        if not 1 <= len(secrets) <= MAX_SIGNATURES:
            raise ValueError(f"{len(secrets)} secrets given; 1 to {MAX_SIGNATURES} can be accepted")
        self._matchers = [matcher(secret, lenient=lenient) for secret in secrets]
        self._tolerance, self._prefixes = tolerance, prefixes

    def verify(self, request: Request, now: float) -> str:
        prefix = next((p for p in self._prefixes if request.values(p + "signature") or request.values(p + "id")), "webhook-")
        signatures = request.values(prefix + "signature")
        if not any(signatures):
            raise Refused(Outcome.UNVERIFIED)
        header, event, stamp = (request.header(prefix + name) for name in ("signature", "id", "timestamp"))
        if not header or not event or not stamp or len(header) > MAX_HEADER or len(header.split()) > MAX_SIGNATURES:
            raise Refused(Outcome.MALFORMED)
        # A dot would let the id or the body stand for a part of the time. A second spelling of a time is a second message.
        if "." in event or len(event) > 256 or not stamp.isascii() or not stamp.isdigit() or len(stamp) > 12 or str(int(stamp)) != stamp:
            raise Refused(Outcome.MALFORMED)
        if abs(now - int(stamp)) > self._tolerance:
            raise Refused(Outcome.EXPIRED)
        if not verify(self._matchers, event, stamp, request.body, header):
            raise Refused(Outcome.UNVERIFIED)
        return event
