"""Each framework as it is, with a hook as its view: raw body, limit, method, answer."""

import contextlib
import http.client
import sys
import threading
import types
from collections.abc import Callable, Iterator
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

import httpx
import pytest
import worlds
from worlds import World, signed

from grapnel.receive import AsyncReceiver, Receiver, web

# Sends a request and returns status, outcome and headers.
Send = Callable[[str, bytes, dict[str, str]], tuple[int, str | None]]
LIMIT = 1 << 16


def hook_of(world: World, bodies: list[bytes]) -> Any:
    return world.hook("claim", lambda d: bodies.append(d.body), max_body=LIMIT)


def wsgi(world: World, bodies: list[bytes]) -> Iterator[Send]:
    class Quiet(WSGIRequestHandler):
        def log_message(self, *_: Any) -> None: ...

    with make_server("127.0.0.1", 0, web.wsgi(hook_of(world, bodies)), handler_class=Quiet) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()

        def send(method: str, body: bytes, headers: dict[str, str]) -> tuple[int, str | None]:
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.server_port)) as connection:
                connection.request(method, "/hooks", body, headers)
                answer = connection.getresponse()
                answer.read()
                return answer.status, answer.headers["webhook-outcome"]

        yield send
        server.shutdown()
        thread.join()


def flask(world: World, bodies: list[bytes]) -> Iterator[Send]:
    from flask import Flask

    app = Flask("test")
    app.post("/hooks")(web.flask(hook_of(world, bodies)))

    def send(method: str, body: bytes, headers: dict[str, str]) -> tuple[int, str | None]:
        answer = app.test_client().open("/hooks", method=method, data=body, headers=headers)
        return answer.status_code, answer.headers.get("webhook-outcome")

    yield send


def _asgi(world: World, app: Any) -> Send:
    async def ask(method: str, body: bytes, headers: dict[str, str]) -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://test") as client:
            return await client.request(method, "/hooks", content=body, headers=headers)

    def send(method: str, body: bytes, headers: dict[str, str]) -> tuple[int, str | None]:
        import asyncio

        with contextlib.ExitStack() as ending:
            runner = world.runner or ending.enter_context(asyncio.Runner())
            answer = runner.run(ask(method, body, headers))
        return answer.status_code, answer.headers.get("webhook-outcome")

    return send


def asgi(world: World, bodies: list[bytes]) -> Iterator[Send]:
    yield _asgi(world, web.asgi(hook_of(world, bodies)))


def starlette(world: World, bodies: list[bytes]) -> Iterator[Send]:
    from starlette.applications import Starlette

    app = Starlette()
    app.add_route("/hooks", web.starlette(hook_of(world, bodies)), methods=["POST"])
    yield _asgi(world, app)


def fastapi(world: World, bodies: list[bytes]) -> Iterator[Send]:
    from fastapi import FastAPI

    app = FastAPI()
    app.post("/hooks")(web.starlette(hook_of(world, bodies)))
    yield _asgi(world, app)


def django(world: World, bodies: list[bytes]) -> Iterator[Send]:
    from django.test import Client, override_settings
    from django.urls import path

    urls: Any = types.ModuleType("urls_of_a_test")
    urls.urlpatterns = [path("hooks", web.django(hook_of(world, bodies)))]
    sys.modules[urls.__name__] = urls
    settings = {"ROOT_URLCONF": urls.__name__, "MIDDLEWARE": ["django.middleware.csrf.CsrfViewMiddleware"], "ALLOWED_HOSTS": ["*"]}
    with override_settings(**settings):

        def send(method: str, body: bytes, headers: dict[str, str]) -> tuple[int, str | None]:
            client = Client(enforce_csrf_checks=True)
            answer = client.generic(method, "/hooks", body, content_type="application/json", headers=headers)
            return answer.status_code, answer.headers.get("webhook-outcome")

        yield send


FRAMEWORKS = [
    ("memory", wsgi),
    ("memory", flask),
    ("django", django),
    ("memory-async", asgi),
    ("memory-async", starlette),
    ("memory-async", fastapi),
    ("memory", fastapi),
]


@pytest.mark.parametrize(("world", "framework"), FRAMEWORKS, indirect=["world"])
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # of anyio's streams in httpx's transport
def test_a_framework_serves_a_hook(world: World, framework: Any) -> None:
    bodies: list[bytes] = []
    with contextlib.contextmanager(framework)(world, bodies) as send:

        def post(event: str, body: bytes, **how: Any) -> tuple[int, str | None]:
            request = signed(event, body, world.now, **how)
            return send("POST", body, dict(request.headers))

        raw = b' {"b":1,\n "a":\xff}'
        assert [post("evt_1", raw) for _ in range(2)] == [(200, "processed"), (200, "duplicate")]
        assert bodies == [raw]
        assert post("evt_2", raw, secret="whsec_YW5vdGhlci1zZWNyZXQtb2YtMjQtYnkh") == (401, "unverified")
        assert post("evt_2", b"x" * LIMIT) == (200, "processed")
        assert post("evt_3", b"x" * (LIMIT + 1)) == (413, "too_large")
        assert post("evt_4", b"") == (200, "processed")
        status, outcome = send("GET", b"", {})
        assert (status, outcome) == (405, None)


def test_a_form_that_flask_would_parse_is_read_raw() -> None:
    world = World(worlds.MemoryStore(test=True), False)
    bodies: list[bytes] = []
    for send in flask(world, bodies):
        headers = dict(signed("evt_1", b"a=1&b=2", world.now).headers) | {"content-type": "application/x-www-form-urlencoded"}
        assert send("POST", b"a=1&b=2", headers) == (200, "processed")
    assert bodies == [b"a=1&b=2"]
    world.store.close()


def test_a_view_refuses_the_hook_of_the_other_kit() -> None:
    async def handle(d: Any) -> None: ...

    store = worlds.MemoryStore(test=True)
    source = worlds.StandardWebhooks("acme", worlds.SECRET)
    sync, coroutine = Receiver(source, store).claim(lambda d: None), AsyncReceiver(source, store).claim(handle)
    for view in (web.wsgi, web.flask, web.django):
        with pytest.raises(TypeError, match="hook of Receiver"):
            view(coroutine)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="hook of AsyncReceiver"):
        web.asgi(sync)  # type: ignore[arg-type]
    store.close()


def test_a_handler_of_the_other_kind_is_refused_at_once() -> None:
    async def coroutine(d: Any) -> None: ...

    class Callable:
        async def __call__(self, d: Any) -> None: ...

    import functools

    store = worlds.MemoryStore(test=True)
    source = worlds.StandardWebhooks("acme", worlds.SECRET)
    for handler in (coroutine, Callable(), functools.partial(coroutine)):
        for mode in ("claim", "inbox"):
            with pytest.raises(TypeError, match="plain function"):
                getattr(Receiver(source, store), mode)(handler)
    with pytest.raises(TypeError, match="coroutine function"):
        AsyncReceiver(source, store).claim(lambda d: None)  # type: ignore[arg-type, return-value]
    with pytest.raises(TypeError, match="no transactions"):
        Receiver(source, store).transaction(lambda d, tx: None)
    hook = Receiver(source, store, clock=lambda: 1_790_000_000).claim(lambda d: coroutine(d))
    answer = hook.handle(signed("evt_1", b"{}", 1_790_000_000))
    assert answer.outcome == "retryable"
    store.close()
