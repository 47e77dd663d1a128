"""Both consumers against the real server."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from grapnel_server import KEY, Request, proxy, serve

from grapnel.client import ApiError, AsyncClient, AsyncConsumer, Client, Consumer, LeaseLost, Message, Reject, RetryAfter, Settled
from grapnel.client._consume import after


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve(tmp_path_factory.mktemp("grapnel")) as address:
        yield address


@pytest.fixture
def client(server: str) -> Iterator[Client]:
    with Client(server, KEY) as client:
        yield client


class Consuming:
    """Runs a consumer of one kind. Handlers are plain functions in both: the one for asyncio awaits them in a thread."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.consumer: Any = None

    def __call__(self, address: str, queue: str, handler: Callable[[Message], None], retries: int = 2, **options: Any) -> None:
        if self.kind == "blocking":
            with Client(address, KEY, retries=retries) as client:
                self.consumer = Consumer(client, queue, handler, **options)
                self.consumer.run()
            return

        async def handle(message: Message) -> None:
            await asyncio.to_thread(handler, message)

        async def run() -> None:
            async with AsyncClient(address, KEY, retries=retries) as client:
                self.consumer = AsyncConsumer(client, queue, handle, **options)
                await self.consumer.run()

        asyncio.run(run())


@pytest.fixture(params=["blocking", "asyncio"])
def consume(request: pytest.FixtureRequest) -> Consuming:
    return Consuming(request.param)


def make_queue(client: Client, name: str, messages: int) -> str:
    """Makes a queue whose messages come again at once, with one message for each number."""
    policy = {"schedule": {"mode": "since_previous", "delays": ["0s", "1ms"], "tail": "repeat"}, "max_attempts": 20, "breaker": False}
    body = {"name": name, "event_types": [name], "lease": "1s", "ordering": "none", "policy": policy}
    client.call("POST", "/v1/queues", body=body)
    if messages:
        client.publish_batch([{"type": name, "data": n} for n in range(messages)])
    return name


def leased(client: Client, queue: str) -> int:
    return int(client.call("GET", f"/v1/queues/{queue}")["leased"])


def test_200_messages_while_connections_are_cut(server: str, client: Client, consume: Consuming) -> None:
    queue = make_queue(client, f"cut_{consume.kind}", 200)
    handled: Counter[int] = Counter()
    asked = 0

    def fault(request: Request) -> str | None:
        nonlocal asked
        asked += 1  # a message whose answer was cut comes again when its lease has expired
        return "cut-after" if asked % 23 == 0 else "cut-before" if asked % 11 == 0 and request.verb != "next" else None

    def settled(_: Settled) -> None:
        if len(handled) == 200 and client.call("GET", f"/v1/queues/{queue}")["ready"] == 0:
            consume.consumer.stop()

    with proxy(server, fault) as (address, _):
        consume(address, queue, lambda m: handled.update([m.json()]), concurrency=8, wait=1, settled=settled, retries=0)
    assert len(handled) == 200
    assert asked > 400


def test_outcomes_by_what_the_handler_does(server: str, client: Client, consume: Consuming) -> None:
    queue = make_queue(client, f"outcomes_{consume.kind}", 1)
    settled: list[Settled] = []
    attempts: list[int] = []

    def handle(message: Message) -> None:
        attempts.append(message.meta["attempt"])
        assert message.text == "0"
        if len(attempts) == 1:
            raise RetryAfter(0, "in a moment")
        if len(attempts) == 2:
            raise ValueError("x" * 600)
        raise Reject("no such invoice")

    consume(server, queue, handle, count=3, wait=1, consumer="tests", settled=settled.append)
    assert attempts == [1, 2, 3]
    assert [(s.outcome, len(s.reason), s.error) for s in settled] == [("nack", 11, None), ("nack", 500, None), ("reject", 15, None)]
    assert next(client.dead_letters.list({"type": queue}))["reason_code"] == "rejected"


def test_a_lease_is_extended_while_the_handler_runs(server: str, client: Client, consume: Consuming) -> None:
    queue = make_queue(client, f"slow_{consume.kind}", 1)
    settled: list[Settled] = []
    extended = 0
    enough = threading.Event()

    def fault(request: Request) -> None:
        nonlocal extended
        extended += request.verb == "extend"
        if extended == 4:  # halves of a second
            enough.set()

    with proxy(server, fault) as (address, _):
        consume(address, queue, lambda _: bool(enough.wait()) and None, count=1, wait=1, settled=settled.append)
    assert [(s.outcome, s.message.meta["attempt"], s.error) for s in settled] == [("ack", 1, None)]


def test_a_handler_learns_that_its_lease_is_lost(server: str, client: Client) -> None:
    """The coroutine is cancelled; a handler in a thread sees it in the message."""
    settled: list[Settled] = []
    lost = threading.Event()

    def end(message: Message) -> None:
        client.call("POST", f"/v1/leases/{message.meta['lease']}/ack")

    def handle(message: Message) -> None:
        end(message)
        while not message.cut:
            client.call("GET", "/v1/whoami")

    Consuming("blocking")(server, make_queue(client, "lost_blocking", 1), handle, count=1, wait=1, settled=settled.append)

    async def run() -> None:
        async def coroutine(message: Message) -> None:
            await asyncio.to_thread(end, message)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                assert message.cut
                lost.set()
                raise

        async with AsyncClient(server, KEY) as there:
            await there.consume(make_queue(client, "lost_asyncio", 1), coroutine, count=1, wait=1, settled=settled.append)

    asyncio.run(run())
    assert lost.is_set()
    assert [type(s.error) for s in settled] == [LeaseLost, LeaseLost]


def test_a_signal_lets_handlers_finish(server: str, client: Client, consume: Consuming) -> None:
    queue = make_queue(client, f"signal_{consume.kind}", 2)
    settled: list[Settled] = []

    def handle(_: Message) -> None:
        os.kill(os.getpid(), signal.SIGTERM)
        client.call("GET", "/v1/whoami")

    consume(server, queue, handle, wait=30, signals=[signal.SIGTERM], settled=settled.append)
    assert [(s.outcome, s.error) for s in settled] == [("ack", None)]
    assert leased(client, queue) == 0


def test_after_drain_handlers_are_cut_off(server: str, client: Client, consume: Consuming) -> None:
    queue = make_queue(client, f"drain_{consume.kind}", 1)
    settled: list[Settled] = []

    def handle(message: Message) -> None:
        consume.consumer.stop()
        while not message.cut:
            client.call("GET", "/v1/whoami")
        raise InterruptedError("cut off")

    consume(server, queue, handle, drain=0, settled=settled.append)
    assert [(s.outcome, s.error) for s in settled] == [("nack", None)]
    assert leased(client, queue) == 0


def test_cancelling_lets_coroutines_finish_and_cancelling_twice_does_not(server: str, client: Client) -> None:
    settled: list[Settled] = []

    async def run(twice: bool) -> None:
        begun = asyncio.Event()
        finish = asyncio.Event()

        async def handle(_: Message) -> None:
            begun.set()
            await finish.wait()

        async with AsyncClient(server, KEY) as there:
            queue = make_queue(client, f"cancel_{twice}", 1)
            task = asyncio.create_task(there.consume(queue, handle, settled=settled.append))
            await begun.wait()
            task.cancel()
            await asyncio.sleep(0)
            if twice:
                task.cancel()
            else:
                finish.set()
            with pytest.raises(asyncio.CancelledError):
                await task

    asyncio.run(run(False))
    asyncio.run(run(True))
    assert [s.outcome for s in settled] == ["ack", "nack"]


def test_a_stop_ends_a_question_that_waits(server: str, client: Client, consume: Consuming) -> None:
    queue = make_queue(client, f"quiet_{consume.kind}", 0)
    trouble: list[Exception] = []

    def fault(_: Request) -> dict[str, Any]:
        consume.consumer.stop()
        enough.wait()
        return {"status": 204}

    enough = threading.Event()
    with proxy(server, fault) as (address, seen):
        consume(address, queue, lambda _: None, wait=60, trouble=trouble.append)
        enough.set()
    assert len(seen) == 1
    assert not trouble


def test_what_asking_again_cannot_change_is_raised(server: str, client: Client, consume: Consuming) -> None:
    with pytest.raises(ApiError) as refused:
        consume(server, "none", lambda _: None, concurrency=3)
    assert refused.value.code == "not_found"


def test_a_coroutine_is_no_handler_of_the_blocking_consumer(client: Client) -> None:
    """It would be acked without having run."""

    async def handle(_: Message) -> None:
        raise AssertionError

    with pytest.raises(TypeError, match="AsyncClient"):
        client.consume("orders", handle)  # type: ignore[arg-type]


def test_a_pause_is_not_shorter_than_the_server_asks_for() -> None:
    pauses = [after(0.2, ApiError(503, {}, 7)), after(0.2, None), after(10, ApiError(503, {}, 7))]
    assert pauses[0] == 7
    assert 0.16 <= pauses[1] <= 0.2
    assert 8 <= pauses[2] <= 10


def test_trouble_is_told_and_the_server_asked_again(server: str, client: Client, consume: Consuming) -> None:
    queue = make_queue(client, f"trouble_{consume.kind}", 1)
    troubles: list[Exception] = []
    answers = [{"status": 503}, "cut-before"]
    with proxy(server, lambda _: answers.pop(0) if answers else None) as (address, seen):
        consume(address, queue, lambda _: None, count=1, wait=1, trouble=troubles.append, retries=0)
    assert [type(one).__name__ for one in troubles] == ["ApiError", "Unreachable"]
    assert [one.verb for one in seen] == ["next", "next", "next", "ack"]
