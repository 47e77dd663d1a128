"""Sending one request over HTTP/1.1, blocking and for asyncio, with connections that are used again."""

from __future__ import annotations

import asyncio
import http.client
import io
import os
import select
import ssl
import time
from urllib.parse import urlsplit

from ._http import Answer, Request, Unreachable

IDLE = 16  # connections that are kept for the next request
LARGEST_HEAD = 256 << 10  # bytes of an answer's status and header


class Transport:
    """Sends requests and blocks; it may be used by several threads."""

    def __init__(self, server: str, context: ssl.SSLContext | None) -> None:
        self._server, self._url, self._context = server, urlsplit(server), context
        self._idle: list[http.client.HTTPConnection] = []
        self._process = os.getpid()

    def send(self, request: Request, seconds: float) -> Answer:
        end = time.monotonic() + seconds
        connection = self._connection(end)
        whole = False
        try:
            self._until(connection, end)
            connection.request(request.method, request.target, request.body, request.headers)
            response = connection.getresponse()
            parts: list[bytes] = []
            while piece := response.read1(1 << 20):
                parts.append(piece)
                self._until(connection, end)
            if response.length:  # read1 takes the end of the connection for the end of the answer
                raise http.client.IncompleteRead(b"".join(parts), response.length)
            whole = not response.will_close
            response.close()  # one without a body is not closed by reading it, and the connection would stay taken
            return Answer(response.status, response.headers, b"".join(parts))
        except (OSError, http.client.HTTPException) as error:
            raise Unreachable(self._server, reason(error)) from None
        finally:
            if whole and len(self._idle) < IDLE:
                self._idle.append(connection)
            else:
                connection.close()

    def rest(self, seconds: float) -> None:
        time.sleep(seconds)

    def close(self) -> None:
        while (connection := self._kept()) is not None:
            connection.close()

    def _connection(self, end: float) -> http.client.HTTPConnection:
        if self._process != os.getpid():  # after a fork the connections are the parent's
            self._process, self._idle = os.getpid(), []
        while (connection := self._kept()) is not None:
            if connection.sock is not None and not select.select([connection.sock], [], [], 0)[0]:
                return connection
            connection.close()  # the server has closed it
        port = self._url.port
        host = self._url.hostname or ""
        connection = http.client.HTTPConnection(host, port)
        if self._url.scheme == "https":
            connection = http.client.HTTPSConnection(host, port, context=self._context)
        connection.timeout = max(end - time.monotonic(), 0.001)
        try:
            connection.connect()
        except OSError as error:
            connection.close()
            raise Unreachable(self._server, reason(error), sent=False) from None
        return connection

    def _kept(self) -> http.client.HTTPConnection | None:
        try:
            return self._idle.pop()
        except IndexError:  # not asked before, because another thread may take the last one in between
            return None

    def _until(self, connection: http.client.HTTPConnection, end: float) -> None:
        if connection.sock is not None:  # it is None once the last byte has come
            connection.sock.settimeout(max(end - time.monotonic(), 0.001))


class AsyncTransport:
    """Sends requests for asyncio. A cancelled request closes its connection."""

    def __init__(self, server: str, context: ssl.SSLContext | None) -> None:
        self._server, self._url, self._context = server, urlsplit(server), context
        self._idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        self._owner: object = None

    async def send(self, request: Request, seconds: float) -> Answer:
        sent = False
        writer: asyncio.StreamWriter | None = None
        keep = False
        try:
            async with asyncio.timeout(seconds):
                reader, writer = await self._connection()
                sent = True
                answer, keep = await self._exchange(reader, writer, request)
                keep = keep and len(self._idle) < IDLE
                if keep:
                    self._idle.append((reader, writer))
                return answer
        except (OSError, EOFError, ValueError, asyncio.LimitOverrunError, http.client.HTTPException) as error:
            raise Unreachable(self._server, reason(error), sent) from None
        finally:
            if writer is not None and not keep:
                writer.transport.abort()

    async def rest(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def close(self) -> None:
        while self._idle:
            _, writer = self._idle.pop()
            writer.transport.abort()

    async def _connection(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        owner = (os.getpid(), asyncio.get_running_loop())
        if self._owner != owner:  # connections belong to one loop of one process
            self._owner, self._idle = owner, []
        while self._idle:
            reader, writer = self._idle.pop()
            if not reader.at_eof() and not writer.is_closing():
                return reader, writer
            writer.transport.abort()  # the server has closed it
        tls = (self._context or ssl.create_default_context()) if self._url.scheme == "https" else None
        port = self._url.port or (443 if tls else 80)
        return await asyncio.open_connection(self._url.hostname, port, ssl=tls, limit=LARGEST_HEAD)

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: Request) -> tuple[Answer, bool]:
        """Gives the answer, and whether the connection can be used again."""
        headers = {"Host": self._url.netloc, **request.headers}
        if request.body is not None or request.method != "GET":
            headers["Content-Length"] = str(len(request.body or b""))
        head = "".join([f"{request.method} {request.target} HTTP/1.1\r\n", *(f"{k}: {v}\r\n" for k, v in headers.items()), "\r\n"])
        writer.write(head.encode("ascii") + (request.body or b""))
        await writer.drain()
        while True:
            line, _, fields = (await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")
            version, _, rest = line.partition(b" ")
            status = int(rest[:3])
            if status >= 200:  # 1xx announce an answer
                break
        given = http.client.parse_headers(io.BytesIO(fields))
        keep = version == b"HTTP/1.1" and "close" not in (given.get("Connection") or "").lower()
        if status in (204, 304):
            body = b""
        elif "chunked" in (given.get("Transfer-Encoding") or "").lower():
            body = await self._chunks(reader)
        elif (length := given.get("Content-Length")) is not None:
            body = await reader.readexactly(int(length))
        else:
            body, keep = await reader.read(), False
        return Answer(status, given, body), keep

    async def _chunks(self, reader: asyncio.StreamReader) -> bytes:
        parts: list[bytes] = []
        while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
            parts.append((await reader.readexactly(size + 2))[:-2])
        while await reader.readuntil(b"\r\n") != b"\r\n":  # trailers
            pass
        return b"".join(parts)


def reason(error: Exception) -> str:
    return "it did not come in time" if isinstance(error, TimeoutError) else str(error) or type(error).__name__
