"""One algorithm for sync and async: generators that yield results or awaitables.

A step function writes ``rows = yield connection.execute(...)``. With a sync driver the call has happened and its result
is sent in again; with an async driver the call returned an awaitable, which ``arun`` awaits first. So the order of
claims, handlers and commits is written once.
"""

from __future__ import annotations

import inspect
from collections.abc import Generator
from typing import Any, TypeVar

T = TypeVar("T")
Steps = Generator[Any, Any, T]


def run(steps: Steps[T]) -> T:
    """Runs steps whose calls are all sync."""
    try:
        value = next(steps)
        while True:
            value = steps.send(value)
    except StopIteration as end:
        result: T = end.value
        return result


async def arun(steps: Steps[T]) -> T:
    """Runs steps whose calls may return awaitables. An error or a cancellation is raised inside the steps."""
    try:
        value = next(steps)
        while True:
            try:
                if inspect.isawaitable(value):
                    value = await value
            except BaseException as error:
                value = steps.throw(error)
            else:
                value = steps.send(value)
    except StopIteration as end:
        result: T = end.value
        return result
