"""The two kits: ``Receiver`` for sync handlers and ``AsyncReceiver`` for coroutines. Both run the steps of ``kit.Core``."""

from __future__ import annotations

import asyncio
import functools
import inspect
import threading
import time
from collections.abc import Awaitable, Callable
from typing import Any

from .delivery import Delivery, Request
from .inbox import Inbox, OrderingKey
from .kit import Core, Options, Result, log
from .outcome import Answer, Outcome
from .sources import Source
from .steps import Steps, arun, run
from .store import Bid, Letter, Store

Mode = Callable[[Delivery, Bid], Steps[Result]]


def is_async(handler: Callable[..., Any]) -> bool:
    while isinstance(handler, functools.partial):
        handler = handler.func
    return inspect.iscoroutinefunction(handler) or inspect.iscoroutinefunction(getattr(handler, "__call__", None))


class SyncIo:
    """Waits in the thread of the request; a lease is renewed in a thread that ends with the handler."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def sleep(self, seconds: float) -> None:
        threading.Event().wait(seconds)

    def call(self, handler: Callable[..., Any], args: tuple[Any, ...], timeout: float) -> None:
        result = handler(*args)
        if inspect.isawaitable(result):
            if inspect.iscoroutine(result):
                result.close()
            raise TypeError("the handler returned an awaitable, which a sync kit cannot wait for; use AsyncReceiver")

    def hold(self, call: Callable[[], Any], renew: Callable[[], Steps[None]], every: float, timeout: float) -> None:
        ended, until = threading.Event(), time.monotonic() + timeout

        def beat() -> None:
            # A thread cannot be stopped, so the lease of a handler that hangs is no longer renewed after its timeout.
            while not ended.wait(every) and time.monotonic() < until:
                try:
                    run(renew())
                except Exception:  # a store that does not answer has not taken the claim away
                    log.warning("renewal of a lease failed; retrying", exc_info=True)
            self._store.leave_thread()

        beats = threading.Thread(target=beat, name="grapnel-lease", daemon=True)
        beats.start()
        try:
            call()
        finally:
            ended.set()
            beats.join()


class AsyncIo:
    """Waits in the event loop. A handler is cancelled at its timeout."""

    def sleep(self, seconds: float) -> Awaitable[None]:
        return asyncio.sleep(seconds)

    async def call(self, handler: Callable[..., Any], args: tuple[Any, ...], timeout: float) -> None:
        async with asyncio.timeout(timeout):  # before Python 3.12 asyncio.wait_for makes a task for each handler
            await handler(*args)

    async def hold(self, call: Callable[[], Any], renew: Callable[[], Steps[None]], every: float, timeout: float) -> None:
        ended = asyncio.Event()

        async def beat() -> None:
            while True:
                try:
                    async with asyncio.timeout(every):  # before Python 3.12 asyncio.wait_for may lose a cancellation
                        await ended.wait()
                    return
                except TimeoutError:
                    pass
                try:
                    await arun(renew())
                except Exception:
                    log.warning("renewal of a lease failed; retrying", exc_info=True)

        beats = asyncio.create_task(beat())
        try:
            await call()
        finally:
            ended.set()
            await beats  # not cancelled: a renewal on its way ends its transaction


def _check(core: Core, kind: str, handler: Callable[..., Any], asynchronous: bool) -> None:
    if is_async(handler) is not asynchronous:
        wanted, kit = ("a coroutine function", "Receiver") if asynchronous else ("a plain function", "AsyncReceiver")
        raise TypeError(f"handler {handler!r} must be {wanted}; for this one use {kit}")
    if (kind == "transaction" and not core.store.transactions) or (kind == "inbox" and not core.store.inbox):
        raise TypeError(f"{type(core.store).__name__} has no {kind}s; use the mode claim")


def _mode(core: Core, kind: str, handler: Callable[..., Any], asynchronous: bool) -> Mode:
    _check(core, kind, handler, asynchronous)
    return functools.partial(core.transactional if kind == "transaction" else core.claimed, handler=handler)


class Hook:
    """The receiver of one source in one mode; ``grapnel.receive.web`` makes views of it."""

    asynchronous = False

    def __init__(self, core: Core, mode: Mode) -> None:
        self._core, self._mode = core, mode
        self.max_body = core.options.max_body

    def handle(self, request: Request) -> Answer:
        return run(self._core.answer(request, self._mode))

    def replay(self, event: str) -> Outcome:
        """Runs the handler for a dead letter. Raises NotDead if there is none, or if another replay runs."""
        return run(self._core.replay(event, self._mode))


class InboxHook(Hook):
    """A hook that stores requests; ``work`` runs the handler for them."""

    def __init__(self, core: Core, inbox: Inbox) -> None:
        super().__init__(core, inbox.accept)
        self._inbox = inbox

    def replay(self, event: str) -> Outcome:
        """Lets the workers attempt a dead request again. Raises NotDead if there is none."""
        run(self._inbox.revive(event, "ready"))
        return Outcome.ACCEPTED

    def skip(self, event: str) -> None:
        """Gives up a dead request, so that an ordering key that it stops goes on."""
        run(self._inbox.revive(event, "done"))

    def work_one(self) -> bool:
        """Runs the handler for the oldest request that is ready. False: none is."""
        return run(self._inbox.work_one())

    def work(self, stop: threading.Event, idle: float = 0.2) -> None:
        """Works until stop is set, and looks again after ``idle`` seconds when no request is ready.

        A handler that calls ``sys.exit`` ends its attempt, and no worker outside of the main thread, where a signal may
        ask the program to end.
        """
        while not stop.is_set():
            try:
                if not self.work_one():
                    stop.wait(idle)
            except SystemExit:
                if threading.current_thread() is threading.main_thread():
                    raise
                log.warning("a handler called sys.exit; the worker goes on", exc_info=True)
            except Exception:
                log.warning("looking for requests in the inbox failed; retrying", exc_info=True)
                stop.wait(idle)


class Receiver:
    """The kit for sync handlers: ``Receiver(source, store, window=…)``, and the other ``Options``."""

    def __init__(self, source: Source, store: Store, **options: Any) -> None:
        self._core = Core(source, store, Options(**options), SyncIo(store))

    def transaction(self, handler: Callable[[Delivery, Any], object]) -> Hook:
        """The handler gets the delivery and the transaction, which commits with the key."""
        mode = _mode(self._core, "transaction", handler, False)
        return Hook(self._core, mode)

    def claim(self, handler: Callable[[Delivery], object]) -> Hook:
        """The handler runs under a lease; for effects outside of the database."""
        mode = _mode(self._core, "claim", handler, False)
        return Hook(self._core, mode)

    def inbox(
        self, handler: Callable[[Delivery], object], *, ordering_key: OrderingKey | None = None, on_exhausted: str = "skip"
    ) -> InboxHook:
        """Requests are answered once they are stored, and ``InboxHook.work`` runs the handler."""
        _check(self._core, "inbox", handler, False)
        return InboxHook(self._core, Inbox(self._core, handler, ordering_key, on_exhausted))

    def dead_letters(self, after: str = "", limit: int = 100) -> list[Letter]:
        return run(self._core.dead_letters(after, limit))

    def clean(self) -> int:
        """Deletes the keys that are no longer retained. Call it from time to time, such as once an hour."""
        return run(self._core.clean())

    def create_tables(self) -> None:
        run(self._core.create_tables())


class AsyncHook:
    """The receiver of one source in one mode, for ASGI."""

    asynchronous = True

    def __init__(self, core: Core, mode: Mode) -> None:
        self._core, self._mode = core, mode
        self.max_body = core.options.max_body

    async def handle(self, request: Request) -> Answer:
        return await arun(self._core.answer(request, self._mode))

    async def replay(self, event: str) -> Outcome:
        """Runs the handler for a dead letter. Raises NotDead if there is none, or if another replay runs."""
        return await arun(self._core.replay(event, self._mode))


class AsyncInboxHook(AsyncHook):
    """A hook that stores requests; ``work`` runs the handler for them."""

    def __init__(self, core: Core, inbox: Inbox) -> None:
        super().__init__(core, inbox.accept)
        self._inbox = inbox

    async def replay(self, event: str) -> Outcome:
        """Lets the workers attempt a dead request again. Raises NotDead if there is none."""
        await arun(self._inbox.revive(event, "ready"))
        return Outcome.ACCEPTED

    async def skip(self, event: str) -> None:
        """Gives up a dead request, so that an ordering key that it stops goes on."""
        await arun(self._inbox.revive(event, "done"))

    async def work_one(self) -> bool:
        """Runs the handler for the oldest request that is ready. False: none is."""
        return await arun(self._inbox.work_one())

    async def work(self, idle: float = 0.2) -> None:
        """Works until its task is cancelled. A handler that raises ``CancelledError`` itself ends its attempt only."""
        task = asyncio.current_task()
        while True:
            try:
                if not await self.work_one():
                    await asyncio.sleep(idle)
            except asyncio.CancelledError:
                if task is None or task.cancelling():
                    raise
                log.warning("a handler was cancelled; the worker goes on", exc_info=True)
            except Exception:
                log.warning("looking for requests in the inbox failed; retrying", exc_info=True)
                await asyncio.sleep(idle)


class AsyncReceiver:
    """The kit for coroutines, with the same options as ``Receiver``."""

    def __init__(self, source: Source, store: Store, **options: Any) -> None:
        self._core = Core(source, store, Options(**options), AsyncIo())

    def transaction(self, handler: Callable[[Delivery, Any], Awaitable[object]]) -> AsyncHook:
        """The handler gets the delivery and the transaction, which commits with the key."""
        mode = _mode(self._core, "transaction", handler, True)
        return AsyncHook(self._core, mode)

    def claim(self, handler: Callable[[Delivery], Awaitable[object]]) -> AsyncHook:
        """The handler runs under a lease; for effects outside of the database."""
        mode = _mode(self._core, "claim", handler, True)
        return AsyncHook(self._core, mode)

    def inbox(
        self, handler: Callable[[Delivery], Awaitable[object]], *, ordering_key: OrderingKey | None = None, on_exhausted: str = "skip"
    ) -> AsyncInboxHook:
        """Requests are answered once they are stored, and ``AsyncInboxHook.work`` runs the handler."""
        _check(self._core, "inbox", handler, True)
        return AsyncInboxHook(self._core, Inbox(self._core, handler, ordering_key, on_exhausted))

    async def dead_letters(self, after: str = "", limit: int = 100) -> list[Letter]:
        return await arun(self._core.dead_letters(after, limit))

    async def clean(self) -> int:
        """Deletes the keys that are no longer retained. Call it from time to time, such as once an hour."""
        return await arun(self._core.clean())

    async def create_tables(self) -> None:
        await arun(self._core.create_tables())
