"""The inbox: requests are stored with their key, and workers run the handler later, in order for each ordering key."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from typing import Any

from .delivery import Delivery
from .kit import MARGIN, MAX_ERROR, Core, Result
from .outcome import Outcome, Refused
from .steps import Steps
from .store import Bid, Claim, Key, LostClaim, NotDead, Unit

# The ordering key of a delivery: events with one key run one at a time, in the order of their arrival.
OrderingKey = Callable[[Delivery], str]

FIRST_BACKOFF, LONGEST_BACKOFF = 1.0, 300.0  # seconds between attempts, which double
END_PAUSES = (0.1, 0.2, 0.4, 0.8, 1.6)  # between tries to store how an attempt ended


class Inbox:
    """Accepts requests and works on them. ``block`` stops an ordering key behind a dead request, ``skip`` goes on."""

    def __init__(self, core: Core, handler: Callable[..., Any], ordering_key: OrderingKey | None, on_exhausted: str) -> None:
        if on_exhausted not in ("block", "skip"):
            raise ValueError(f"on_exhausted is {on_exhausted!r}; use block or skip")
        self._core, self._handler, self._ordering_key = core, handler, ordering_key
        self._block = on_exhausted == "block"

    def accept(self, d: Delivery, bid: Bid) -> Steps[Result]:
        """Claims the key and stores the request in one transaction. The key is done: a copy is a duplicate."""
        core = self._core
        try:
            ordering_key = self._ordering_key(d) if self._ordering_key else ""
        except Exception as error:
            raise Refused(Outcome.MALFORMED, "the body has no ordering key") from error

        def attempt(bid: Bid) -> Steps[Claim | None]:
            def body(unit: Unit) -> Steps[Claim | None]:
                claim = yield from core.claim_here(unit, bid, Outcome.ACCEPTED)
                if claim is not None and claim.owner == bid.owner:
                    name = f"{bid.now:013d}-{secrets.token_hex(8)}"
                    yield from unit.put(name, bid, ordering_key, json.dumps(d.headers), d.body)
                return claim

            return (yield from core.unit(body, limited=False))

        claim = yield from core.obtain(d, bid, attempt)
        return claim if isinstance(claim, Result) else Result(Outcome.ACCEPTED)

    def work_one(self) -> Steps[bool]:
        core, owner, now = self._core, secrets.token_hex(16), self._core.now()
        lease = int((core.options.timeout + MARGIN) * 1000)
        source = core.source.name
        row = yield from core.unit(lambda unit: unit.take(source, owner, now, now + lease, self._block))
        if row is None:
            return False
        name, key, headers, body, attempts = row
        d = Delivery(source, key, bytes(body), json.loads(headers), generation=attempts, attempt=attempts)

        def renew() -> Steps[None]:
            now = core.now()
            yield from core.unit(lambda unit: unit.renew_request(name, owner, now, now + lease))

        failed: BaseException | None = None
        try:
            claim = Claim("busy", owner, attempts, now + lease, "", "", attempts)
            yield core.io.hold(core.call(d, claim, self._handler), renew, lease / 3000, core.options.timeout)
        except Exception as error:
            failed = error
        except BaseException as error:
            yield from self._end(name, owner, d, error)
            raise
        yield from self._end(name, owner, d, failed)
        return True

    def revive(self, event: str, state: str) -> Steps[None]:
        """Lets the workers attempt a dead request again (``ready``), or gives it up (``done``)."""
        core, key = self._core, Key(self._core.source.name, event)

        def body(unit: Unit) -> Steps[None]:
            if not (yield from unit.revive(key, state, core.now())):
                raise NotDead()
            if state == "ready":
                yield from unit.replayed(key, core.now(), Outcome.ACCEPTED)

        yield from core.unit(body)

    def _end(self, name: str, owner: str, d: Delivery, failed: BaseException | None) -> Steps[None]:
        """Stores how an attempt ended: done, dead, or ready again after a pause."""
        core, now = self._core, self._core.now()
        outcome, after = core.classify(failed) if failed is not None else (Outcome.PROCESSED, None)
        state, next_at, letter = "done", now, None
        if outcome is Outcome.PERMANENT or (outcome is Outcome.RETRYABLE and d.attempt >= core.options.max_deliveries):
            state, letter = "dead", core.letter(d, d.attempt, f"{type(failed).__name__}: {failed}")
        elif outcome is Outcome.RETRYABLE:
            pause = min(FIRST_BACKOFF * 2 ** (d.attempt - 1), LONGEST_BACKOFF) if after is None else after
            state, next_at = "ready", now + int(pause * 1000)
        error = f"{type(failed).__name__}: {failed}"[:MAX_ERROR].replace("\0", "") if failed is not None else ""

        def body(unit: Unit) -> Steps[None]:
            if not (yield from unit.end_request(name, owner, state, next_at, now, error)):
                raise LostClaim()
            if letter:
                yield from unit.keep(letter, replace=True)
                yield from unit.mark_dead(letter.key, now)

        # An end that is not stored leaves the request to its lease, and the handler runs again after that. A late try is
        # harmless: the end counts only while the request is this attempt's.
        for pause in (*END_PAUSES, None):
            try:
                yield from core.unit(body)
                break
            except LostClaim as lost:
                failed = failed or lost
                break
            except Exception:
                if pause is None:
                    raise
                yield core.io.sleep(pause)
        core.observe(Result(Outcome.DEAD_LETTERED if letter else outcome, error=failed), d)
