"""Consuming a queue: leases, their extension while handlers run, and settling."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import asyncio
import inspect
import json
import random
import signal
import time
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from . import types
from ._http import ApiError, Call, Unreachable, part

if TYPE_CHECKING:
    from ._async import AsyncClient
    from ._sync import Client

FIRST_TROUBLE = 0.2  # seconds
LONGEST_TROUBLE = 30.0
SHORTEST_SETTLING = 5.0  # seconds for settling, however little is left of the lease
LONGEST_REASON = 500  # characters
LONGEST_LEASE = 12 * 3600.0


class Reject(Exception):
    """A handler raises it to make its message a dead letter: trying again would not help."""


class RetryAfter(Exception):
    """A handler raises it to return its message to the queue for a time, in seconds."""

    def __init__(self, seconds: float, reason: str = "") -> None:
        super().__init__(seconds, reason)
        self.seconds = seconds
        self.reason = reason

    def __str__(self) -> str:
        return self.reason


class LeaseLost(Exception):
    """Another consumer may have the message."""


@dataclass(eq=False)
class Message:
    """A leased message: the bytes that a publisher or provider sent."""

    meta: types.Meta
    body: bytes
    # Becomes true when the lease is lost, and when a stop takes longer than drain. Then a coroutine is cancelled too; a
    # handler in a thread can only look here.
    cut: bool = False

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self, **options: Any) -> Any:
        """The options are those of json.loads: parse_float=Decimal keeps amounts as they were written."""
        return json.loads(self.body, **options)


@dataclass(frozen=True)
class Settled:
    """A message that was dealt with. If ``error`` is set, it is unknown whether the server has recorded the outcome, so
    the message may come again."""

    message: Message
    outcome: Literal["ack", "nack", "reject"]
    reason: str
    error: Exception | None = None


class ConsumeOptions(TypedDict, total=False):
    """How to consume. All durations are seconds."""

    concurrency: int
    """handlers at once; 1 if not given"""
    count: int
    """ends after this many messages, and leases no others"""
    wait: float
    """how long one question for a message waits at the server, up to 60; 20 if not given"""
    drain: float
    """how long handlers may go on after a stop; 30 if not given"""
    consumer: str
    """name under which the server shows this consumer"""
    signals: Iterable[signal.Signals]
    """these stop it; it has to run in the main thread then"""
    settled: Callable[[Settled], None]
    """called with the settlement of each message"""
    trouble: Callable[[Exception], None]
    """called with the reason for missing messages before the server is asked again"""


AsyncHandler = Callable[[Message], Awaitable[None]]
Handler = Callable[[Message], None]


@dataclass(eq=False)
class Lease:
    message: Message
    length: float
    end: float  # of time.monotonic

    @property
    def left(self) -> float:
        return self.end - time.monotonic()


class _Consuming:
    """What both consumers do, in a loop."""

    def __init__(self, queue: str, options: ConsumeOptions) -> None:
        self._path = f"/v1/queues/{part(queue)}/next"
        self._options = options
        self._concurrency = max(1, options.get("concurrency", 1))
        self._left: float = options.get("count", float("inf"))
        self._wait = options.get("wait", 20)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop_asked = False
        self._failure: Exception | None = None
        self._asking: set[asyncio.Task[Lease | None]] = set()
        self._working: dict[asyncio.Task[None], Message] = {}
        self._drain: asyncio.TimerHandle | None = None

    def stop(self) -> None:
        """Leases nothing more, and lets handlers finish for the time of drain. Any thread may call it."""
        self._stop_asked = True
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._stop)

    async def _handle(self, message: Message) -> None:
        raise NotImplementedError

    def _cut(self, handling: asyncio.Task[None]) -> None:
        self._working[handling].cut = True

    async def _consume(self, client: AsyncClient) -> None:
        self._client = client
        self._loop = loop = asyncio.get_running_loop()
        self._stopping = asyncio.Event()
        signals = list(self._options.get("signals", ()))
        for one in signals:
            loop.add_signal_handler(one, self._stop)
        if self._stop_asked:
            self._stop()
        slots = [loop.create_task(self._slot()) for _ in range(self._concurrency)]
        cancelled: asyncio.CancelledError | None = None
        try:
            while waiting := [slot for slot in slots if not slot.done()]:
                try:
                    await asyncio.wait(waiting)
                except asyncio.CancelledError as error:
                    if cancelled is not None:  # a second one does not wait for drain
                        self._cut_all()
                    cancelled = error
                    self._stop()
        finally:
            self._loop = None
            for one in signals:
                loop.remove_signal_handler(one)
            if self._drain is not None:
                self._drain.cancel()
        for slot in slots:
            slot.result()  # raises what no handler should raise
        if cancelled is not None:
            raise cancelled
        if self._failure is not None:
            raise self._failure

    def _stop(self) -> None:
        if not self._stopping.is_set():
            self._stopping.set()
            self._drain = asyncio.get_running_loop().call_later(self._options.get("drain", 30), self._cut_all)
        for asking in self._asking:
            asking.cancel()

    def _cut_all(self) -> None:
        for handling in self._working:
            self._cut(handling)

    async def _slot(self) -> None:
        """Takes one message after the other until the stop, the count, or an error that asking again cannot change."""
        pause = FIRST_TROUBLE
        while self._left > 0 and not self._stopping.is_set():
            self._left -= 1
            began = time.monotonic()
            lease: Lease | None = None
            missing: ApiError | Unreachable | None = None
            asking = asyncio.create_task(self._next())
            self._asking.add(asking)
            try:
                lease = await asking
            except asyncio.CancelledError:
                if not self._stopping.is_set():
                    raise
            except (ApiError, Unreachable) as error:
                missing = error
            finally:
                self._asking.discard(asking)
            if lease is not None:
                pause = FIRST_TROUBLE
                if self._stopping.is_set():
                    await self._settle(lease, RetryAfter(0, "the consumer is being stopped"))
                else:
                    await self._work(lease)
                continue
            self._left += 1
            if self._stopping.is_set():
                return
            if missing is not None and final(missing):
                self._failure = self._failure or missing
                self._left = 0
                for other in self._asking:
                    other.cancel()
                self._stopping.set()  # without a limit for handlers: nobody asked for a stop
                return
            if missing is None and time.monotonic() - began >= self._wait / 4:
                pause = FIRST_TROUBLE
                continue
            # An empty answer that comes at once is from a server that is about to stop.
            if missing is not None and "trouble" in self._options:
                self._options["trouble"](missing)
            try:
                await asyncio.wait_for(self._stopping.wait(), after(pause, missing))
            except TimeoutError:
                pass
            pause = min(2 * pause, LONGEST_TROUBLE)

    async def _next(self) -> Lease | None:
        """One question for a message. The answer with one message has its bytes as they were sent."""
        query = {"wait": duration(jittered(self._wait)), "consumer": self._options.get("consumer")}
        answer = await self._client._send(Call("GET", self._path, query, accept="*/*", timeout=self._wait + 30))
        if answer.status == 204:
            return None
        given = answer.headers.get("Grapnel-Meta")
        if given is None:
            raise answer.unreadable("has no Grapnel-Meta")
        meta: types.Meta = json.loads(given)
        length = min(max(remaining(meta["lease_expires_at"], answer.headers.get("Date")), 1), LONGEST_LEASE)
        return Lease(Message(meta, answer.body), length, time.monotonic() + length)

    async def _work(self, lease: Lease) -> None:
        """Runs a message's handler under its lease, and settles the message."""
        handling = asyncio.create_task(self._handle(lease.message))
        self._working[handling] = lease.message
        keeping = asyncio.create_task(self._keep(lease, handling))
        try:
            await asyncio.wait([handling])
        finally:
            keeping.cancel()
            del self._working[handling]
        error = asyncio.CancelledError("the handler was cancelled") if handling.cancelled() else handling.exception()
        await asyncio.wait([keeping])
        if not keeping.cancelled() and (lost := keeping.result()) is not None:
            self._tell(Settled(lease.message, outcome(error), reason(error), lost))
        else:
            await self._settle(lease, error)

    async def _keep(self, lease: Lease, handling: asyncio.Task[None]) -> LeaseLost | None:
        """Extends a lease each time half of it has passed. When it expires, cuts the handler off."""
        pause = lease.left / 2
        while True:
            await asyncio.sleep(pause)
            asked = time.monotonic()
            try:
                await self._say(lease, "extend", {"by": duration(lease.length)}, lease.left / 2)
            except (ApiError, Unreachable) as error:
                if over(error) or lease.left <= 0:
                    if not handling.done():
                        self._cut(handling)
                    return LeaseLost("the lease has expired: another consumer may have the message")
                pause = max(lease.left / 4, 0.05)
            else:  # the server counts from when it got the request, which is after asked
                lease.end = asked + lease.length
                pause = lease.length / 2

    async def _settle(self, lease: Lease, error: BaseException | None) -> None:
        """Tells the server the outcome, repeatedly until it has an answer or the lease has expired. A stop does not
        interrupt it, because the work is done by then."""
        verb, why = outcome(error), reason(error)
        body: dict[str, str] | None = None if error is None else {"reason": why}
        if body is not None and isinstance(error, RetryAfter):
            body["delay"] = duration(min(max(0, error.seconds), 24 * 3600))
        end = max(lease.end, time.monotonic() + SHORTEST_SETTLING)
        pause = FIRST_TROUBLE
        while True:
            left = end - time.monotonic()
            try:
                await self._say(lease, verb, body, max(left / 2, 0.05))
                return self._tell(Settled(lease.message, verb, why))
            except (ApiError, Unreachable) as problem:
                rest = after(pause, problem)
                if final(problem) or over(problem) or left <= rest:
                    return self._tell(Settled(lease.message, verb, why, problem))
            await asyncio.sleep(rest)
            pause = min(2 * pause, LONGEST_TROUBLE)

    async def _say(self, lease: Lease, verb: str, body: object, timeout: float) -> None:
        """A lease can be used once, so a repetition does no harm and needs no idempotency key."""
        path = f"/v1/leases/{part(lease.message.meta['lease'])}/{verb}"
        await self._client._send(Call("POST", path, body=body, idempotent=True, timeout=timeout))

    def _tell(self, settled: Settled) -> None:
        if "settled" in self._options:
            self._options["settled"](settled)


class AsyncConsumer(_Consuming):
    """AsyncClient.consume as an object, which stop() ends."""

    def __init__(self, client: AsyncClient, queue: str, handler: AsyncHandler, **options: Unpack[ConsumeOptions]) -> None:
        super().__init__(queue, options)
        self._given, self._handler = client, handler

    async def run(self) -> None:
        await self._consume(self._given)

    async def _handle(self, message: Message) -> None:
        await self._handler(message)

    def _cut(self, handling: asyncio.Task[None]) -> None:
        super()._cut(handling)
        handling.cancel()


class Consumer(_Consuming):
    """Client.consume as an object, which stop() ends. Handlers run in threads; a loop of its own leases and settles."""

    def __init__(self, client: Client, queue: str, handler: Handler, **options: Unpack[ConsumeOptions]) -> None:
        if inspect.iscoroutinefunction(handler):  # its messages would be acked without it having run
            raise TypeError("handler: it is a coroutine function; AsyncClient runs those")
        super().__init__(queue, options)
        self._given, self._handler = client, handler

    def run(self) -> None:
        with ThreadPoolExecutor(self._concurrency, "grapnel-consumer") as self._threads:
            asyncio.run(self._run())

    async def _run(self) -> None:
        from ._async import AsyncClient  # not above, because it imports this module

        async with AsyncClient(self._given.server, ssl_context=self._given._context) as client:
            client._core = self._given._core  # the key, and the budget of repetitions
            await self._consume(client)

    async def _handle(self, message: Message) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, self._handler, message)


def outcome(error: BaseException | None) -> Literal["ack", "nack", "reject"]:
    return "ack" if error is None else "reject" if isinstance(error, Reject) else "nack"


def reason(error: BaseException | None) -> str:
    if error is None:
        return ""
    text = (str(error) or type(error).__name__).replace("\0", "")
    return text if len(text) <= LONGEST_REASON else text[: LONGEST_REASON - 1] + "…"


def final(error: ApiError | Unreachable) -> bool:
    """Says whether asking again gives the same answer."""
    return isinstance(error, ApiError) and 300 <= error.status < 500 and error.status not in (408, 409, 425, 429)


def over(error: ApiError | Unreachable) -> bool:
    """Says whether a lease has expired, is settled, or is unknown to the server."""
    return isinstance(error, ApiError) and error.status in (404, 409, 410)


def remaining(until: str, date: str | None) -> float:
    """Seconds that are left of a lease. The clocks may differ: the answer has the server's time in whole seconds, rounded
    down."""
    now = time.time()
    server = parsedate_to_datetime(date).timestamp() if date else now
    if not 0 <= now - server <= 3:
        now = server + 0.5
    return datetime.fromisoformat(until).timestamp() - now


def jittered(seconds: float) -> float:
    """Between four fifths of a time and all of it, so that many consumers do not ask at the same instant."""
    return seconds * (1 - random.random() / 5)


def after(pause: float, error: Exception | None) -> float:
    """A jittered pause, but not shorter than the server asks for."""
    return max(jittered(pause), error.retry_after if isinstance(error, ApiError) else 0)


def duration(seconds: float) -> str:
    return f"{round(seconds * 1000)}ms"
