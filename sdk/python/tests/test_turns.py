"""Turns are taken in order, end at their time, and are lost by no cancellation."""

import asyncio
import gc
import threading
from collections.abc import Awaitable, Callable

import pytest

from grapnel.receive.store import Locked
from grapnel.receive.turns import Turns


async def taken(turns: Turns, wait_ms: int = 10_000) -> None:
    if (wait := turns.take(wait_ms)) is not None:
        await wait


def in_a_loop(test: Callable[[], Awaitable[None]]) -> Callable[[], None]:
    return lambda: asyncio.run(test())  # type: ignore[arg-type]


@in_a_loop
async def test_turns_come_in_order() -> None:
    turns, order = Turns(True), list[int]()

    async def one(number: int) -> None:
        await taken(turns)
        order.append(number)
        await asyncio.sleep(0)
        turns.give()

    await asyncio.gather(*(one(number) for number in range(50)))
    assert order == list(range(50))


@in_a_loop
async def test_a_turn_that_does_not_come_is_locked() -> None:
    turns = Turns(True)
    await taken(turns)
    with pytest.raises(Locked):
        await taken(turns, 10)
    turns.give()
    await taken(turns, 10)


@in_a_loop
async def test_a_cancelled_wait_keeps_no_turn() -> None:
    turns = Turns(True)
    await taken(turns)
    early, late, last = (asyncio.create_task(taken(turns)) for _ in range(3))
    await asyncio.sleep(0)
    early.cancel()  # while it waits
    await asyncio.sleep(0)
    turns.give()  # to the second
    late.cancel()  # before it runs
    await last
    assert early.cancelled() and late.cancelled()
    soon, last = (asyncio.create_task(taken(turns)) for _ in range(2))
    await asyncio.sleep(0)
    soon.cancel()
    turns.give()  # before the first knows that it is cancelled
    await last


def test_a_turn_is_passed_to_another_loop() -> None:
    turns, waiting = Turns(True), threading.Event()

    async def other() -> None:
        wait = turns.take(10_000)
        waiting.set()
        await wait
        turns.give()

    async def first() -> None:
        await taken(turns)
        thread = threading.Thread(target=lambda: asyncio.run(other()))
        thread.start()
        await asyncio.to_thread(waiting.wait)
        turns.give()
        await asyncio.wait_for(asyncio.to_thread(thread.join), 9)  # and not at the end of the wait
        await taken(turns, 10)

    asyncio.run(first())


def test_a_wait_that_ended_with_its_loop_keeps_no_turn() -> None:
    turns = Turns(True)

    async def late() -> None:
        with pytest.raises(Locked):
            await taken(turns, 10)

    def abandoned() -> None:
        loop = asyncio.new_event_loop()
        loop.create_task(taken(turns))
        loop.run_until_complete(asyncio.sleep(0.01))
        loop.close()

    async def first(between: asyncio.Runner) -> None:
        await taken(turns)
        await asyncio.to_thread(between.run, late())  # this loop runs again later, or never
        await asyncio.to_thread(abandoned)
        turns.give()
        await taken(turns, 10)

    with asyncio.Runner() as between:
        asyncio.run(first(between))
    gc.collect()  # the abandoned task ends here, and in no other test


def test_threads_take_turns() -> None:
    turns = Turns(False)
    turns.take(10)
    with pytest.raises(Locked):
        turns.take(10)
    turns.give()
    turns.take(10)
