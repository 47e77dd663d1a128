"""The inbox on every database: stored before it is answered, in order for each ordering key, retried, replayed."""

import asyncio
import threading
from typing import Any

import pytest
from worlds import SQL, World

from grapnel.receive import NotDead, Permanent, Retryable, RetryAfter
from grapnel.receive.store import Locked

every_inbox = pytest.mark.parametrize("world", (*SQL, "memory", "memory-async"), indirect=True)


def work(world: World, hook: Any) -> int:
    """Runs what is ready, and returns how many handlers ran."""
    runs = 0
    while world.wait(hook.work_one()):
        runs += 1
    return runs


def by_data(d: Any) -> str:
    return str(d.json()["data"])


@every_inbox
def test_a_request_is_stored_once_and_handled_once(world: World) -> None:
    runs: list[str] = []
    hook = world.hook("inbox", lambda d: runs.append(d.id))
    assert [world.send(hook, "evt_1").outcome for _ in range(2)] == ["accepted", "duplicate"]
    assert world.send(hook, "evt_1", "another").outcome == "conflict"
    assert (work(world, hook), runs) == (1, ["evt_1"])
    assert world.send(hook, "evt_1").outcome == "duplicate"
    assert work(world, hook) == 0


@every_inbox
def test_events_of_one_key_run_in_the_order_of_their_arrival(world: World) -> None:
    runs: list[tuple[str, int]] = []
    errors = {"a1": [Retryable("not now")]}

    def handle(d: Any) -> None:
        runs.append((d.id, d.attempt))
        if errors.get(d.id):
            raise errors[d.id].pop()

    hook = world.hook("inbox", handle, ordering_key=by_data)
    for event in ("a1", "a2", "b1", "a3"):
        assert world.send(hook, event, event[0]).outcome == "accepted"
    assert (work(world, hook), runs) == (2, [("a1", 1), ("b1", 1)])
    world.now += 1
    assert (work(world, hook), runs[2:]) == (3, [("a1", 2), ("a2", 1), ("a3", 1)])


@every_inbox
def test_only_one_of_a_key_runs_at_a_time(world: World) -> None:
    found: list[bool] = []

    def handle(d: Any) -> Any:
        if d.id == "a1":
            found.append((yield hook.work_one()))

    hook = world.hook("inbox", handle, ordering_key=by_data)
    for event in ("a1", "a2"):
        world.send(hook, event, "a")
    assert world.wait(hook.work_one())
    assert found == [False]
    assert work(world, hook) == 1


@every_inbox
@pytest.mark.parametrize(("on_exhausted", "then"), [("block", []), ("skip", ["a2"])])
def test_a_dead_request_stops_its_key_or_is_skipped(world: World, on_exhausted: str, then: list[str]) -> None:
    runs: list[str] = []
    errors: list[Exception | None] = [RetryAfter(7, "not now"), Permanent("no such invoice"), None, None, None]

    def handle(d: Any) -> None:
        runs.append(d.id)
        if error := errors.pop(0):
            raise error

    hook = world.hook("inbox", handle, ordering_key=by_data, on_exhausted=on_exhausted)
    for event in ("a1", "a2"):
        world.send(hook, event, "a")
    assert work(world, hook) == 1
    world.now += 6.9
    assert work(world, hook) == 0
    world.now += 0.1
    work(world, hook)
    assert runs == ["a1", "a1", *then]
    assert world.send(hook, "a1", "a").outcome == "dead_lettered"
    assert world.wait(hook.replay("a1")) == "accepted"
    with pytest.raises(NotDead):
        world.wait(hook.replay("a1"))
    work(world, hook)
    assert sorted(runs) == ["a1", "a1", "a1", "a2"]
    assert world.send(hook, "a1", "a").outcome == "duplicate"


@every_inbox
def test_a_dead_request_can_be_given_up(world: World) -> None:
    runs: list[str] = []

    def handle(d: Any) -> None:
        runs.append(d.id)
        if d.id == "a1":
            raise Permanent("no such invoice")

    hook = world.hook("inbox", handle, ordering_key=by_data, on_exhausted="block")
    for event in ("a1", "a2"):
        world.send(hook, event, "a")
    assert work(world, hook) == 1
    world.wait(hook.skip("a1"))
    assert (work(world, hook), runs) == (1, ["a1", "a2"])
    with pytest.raises(NotDead):
        world.wait(hook.skip("a1"))


@every_inbox
def test_a_request_is_attempted_as_often_as_allowed(world: World) -> None:
    def handle(d: Any) -> None:
        raise Retryable("not now")

    kit = world.kit(max_deliveries=3)
    hook = kit.inbox(world.handler(handle))
    world.send(hook, "evt_1")
    runs = 0
    for _ in range(5):
        runs += work(world, hook)
        world.now += 300
    assert runs == 3
    (letter,) = world.wait(kit.dead_letters())
    assert (letter.key.id, letter.deliveries, letter.error) == ("evt_1", 3, "Retryable: not now")


@every_inbox
def test_the_request_of_a_worker_that_died_is_taken_over(world: World) -> None:
    """The second worker runs after the first one's lease, and the first one's end changes nothing."""
    runs: list[int] = []

    def handle(d: Any) -> Any:
        runs.append(d.attempt)
        if d.attempt == 1:
            world.now += 31
            taken.append((yield hook.work_one()))
            raise Permanent("too late")

    taken: list[bool] = []
    kit = world.kit()
    hook = kit.inbox(world.handler(handle))
    world.send(hook, "evt_1")
    assert work(world, hook) == 1
    assert (runs, taken) == ([1, 2], [True])
    assert world.wait(kit.dead_letters()) == []


@every_inbox
def test_an_ordering_key_that_cannot_be_made_is_malformed(world: World) -> None:
    hook = world.hook("inbox", lambda d: None, ordering_key=lambda d: d.json()["missing"])
    assert world.send(hook, "evt_1").outcome == "malformed"
    assert work(world, hook) == 0


@pytest.mark.parametrize("world", ("sqlite", "memory", "memory-async"), indirect=True)
def test_a_worker_outlives_a_handler_that_exits(world: World) -> None:
    runs: list[str] = []
    stop = threading.Event()
    ended = asyncio.CancelledError() if world.asynchronous else SystemExit(1)

    def handle(d: Any) -> None:
        runs.append(d.id)
        if d.id == "evt_1" and d.attempt == 1:
            raise ended
        stop.set()

    hook = world.hook("inbox", handle)
    for event in ("evt_1", "evt_2"):
        world.send(hook, event)
    if world.runner:

        async def both() -> None:
            worker = asyncio.create_task(hook.work(0.01))
            while not stop.is_set() and not worker.done():
                await asyncio.sleep(0.01)
            assert worker.cancel()

        world.runner.run(both())
    else:
        worker = threading.Thread(target=hook.work, args=(stop, 0.01))
        worker.start()
        worker.join(20)
    assert runs == ["evt_1", "evt_2"]
    world.now += 1
    assert (work(world, hook), runs) == (1, ["evt_1", "evt_2", "evt_1"])


@pytest.mark.parametrize("world", ["memory-async"], indirect=True)
def test_a_worker_ends_whenever_it_is_cancelled(world: World) -> None:
    async def cancelled(hook: Any, handled: asyncio.Event, steps: int) -> bool:
        worker = asyncio.create_task(hook.work(0.01))
        await handled.wait()
        for _ in range(steps):
            await asyncio.sleep(0)
        worker.cancel()
        done, _ = await asyncio.wait([worker], timeout=5)
        return bool(done)

    assert world.runner
    for steps in range(12):  # of the loop between the handler's end and the cancellation
        handled = asyncio.Event()
        hook = world.hook("inbox", lambda d, handled=handled: handled.set())
        world.send(hook, f"evt_{steps}")
        assert world.runner.run(cancelled(hook, handled, steps)), steps


@every_inbox
def test_the_end_of_an_attempt_is_stored_although_the_store_was_locked(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[str] = []
    unit, calls = world.store.unit, [0]

    def refusing(body: Any, wait_ms: int, limited: bool = True) -> Any:
        calls[0] += 1
        if calls[0] in (2, 3):  # the first takes the request, the second stores its end
            raise Locked()
        return (yield from unit(body, wait_ms, limited))

    hook = world.hook("inbox", lambda d: runs.append(d.id))
    world.send(hook, "evt_1")
    monkeypatch.setattr(world.store, "unit", refusing)
    assert world.wait(hook.work_one())
    world.now += 60
    assert (work(world, hook), runs) == (0, ["evt_1"])
