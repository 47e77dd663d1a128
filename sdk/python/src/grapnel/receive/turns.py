"""Turns: one transaction of an SQLite database at a time.

SQLite has one writer, and those that find it busy ask again and again: by chance one of them waits until its time is up.
The requests of a process wait in the order in which they came instead.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import deque
from typing import Any

from .store import Locked


class Turns:
    """``take`` waits for a turn at most wait_ms and raises Locked after that; ``give`` passes it on."""

    def __init__(self, asynchronous: bool) -> None:
        self._asynchronous = asynchronous
        self._turn = threading.Lock()  # of threads: whose turn it is
        # Of coroutines, whose loops may run in several threads: guards these two. Its
        # holder may enter again: the collector of garbage ends an abandoned waiter wherever it runs.
        self._lock = threading.RLock()
        self._taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def take(self, wait_ms: int) -> Any:
        if not self._asynchronous:
            if not self._turn.acquire(timeout=wait_ms / 1000):
                raise Locked()
            return None
        with self._lock:
            if not self._taken:
                self._taken = True
                return None
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
        return self._wait(turn, wait_ms / 1000)

    def give(self) -> None:
        if not self._asynchronous:
            self._turn.release()
            return
        with self._lock:
            while self._waiting:
                if self._pass(self._waiting.popleft()):
                    return
            self._taken = False

    def _pass(self, turn: asyncio.Future[None]) -> bool:
        """False: nobody waits for this one any more, and its loop may be closed."""
        loop = turn.get_loop()
        if loop is not asyncio.get_running_loop():
            try:
                loop.call_soon_threadsafe(self._grant, turn)
            except RuntimeError:  # closed
                return False
        elif turn.done():
            return False
        else:
            turn.set_result(None)
        return True

    def _grant(self, turn: asyncio.Future[None]) -> None:
        if turn.done():  # cancelled, or too late
            self.give()
        else:
            turn.set_result(None)

    async def _wait(self, turn: asyncio.Future[None], seconds: float) -> None:
        timer = turn.get_loop().call_later(seconds, _expire, turn)
        try:
            await turn
        except BaseException:
            with self._lock, contextlib.suppress(ValueError):  # so a turn is on its way to a loop that still runs, or to none
                self._waiting.remove(turn)
            if turn.done() and not turn.cancelled() and turn.exception() is None:  # cancelled after the turn had come
                self.give()
            raise
        finally:
            timer.cancel()


def _expire(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_exception(Locked())
