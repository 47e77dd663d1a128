"""The kit: from a verified request to an answer that its store has committed.

Invariants. No answer exists before the store has committed what it says. A request whose signature does not match writes
nothing. Of all copies of an event one handler runs at a time, and none after one has succeeded, while the key is
retained. A claim that was lost changes nothing. Observers and logs never change an answer.

Not promised: that an effect outside of the store's database happens once. A crash between the effect and the store's
commit repeats it; ``Delivery.idempotency_key`` is the same in each repetition, so the other service can drop it.
"""

from __future__ import annotations

import hashlib
import logging
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from .classify import TYPED, Classifier, classify
from .delivery import Delivery, Request
from .outcome import DONE, Answer, Outcome, Permanent, Refused
from .sources import Source
from .steps import Steps
from .store import Bid, Claim, Key, Letter, Locked, LostClaim, NotDead, Store, Unit

T = TypeVar("T")

log = logging.getLogger("grapnel.receive")

DAY = 24 * 60 * 60.0
MARGIN = 5.0  # seconds of the lease after the handler's timeout
FIRST_PAUSE, LONGEST_PAUSE = 0.01, 0.2  # of a copy that waits for the running one
MAX_ERROR = 1000  # characters of an error's text in a dead letter
CLEAN_BATCH = 500
SECRET_HEADERS = ("authorization", "cookie", "proxy-authorization")
FAILED = (Outcome.RETRYABLE, Outcome.PERMANENT)


@dataclass(frozen=True, slots=True)
class Observation:
    """One answered request. The error may contain data of the event."""

    source: str
    outcome: Outcome
    delivery: Delivery | None
    error: BaseException | None


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What a kit can be told besides its source and its store. Times are seconds."""

    window: float = 8 * DAY  # how long the key of a processed event is retained
    timeout: float = 25.0  # of the handler
    wait: float = 2.0  # of a copy for the one that is running
    max_body: int = 1 << 20
    max_deliveries: int = 20  # of one key whose handler fails
    concurrency: int = 100  # requests at once
    dead_letters: bool = True  # False: a permanent failure is answered 422
    classify: Classifier | None = None  # chooses the outcome of an error that is not typed
    observe: Callable[[Observation], Any] | None = None  # called for each answer
    clock: Callable[[], float] = time.time

    def check(self, source: Source) -> None:
        for name in ("window", "timeout", "wait", "max_body", "max_deliveries", "concurrency"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be greater than 0")
        if self.window < source.span * 1.25:
            raise ValueError(
                f"window of {self.window:g} s: source {source.name} repeats an event for {source.span:g} s; "
                f"the window must be at least {source.span * 1.25:g} s"
            )


class Io(Protocol):
    """The part that differs between sync and async."""

    def sleep(self, seconds: float) -> Any: ...

    def call(self, handler: Callable[..., Any], args: tuple[Any, ...], timeout: float) -> Any: ...

    def hold(self, call: Callable[[], Any], renew: Callable[[], Steps[None]], every: float, timeout: float) -> Any: ...


class Result(Exception):
    """The answer of a request, with the error behind it."""

    def __init__(self, outcome: Outcome, retry_after: float | None = None, error: BaseException | None = None) -> None:
        self.answer = Answer(outcome, retry_after)
        self.error = error


class Core:
    """The algorithm of both kits, as steps."""

    def __init__(self, source: Source, store: Store, options: Options, io: Io) -> None:
        options.check(source)
        self.source, self.store, self.options, self.io = source, store, options, io
        self.letters = options.dead_letters and store.letters
        self._slots = threading.BoundedSemaphore(options.concurrency)

    def now(self) -> int:
        return int(self.options.clock() * 1000)

    def unit(self, body: Callable[[Unit], Steps[T]], limited: bool = True) -> Steps[T]:
        return (yield from self.store.unit(body, int(self.options.wait * 1000), limited))

    def claim_here(self, unit: Unit, bid: Bid, outcome: Outcome) -> Steps[Claim | None]:
        return (yield from unit.claim_here(bid, outcome, int(self.options.wait * 1000)))

    def answer(self, request: Request, mode: Callable[[Delivery, Bid], Steps[Result]]) -> Steps[Answer]:
        """Answers a request. Every error becomes an answer."""
        delivery: Delivery | None = None
        if not self._slots.acquire(blocking=False):
            result = Result(Outcome.OVERLOADED, 1)
        else:
            try:
                delivery = self._read(request)
                result = yield from mode(delivery, self.bid(delivery))
            except Refused as refused:
                result = Result(refused.outcome, error=refused)
            except Exception as error:
                result = Result(Outcome.RETRYABLE, error=error)
            finally:
                self._slots.release()
        self.observe(result, delivery)
        return result.answer

    def _read(self, request: Request) -> Delivery:
        if len(request.body) > self.options.max_body:
            raise Refused(Outcome.TOO_LARGE)
        event = self.source.event(request, self.options.clock())
        secret = (*SECRET_HEADERS, *self.source.secret_headers)
        headers: dict[str, str] = {}
        for name, value in request.headers:
            if (name := name.lower()) not in secret:
                headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return Delivery(self.source.name, event, request.body, headers)

    def observe(self, result: Result, d: Delivery | None) -> None:
        outcome, error = result.answer.outcome, result.error
        try:
            if outcome in FAILED or outcome in (Outcome.DEAD_LETTERED, Outcome.CONFLICT):
                trace = None if isinstance(error, tuple(kind for kind, _ in TYPED)) else error  # the handler meant a typed one
                log.warning("request ended as %s", outcome, exc_info=trace, extra={"source": self.source.name, "event": d and d.id})
            if self.options.observe:
                self.options.observe(Observation(self.source.name, outcome, d, error))
        except Exception:
            log.exception("observer failed; the answer is unchanged")

    def bid(self, d: Delivery) -> Bid:
        now = self.now()
        lease, keep = now + int((self.options.timeout + MARGIN) * 1000), now + int(self.options.window * 1000)
        key = Key(d.source, d.id)
        return Bid(key, secrets.token_hex(16), now, lease, keep, hashlib.sha256(d.body).hexdigest(), d.replayed)

    # Modes

    def claimed(self, d: Delivery, bid: Bid, handler: Callable[..., Any]) -> Steps[Result]:
        """Claim, handle, settle: each step is a transaction of its own."""

        def attempt(bid: Bid) -> Steps[Claim | None]:
            return (yield from self.unit(lambda unit: unit.claim(bid)))

        claim = yield from self.obtain(d, bid, attempt)
        if isinstance(claim, Result):
            return claim
        owner = claim.owner

        def renew() -> Steps[None]:
            now = self.now()
            until = now + int((self.options.timeout + MARGIN) * 1000)
            yield from self.unit(lambda unit: unit.renew(bid.key, owner, now, until))

        failed: BaseException | None = None
        try:
            call = self.call(d, claim, handler)
            yield self.io.hold(call, renew, (self.options.timeout + MARGIN) / 3, self.options.timeout)
        except Exception as error:
            failed = error
        except BaseException as error:  # the process ends, or the task is cancelled: the next delivery need not wait
            yield from self._finish(d, claim, error)
            raise
        return (yield from self._finish(d, claim, failed))

    def transactional(self, d: Delivery, bid: Bid, handler: Callable[..., Any]) -> Steps[Result]:
        """Claim, handle and settle in one transaction: a crash leaves the effect and the key, or neither."""
        ran: list[BaseException | None] = []

        def attempt(bid: Bid) -> Steps[Claim | None]:
            return (yield from self.unit(lambda unit: body(unit, bid), limited=bid.replay))

        def body(unit: Unit, bid: Bid) -> Steps[Claim | None]:
            claim = yield from self.claim_here(unit, bid, Outcome.PROCESSED)
            if claim is None or claim.owner != bid.owner:
                return claim
            ran.append(None)
            outcome = Outcome.PROCESSED
            try:
                yield from unit.guard(True)
                yield self.call(d, claim, handler, unit.raw)()
            except Exception as error:
                ran[-1] = error
                outcome = self.classify(error)[0]
                if outcome is not Outcome.PARKED:
                    raise
            yield from unit.guard(False)
            yield from unit.ended(bid, "" if outcome is Outcome.PROCESSED else outcome)
            if d.replayed:
                yield from unit.replayed(bid.key, self.now(), outcome)
            return claim._replace(outcome=str(outcome))

        claim = yield from self.obtain(d, bid, attempt)
        if not isinstance(claim, Result):
            return Result(Outcome(claim.outcome), error=ran[-1])
        if not ran:
            return claim
        return (yield from self._count(d, ran[-1] or claim.error or LostClaim()))

    def _count(self, d: Delivery, failed: BaseException) -> Steps[Result]:
        """Counts a delivery whose transaction was rolled back, and settles its key, in a transaction of its own."""
        bid = self.bid(d)

        def body(unit: Unit) -> Steps[Result]:
            claim = yield from unit.claim(bid)
            if claim is None or claim.owner != bid.owner:  # another copy has it: the next delivery gets its outcome
                return Result(Outcome.IN_PROGRESS, self.options.wait, failed)
            return (yield from self._settle(unit, d, claim, failed))

        try:
            return (yield from self.unit(body))
        except Locked:
            return Result(Outcome.IN_PROGRESS, self.options.wait, failed)

    def obtain(self, d: Delivery, bid: Bid, attempt: Callable[[Bid], Steps[Claim | None]]) -> Steps[Claim | Result]:
        """Bids until a bid wins, or another owner's row answers. A copy of a running event waits for its outcome."""
        until, pause, waited = time.monotonic() + self.options.wait, FIRST_PAUSE, False
        try:
            claim = yield from attempt(bid)
            while True:
                if claim is not None and claim.owner == bid.owner:
                    return claim
                if bid.replay:
                    raise NotDead()
                late = time.monotonic() >= until
                if claim is not None and claim.state == "busy" and claim.lease_until >= self.now():
                    if late:
                        return Result(Outcome.IN_PROGRESS, self.options.wait)
                    yield self.io.sleep(pause)
                    pause, waited = min(2 * pause, LONGEST_PAUSE), True
                    claim = yield from self.unit(lambda unit: unit.look(bid.key))
                elif claim is not None and (claim.state in ("done", "dead") or waited):
                    return (yield from self._ended(d, bid, claim, waited))
                elif late:
                    return Result(Outcome.IN_PROGRESS, self.options.wait)
                else:  # released, expired or cleaned since the last bid
                    bid = self.bid(d)
                    claim = yield from attempt(bid)
        except Locked as error:
            return Result(Outcome.IN_PROGRESS, self.options.wait, error)
        except NotDead:
            raise
        except Exception as error:
            return Result(Outcome.RETRYABLE, error=error)

    def _ended(self, d: Delivery, bid: Bid, claim: Claim, waited: bool) -> Steps[Result]:
        """The answer of a key that another owner has ended."""
        if claim.state == "dead":
            return Result(Outcome.PERMANENT if claim.outcome == Outcome.PERMANENT else Outcome.DEAD_LETTERED)
        if claim.state == "done" and claim.body_hash != bid.body_hash and not self.source.key_from_body:
            if self.letters:
                letter = self.letter(d, 0, "conflict: the key was processed with another body")
                yield from self.unit(lambda unit: unit.keep(letter, replace=False))
            return Result(Outcome.CONFLICT)
        return Result(Outcome(claim.outcome) if waited and claim.outcome else Outcome.DUPLICATE)

    def call(self, d: Delivery, claim: Claim, handler: Callable[..., Any], *args: Any) -> Callable[[], Any]:
        limit = time.monotonic() + self.options.timeout
        d = Delivery(
            d.source, d.id, d.body, d.headers, claim.generation, claim.deliveries, d.replayed, lambda: limit - time.monotonic()
        )

        def call() -> Any:
            if claim.deliveries > self.options.max_deliveries and not d.replayed:
                raise Permanent(f"the key was attempted {self.options.max_deliveries} times")
            return self.io.call(handler, (d, *args), self.options.timeout)

        return call

    def classify(self, error: BaseException) -> tuple[Outcome, float | None]:
        return classify(error, self.options.clock(), self.options.classify)

    def _finish(self, d: Delivery, claim: Claim, failed: BaseException | None) -> Steps[Result]:
        try:
            return (yield from self.unit(lambda unit: self._settle(unit, d, claim, failed)))
        except LostClaim as lost:
            return Result(Outcome.IN_PROGRESS, self.options.wait, failed or lost)
        except Exception as error:
            return Result(Outcome.RETRYABLE, error=error)

    def _settle(self, unit: Unit, d: Delivery, claim: Claim, failed: BaseException | None) -> Steps[Result]:
        """Makes the end of a handler durable."""
        outcome, after = self.classify(failed) if failed is not None else (Outcome.PROCESSED, None)
        last = claim.deliveries >= self.options.max_deliveries or d.replayed
        state, letter = "free", None
        if outcome in DONE:
            state = "done"
        elif self.letters and (outcome is Outcome.PERMANENT or (outcome is Outcome.RETRYABLE and last)):
            state, outcome = "dead", Outcome.DEAD_LETTERED
            letter = self.letter(d, claim.deliveries, f"{type(failed).__name__}: {failed}")
        elif last and outcome in FAILED:
            state, outcome = "dead", Outcome.PERMANENT
        key, now = Key(d.source, d.id), self.now()
        if not (yield from unit.settle(key, claim.owner, state, outcome, now)):
            raise LostClaim()
        if d.replayed:
            yield from unit.replayed(key, now, outcome)
        if letter:
            yield from unit.keep(letter, replace=True)
        return Result(outcome, after, failed)

    def letter(self, d: Delivery, deliveries: int, error: str) -> Letter:
        now = self.now()
        return Letter(Key(d.source, d.id), d.headers, d.body, error[:MAX_ERROR].replace("\0", ""), deliveries, now, now)

    # Operators

    def replay(self, event: str, mode: Callable[[Delivery, Bid], Steps[Result]]) -> Steps[Outcome]:
        """Runs the handler for a dead letter through the same claim, so of two replays at once one runs."""
        if not self.letters:
            raise RuntimeError("the store keeps no dead letters")
        key = Key(self.source.name, event)
        letter = yield from self.unit(lambda unit: unit.letter(key))
        if letter is None:
            raise NotDead()
        d = Delivery(*key, letter.body, letter.headers, replayed=True)
        result = yield from mode(d, self.bid(d))
        self.observe(result, d)
        return result.answer.outcome

    def dead_letters(self, after: str, limit: int) -> Steps[list[Letter]]:
        return (yield from self.unit(lambda unit: unit.letters(self.source.name, after, limit)))

    def create_tables(self) -> Steps[None]:
        """Creates the tables that are missing; a store without tables does nothing."""
        yield from getattr(self.store, "create_tables", lambda: iter(()))()

    def clean(self) -> Steps[int]:
        total = 0
        while True:
            deleted = yield from self.unit(lambda unit: unit.clean(self.source.name, self.now(), CLEAN_BATCH))
            total += deleted
            if deleted < CLEAN_BATCH:
                return total
