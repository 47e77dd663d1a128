"""Hooks as views of frameworks. Each reads the raw body up to the limit, and sends the kit's answer.

A framework is imported by the function that serves it, so none is needed for the others.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from http import HTTPStatus
from typing import Any

from .delivery import Request
from .outcome import Answer
from .receiver import AsyncHook, Hook

Headers = list[tuple[str, str]]
NOT_POST: tuple[int, Headers, bytes] = (405, [("allow", "POST"), ("content-length", "0")], b"")


def _must_be(hook: Hook | AsyncHook, asynchronous: bool, view: str) -> None:
    if hook.asynchronous is not asynchronous:
        raise TypeError(f"{view} takes a hook of {'AsyncReceiver' if asynchronous else 'Receiver'}, not {type(hook).__name__}")


def _http(answer: Answer) -> tuple[int, Headers, bytes]:
    body = answer.body
    return answer.status, [*answer.headers.items(), ("content-length", str(len(body)))], body


def _too_long(limit: int) -> bytes:
    """A body in place of one whose declared length is above the limit, so it need not be read."""
    return b" " * (limit + 1)


def wsgi(hook: Hook) -> Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]:
    """A WSGI application."""
    _must_be(hook, False, "wsgi")
    import wsgiref.util

    def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        method, limit = environ["REQUEST_METHOD"], hook.max_body
        status, sent, text = NOT_POST
        if method == "POST":
            length = int(environ.get("CONTENT_LENGTH") or (limit + 1 if environ.get("wsgi.input_terminated") else 0))
            chunked = not environ.get("CONTENT_LENGTH")
            body = environ["wsgi.input"].read(length) if length <= limit or chunked else _too_long(limit)
            headers = [(name[5:].replace("_", "-"), value) for name, value in environ.items() if name.startswith("HTTP_")]
            headers.append(("content-type", environ.get("CONTENT_TYPE", "")))
            status, sent, text = _http(hook.handle(Request(body, headers, method, wsgiref.util.request_uri(environ))))
        start_response(f"{status} {HTTPStatus(status).phrase}", sent)
        return [text]

    return application


def asgi(hook: AsyncHook) -> Callable[[Any, Any, Any], Awaitable[None]]:
    """An ASGI application."""
    _must_be(hook, True, "asgi")

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            raise RuntimeError(f"scope {scope['type']} is not http; mount the application at a path of its own")
        status, sent, text = NOT_POST
        if scope["method"] == "POST":
            body, more = b"", True
            while more and len(body) <= hook.max_body:
                message = await receive()
                if message["type"] == "http.disconnect":  # the sender left before the end of the body
                    return
                body += message.get("body", b"")
                more = message.get("more_body", False)
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
            host = next((value for name, value in headers if name == "host"), "")
            path = (scope.get("raw_path") or scope["path"].encode()).decode("latin-1").partition("?")[0]
            query = scope.get("query_string", b"").decode("latin-1")
            url = f"{scope.get('scheme', 'http')}://{host}{path}{'?' if query else ''}{query}"
            status, sent, text = _http(await hook.handle(Request(body, headers, "POST", url)))
        raw = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in sent]
        await send({"type": "http.response.start", "status": status, "headers": raw})
        await send({"type": "http.response.body", "body": text})

    return application


async def _read(chunks: AsyncIterator[bytes], limit: int) -> bytes:
    """The body, or its beginning if that is longer than the limit."""
    body = bytearray()
    async for chunk in chunks:
        body += chunk
        if len(body) > limit:
            break
    return bytes(body)


def starlette(hook: Hook | AsyncHook) -> Callable[[Any], Awaitable[Any]]:
    """An endpoint of Starlette or FastAPI: ``app.add_route("/hooks", starlette(hook), methods=["POST"])``.

    A hook of the sync kit runs in the thread pool.
    """
    from starlette import requests
    from starlette.concurrency import run_in_threadpool
    from starlette.responses import Response

    async def endpoint(request: Any) -> Any:
        body = await _read(request.stream(), hook.max_body)
        received = Request(body, request.headers.items(), request.method, str(request.url))
        answer = await run_in_threadpool(hook.handle, received) if isinstance(hook, Hook) else await hook.handle(received)
        status, sent, text = _http(answer)
        return Response(text, status, dict(sent))

    # FastAPI makes parameters by their annotations, and cannot evaluate the text of a local name.
    endpoint.__annotations__ = {"request": requests.Request, "return": Response}
    return endpoint


def flask(hook: Hook) -> Callable[[], Any]:
    """A view of Flask: ``app.post("/hooks")(flask(hook))``."""
    _must_be(hook, False, "flask")
    from flask import Response, request

    def webhook() -> Any:
        long = (request.content_length or 0) > hook.max_body
        body = _too_long(hook.max_body) if long else request.get_data(parse_form_data=False)
        status, sent, text = _http(hook.handle(Request(body, list(request.headers.items()), request.method, request.url)))
        return Response(text, status, sent)

    return webhook


def django(hook: Hook) -> Callable[[Any], Any]:
    """A view of Django: ``path("hooks/", django(hook))``. It is exempt from CSRF and from ATOMIC_REQUESTS."""
    _must_be(hook, False, "django")
    from django.db import transaction
    from django.http import HttpResponse
    from django.views.decorators.csrf import csrf_exempt
    from django.views.decorators.http import require_POST

    def webhook(request: Any) -> Any:
        long = int(request.META.get("CONTENT_LENGTH") or 0) > hook.max_body
        body = _too_long(hook.max_body) if long else request.body
        received = Request(body, list(request.headers.items()), request.method, request.build_absolute_uri())
        status, sent, text = _http(hook.handle(received))
        return HttpResponse(text, status=status, headers=dict(sent))

    view: Callable[[Any], Any] = transaction.non_atomic_requests(csrf_exempt(require_POST(webhook)))
    return view
