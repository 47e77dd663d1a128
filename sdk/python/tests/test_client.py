"""Both clients against the real server: what sdk/clients.json says of repetitions, and the story of an event."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import json
import os
import pathlib
import pickle
import re
import signal
import socket
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from grapnel_server import KEY, SDK, Request, closed, listen, proxy, serve

from grapnel.client import ApiError, AsyncClient, Client, Reject, RetryAfter, Unreachable

CASES = json.loads((SDK / "clients.json").read_text())["cases"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serve(tmp_path_factory.mktemp("grapnel")) as address:
        yield address


class Blocked:
    """The client for asyncio with the methods of the blocking one, so that both play the same tests."""

    def __init__(self, of: Any, loop: asyncio.AbstractEventLoop) -> None:
        self._of, self._loop = of, loop

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._of, name)
        if not callable(value):
            return value if isinstance(value, str) else Blocked(value, self._loop)

        def call(*args: Any, **more: Any) -> Any:
            given = value(*args, **more)
            return self._each(given) if inspect.isasyncgen(given) else self._loop.run_until_complete(given)

        return call

    def _each(self, items: Any) -> Iterator[Any]:
        with contextlib.suppress(StopAsyncIteration):
            while True:
                yield self._loop.run_until_complete(anext(items))


Maker = Callable[..., Any]


@pytest.fixture(params=["blocking", "asyncio"])
def make(request: pytest.FixtureRequest) -> Iterator[Maker]:
    """Makes clients of one kind."""
    loop = asyncio.new_event_loop()
    made: list[Any] = []

    def maker(*args: Any, rests: list[float] | None = None, **options: Any) -> Any:
        client: Any = Client(*args, **options) if request.param == "blocking" else AsyncClient(*args, **options)
        if rests is not None:

            def rest(seconds: float) -> None:
                rests.append(seconds)

            async def rest_async(seconds: float) -> None:
                rests.append(seconds)

            client._transport.rest = rest if request.param == "blocking" else rest_async
        made.append(client if request.param == "blocking" else Blocked(client, loop))
        return made[-1]

    yield maker
    for client in made:
        client.close()
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()


@pytest.mark.parametrize("case", CASES, ids=[case["name"] for case in CASES])
def test_when_a_request_is_repeated(server: str, make: Maker, case: dict[str, Any], request: pytest.FixtureRequest) -> None:
    answers = list(case.get("answers", []))
    client = make(server, KEY)
    kind = "case." + "".join(c if c.isalnum() else "_" for c in request.node.name)[-60:]
    endpoint = client.endpoints.create({"url": "http://127.0.0.1:1/", "event_types": ["none"]})["id"]
    rests: list[float] = []
    error: Exception | None = None
    with proxy(server, lambda _: answers.pop(0) if answers else case.get("always")) as (address, seen):
        there = make(closed() if case.get("closed") else address, KEY, rests=rests)
        for n in range(case.get("times", 1)):
            before = len(seen)
            try:
                if case["call"] == "publish":
                    there.publish({"type": kind, "data": n})
                elif case["call"] == "update":
                    there.endpoints.update(endpoint, {"description": case["name"]})
                else:
                    assert there.endpoints.get(endpoint)["id"] == endpoint
            except (ApiError, Unreachable) as raised:
                error = raised
            keys = {one.headers["Idempotency-Key"] for one in seen[before:]}
            assert len(keys) == (0 if case.get("closed") else 1)
            assert (None in keys) == (case["call"] != "publish" and not case.get("closed"))
        there.close()
    if expected := case.get("error"):
        assert type(error).__name__ == expected["kind"]
        names = {"status": "status", "code": "code", "retryAfter": "retry_after", "requestId": "request_id"}
        for name in expected.keys() & names.keys():
            assert getattr(error, names[name]) == expected[name]
        assert str(error) == expected.get("message", str(error))
        if fields := expected.get("fields"):
            assert isinstance(error, ApiError) and [vars(field) for field in error.fields] == fields
        assert error is not None and KEY not in "".join(traceback.format_exception(error)) + repr(vars(error))
    else:
        assert error is None
    assert len(seen) == case["tries"]
    if "rests" in case:
        assert len(rests) == len(case["rests"])
        for (least, most), rest in zip(case["rests"], rests, strict=True):
            assert least <= rest <= most
    assert len(list(client.events.list({"type": kind}))) == case["stored"]


def test_from_publishing_to_a_replay(server: str, make: Maker, request: pytest.FixtureRequest) -> None:
    accepts = True
    got: list[tuple[str, Any]] = []
    client = make(server, KEY)
    story = "story_" + request.node.callspec.id
    first = "evt_" + story

    def sink(one: Request) -> tuple[int, dict[str, str], bytes]:
        if accepts:
            got.append((one.headers["webhook-id"], json.loads(one.body)["data"]))
        return (204 if accepts else 400), {}, b""

    def until(holds: Callable[[], bool]) -> None:
        """Asks the server until a condition holds; each question is a request, so this goes at the server's pace."""
        for _ in range(5000):
            if holds():
                return
            client.call("GET", "/v1/whoami")
        raise AssertionError("it never came to hold")

    def dead() -> list[Any]:
        return list(client.dead_letters.list({"endpoint": endpoint["id"], "limit": 1}))  # two pages

    with listen(sink) as address:
        policy = {"schedule": {"mode": "since_previous", "delays": ["0s"]}, "classify": {"400": "fail"}}
        endpoint = client.endpoints.create({"url": address, "event_types": [story + ".*"], "policy": policy})
        assert endpoint["secret"].startswith("whsec_")
        assert client.publish({"type": story + ".one", "data": 1, "id": first})["deliveries"] == 1
        assert client.publish({"type": story + ".one", "data": 1, "id": first})["duplicate"]
        assert client.events.get(first)["type"] == story + ".one"
        until(lambda: len(got) == 1)
        assert got == [(first, 1)]

        accepts = False
        events = [{"type": story + ".two", "data": 2}, {"type": "not a type", "data": 0}, {"type": story + ".two", "data": 3}]
        results = client.publish_batch(events)
        assert isinstance(results[1], ApiError) and results[1].fields[0].pointer == "/events/1/type"
        until(lambda: len(dead()) == 2)

        accepts = True
        one = dead()[0]
        again = client.dead_letters.retry(one["id"], "they fixed it")
        assert again["replay_of"] == one["id"]
        until(lambda: len(got) == 2)
        until(lambda: client.deliveries.get(again["id"])["status"] == "delivered")
        assert client.replays.plan(endpoint["id"])["total"] == 1
        replay = client.replays.start(endpoint["id"], {"rate": 1000})
        states = list(client.replays.watch(replay["id"], every=0.01))
        assert states[-1]["status"] == "completed"
        assert next(client.replays.list({"endpoint": endpoint["id"]}))["id"] == replay["id"]
        until(lambda: len(got) == 3)
        assert len(list(client.deliveries.list({"endpoint": endpoint["id"], "limit": 2}))) == 5

        assert client.endpoints.pause(endpoint["id"], "they deploy")["status"] == "paused"
        assert client.endpoints.resume(endpoint["id"])["status"] == "enabled"
        assert client.endpoints.rotate_secret(endpoint["id"], {"overlap": "1h"})["secret"] != endpoint["secret"]
        assert client.endpoints.test(endpoint["id"], {"type": story + ".test"})["endpoint_id"] == endpoint["id"]
        assert client.endpoints.update(endpoint["id"], {"description": story})["description"] == story
        assert any(one["id"] == endpoint["id"] for one in client.endpoints.list())
        assert "#" in client.portal_links.create("default", {"expires_in": "5m"})["url"]
        client.portal_links.revoke("default")
        client.endpoints.delete(endpoint["id"], "the story ends")
        with pytest.raises(ApiError) as refused:
            client.endpoints.get(endpoint["id"])
        assert refused.value.code == "not_found" and refused.value.request_id.startswith("req_")


def test_a_key_shows_in_no_error_and_not_in_the_client(make: Maker) -> None:
    assert KEY not in repr(Client("http://127.0.0.1:1", KEY)._core)
    for arguments in [("http://127.0.0.1", KEY + "\n"), (f"http://{KEY}@127.0.0.1",), (f"http://user:{KEY}@127.0.0.1",), (KEY,)]:
        with pytest.raises(ValueError, match="^(server|Authorization): ") as error:
            make(*arguments)
        assert KEY not in str(error.value)


def test_errors_cross_processes() -> None:
    """Pools of processes and task queues pickle them."""
    problem = {"code": "invalid", "detail": "it is wrong", "errors": [{"pointer": "/a", "detail": "is wrong"}], "request_id": "req_1"}
    for error in [ApiError(422, problem, 3), Unreachable("http://127.0.0.1:1", "it is away", sent=False), RetryAfter(3, "later"), Reject("no")]:
        copy = pickle.loads(pickle.dumps(error))
        assert (str(copy), vars(copy)) == (str(error), vars(error))


def test_a_call_ends_in_its_time(make: Maker) -> None:
    ended = threading.Event()

    def silent(_: Request) -> None:
        ended.wait()

    with listen(silent) as address:
        with pytest.raises(Unreachable, match="did not come in time"):
            make(address, timeout=0.05).publish({"type": "a", "data": 1})
        ended.set()


def test_a_name_cannot_lead_to_another_route(server: str, make: Maker) -> None:
    client = make(server, KEY)
    for id in ["", ".", ".."]:
        with pytest.raises(ValueError):
            client.endpoints.get(id)
    for path in ["/v1/../keys", "/v1/endpoints?x=1", "v1/events", "/v1/a b"]:
        with pytest.raises(ValueError, match="is not the path of a route"):
            client.call("GET", path)
    with pytest.raises(ApiError):
        client.endpoints.get("../keys")


def test_an_answer_in_chunks_and_one_that_the_end_closes(make: Maker) -> None:
    """The server sends lengths; a proxy in front of it may not."""
    heads = [b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\n"]
    bodies = [b'4;x=y\r\n[1, \r\n2\r\n2]\r\n0\r\nTrailer: x\r\n\r\n', b"[1, 2]"]
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            for head, body in zip(heads, bodies, strict=True):
                connection = listener.accept()[0]
                with connection:
                    while b"\r\n\r\n" not in connection.recv(1 << 16):
                        pass
                    connection.sendall(head + body)

        thread = threading.Thread(target=answer)
        thread.start()
        client = make(f"http://127.0.0.1:{listener.getsockname()[1]}")
        assert [client.call("GET", "/v1/list") for _ in heads] == [[1, 2], [1, 2]]
        thread.join()


def test_threads_share_a_client(server: str) -> None:
    client = Client(server, KEY)

    def publish(n: int) -> str:
        return client.publish({"type": "threads", "data": n, "id": f"evt_thread_{n}"})["id"]

    with ThreadPoolExecutor(32) as threads:
        assert list(threads.map(publish, range(600))) == [f"evt_thread_{n}" for n in range(600)]
    assert 0 < len(client._transport._idle) <= 16
    client.close()


def test_tasks_share_a_client_and_it_keeps_few_connections(server: str) -> None:
    async def run() -> None:
        async with AsyncClient(server, KEY) as client:

            async def publish(n: int) -> str:
                return (await client.publish({"type": "tasks", "data": n, "id": f"evt_task_{n}"}))["id"]

            assert await asyncio.gather(*map(publish, range(100))) == [f"evt_task_{n}" for n in range(100)]
            assert 0 < len(client._transport._idle) <= 16
        open_ones = [t for t in map(str, asyncio.all_tasks()) if "publish" in t]
        assert not open_ones

    before = len(os.listdir("/proc/self/fd"))
    asyncio.run(run())
    assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.parametrize("answer", [b"", b"\r\n\r\n", b"HTTP/1.1\r\n\r\n", b"HTTP/1.1 x\r\n\r\n", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{}"])
def test_what_is_no_answer_is_unreachable(make: Maker, answer: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve_one() -> None:
            with listener.accept()[0] as connection:
                while b"\r\n\r\n" not in connection.recv(1 << 16):
                    pass
                connection.sendall(answer)

        thread = threading.Thread(target=serve_one)
        thread.start()
        with pytest.raises(Unreachable):
            make(f"http://127.0.0.1:{listener.getsockname()[1]}", retries=0).call("GET", "/v1/whoami")
        thread.join()


def test_after_a_fork_a_child_opens_connections_of_its_own(server: str, tmp_path: pathlib.Path) -> None:
    client = Client(server, KEY)
    client.publish({"type": "forked", "data": 0})
    child = os.fork()
    if child == 0:
        for n in range(20):
            (tmp_path / "seen").write_text(client.publish({"type": "forked.child", "data": n, "id": f"evt_child_{n}"})["id"])
        os._exit(0)
    for n in range(20):
        assert client.publish({"type": "forked", "data": n, "id": f"evt_parent_{n}"})["id"] == f"evt_parent_{n}"
    assert os.waitpid(child, 0)[1] == 0
    assert (tmp_path / "seen").read_text() == "evt_child_19"
    client.close()


def test_the_programs_of_the_readmes_part_about_the_api_run(server: str) -> None:
    part = (SDK / "python/README.md").read_text().split("\n## Calling the API\n")[1].split("\n## ")[0]
    publish, consume = re.findall(r"^```python\n(.*?)^```", part, flags=re.S | re.M)
    environment = {**os.environ, "GRAPNEL_SERVER": server, "GRAPNEL_KEY": KEY, "PYTHONPATH": str(SDK / "python/src")}

    def start(program: str) -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-B", "-W", "error", "-c", program], env=environment, stdout=subprocess.PIPE, text=True)

    with Client(server, KEY) as client, listen(lambda _: (400, {}, b"")) as refusing:
        client.endpoints.create({"url": refusing, "event_types": ["invoice.*"], "policy": {"classify": {"400": "fail"}}})
        client.publish({"type": "invoice.paid", "data": 0})
        while not list(client.dead_letters.list({"type": "invoice.paid"})):
            pass  # each question is a request, so this goes at the server's pace
        with start(publish) as program:
            assert program.stdout and program.wait() == 0
            assert re.match(r"evt_\w+ is durable and goes to 1 endpoints\ndlv_\w+: .+\n", program.stdout.read())

        client.call("POST", "/v1/queues", body={"name": "orders", "event_types": ["order.*"]})
        event = client.publish({"type": "order.made", "data": {"id": "ord_1"}})["id"]
        with start(consume) as program:
            assert program.stdout and program.stdout.readline() == f"{event}: order ord_1\n"
            program.send_signal(signal.SIGTERM)
            assert program.wait() == 0
        assert client.call("GET", "/v1/queues/orders")["leased"] == 0


def test_written_files_are_those_of_the_servers_document() -> None:
    done = subprocess.run([sys.executable, SDK / "generate.py", "--check", "python"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
