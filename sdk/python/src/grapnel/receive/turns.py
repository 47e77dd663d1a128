"""Turns: one transaction of an SQLite database at a time.

SQLite has one writer, and those that find it busy ask again and again: by chance one of them waits until its time is up.
The requests of a process wait in the order in which they came instead.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from typing import Any

from .store import Locked


class Turns:
    """``take`` waits for a turn at most wait_ms and raises Locked after that; ``give`` passes it on."""

    def __init__(self, asynchronous: bool) -> None:
        self._asynchronous = asynchronous
        self._turn = threading.Lock()  # of threads: whose turn it is
        self._lock = threading.Lock()  # of coroutines, whose loops may run in several threads: guards these two
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
            if not self._waiting:
                self._taken = False
                return
            turn = self._waiting.popleft()
        if turn.get_loop() is asyncio.get_running_loop():
            self._grant(turn)
        else:
            turn.get_loop().call_soon_threadsafe(self._grant, turn)

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
            if not turn.cancelled() and turn.exception() is None:  # cancelled after the turn had come
                self.give()
            raise
        finally:
            timer.cancel()


def _expire(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_exception(Locked())
