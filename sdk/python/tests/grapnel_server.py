"""What the tests of the client talk to: the real server, a proxy with faults in front of it, and a sink."""

from __future__ import annotations

import contextlib
import http.client
import http.server
import json
import os
import pathlib
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlsplit

SDK = pathlib.Path(__file__).resolve().parents[2]
KEY = "grp_key_of_the_tests_of_the_client"


@contextlib.contextmanager
def serve(directory: pathlib.Path) -> Iterator[str]:
    """Builds the server and starts it on loopback."""
    build = ["go", "build", "-trimpath", "-gcflags=all=-dwarf=false", "-o", directory / "grapnel", "./cmd/grapnel"]
    subprocess.run(build, cwd=SDK.parent, env={**os.environ, "CGO_ENABLED": "0"}, check=True)
    command = [directory / "grapnel", "serve", "--listen", "127.0.0.1:0", "--store", f"sqlite:{directory}/grapnel.db"]
    with subprocess.Popen(
        [*command, "--egress-allow", "127.0.0.0/8"],
        env={**os.environ, "GRAPNEL_ADMIN_KEY": KEY}, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as server:  # fmt: skip
        try:
            assert server.stdout
            line = server.stdout.readline()
            assert " at " in line, "the server did not start"
            yield line.rsplit(" ", 1)[1].strip()
        finally:
            server.kill()


class Request:
    def __init__(self, handler: http.server.BaseHTTPRequestHandler) -> None:
        self.method, self.path, self.headers = handler.command, handler.path, handler.headers
        self.body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))

    @property
    def verb(self) -> str:
        """Of a request about a lease: next, ack, nack, reject or extend."""
        return self.path.partition("?")[0].rsplit("/", 1)[1]


Answer = tuple[int, dict[str, str], bytes]


@contextlib.contextmanager
def listen(answer: Callable[[Request], Answer | None]) -> Iterator[str]:
    """A server on loopback; None closes the connection without an answer."""

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one_request(self) -> None:
            with contextlib.suppress(ConnectionError):
                super().handle_one_request()
                return
            self.close_connection = True

        def serve_one(self) -> None:
            given = answer(Request(self))
            if given is None:
                self.close_connection = True
                return
            status, headers, body = given
            self.send_response_only(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if status != 204:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = do_PATCH = do_DELETE = serve_one

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.socket.close()


@contextlib.contextmanager
def proxy(server: str, fault: Callable[[Request], Any]) -> Iterator[tuple[str, list[Request]]]:
    """A proxy that notes each request, and asks fault what to do with it: cut-before, cut-after, an answer, or None."""
    seen: list[Request] = []
    host = urlsplit(server).netloc

    def handle(request: Request) -> Answer | None:
        seen.append(request)
        what = fault(request)
        if isinstance(what, dict):
            body = what.get("body", "")
            text = body if isinstance(body, str) else json.dumps(body)
            return what["status"], what.get("headers", {}), text.encode()
        if what == "cut-before":
            return None
        with contextlib.closing(http.client.HTTPConnection(host)) as connection:
            connection.request(request.method, request.path, request.body, dict(request.headers))
            response = connection.getresponse()
            headers = {k: v for k, v in response.getheaders() if k.lower() not in ("connection", "transfer-encoding", "content-length")}
            answer = response.status, headers, response.read()
        return None if what == "cut-after" else answer

    with listen(handle) as address:
        yield address, seen


def closed() -> str:
    """An address where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"http://127.0.0.1:{server.getsockname()[1]}"
