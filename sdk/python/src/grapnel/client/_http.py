"""What the client for asyncio and the blocking one share: requests, errors, and when a request is repeated."""

from __future__ import annotations

import json
import random
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPMessage
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from .. import __version__

DEFAULT_SERVER = "http://127.0.0.1:8420"

FIRST_PAUSE = 0.2  # seconds; before the nth repetition at most FIRST_PAUSE * 2**(n-1)
MAX_PAUSE = 5.0  # seconds; if the server asks for more, its error is raised
RESERVE = 10  # repetitions at once after a quiet period


@dataclass(frozen=True)
class Field:
    """One invalid field of a request."""

    pointer: str
    detail: str


class ApiError(Exception):
    """The server refused a call. ``code`` is stable, to switch on; it is empty if a proxy answered."""

    def __init__(self, status: int, problem: Mapping[str, Any], retry_after: float = 0) -> None:
        super().__init__(status, problem, retry_after)  # what a copy in another process is made of
        self.status = status
        self.code = str(problem.get("code") or "")
        self.title = str(problem.get("title") or "")
        self.detail = str(problem.get("detail") or "")
        errors: list[Mapping[str, Any]] = problem.get("errors") or []
        self.fields = [Field(str(one.get("pointer")), str(one.get("detail"))) for one in errors]
        self.request_id = str(problem.get("request_id") or "")
        self.retry_after = retry_after  # seconds, from the server; 0: it asked for no pause

    def __str__(self) -> str:
        said = [text for f in self.fields if (text := f"{f.pointer}: {f.detail}") not in self.detail]
        return "; ".join([self.detail or self.title or f"the server answered {self.status}", *said])


class Unreachable(Exception):
    """No answer came, so whether the call took effect is unknown, unless ``sent`` is false."""

    def __init__(self, server: str, reason: str, sent: bool = True) -> None:
        super().__init__(server, reason, sent)
        self.server = server
        self.reason = reason
        self.sent = sent

    def __str__(self) -> str:
        return f"no answer from {self.server}: {self.reason}"


@dataclass(frozen=True)
class Call:
    """One request, which may be sent several times."""

    method: str
    path: str
    query: Mapping[str, Any] | None = None
    body: object = None  # sent as JSON, bytes as they are
    content_type: str = "application/octet-stream"  # of bytes
    idempotency_key: str | None = None
    idempotent: bool = False  # doing it twice comes to the same, without an idempotency key
    timeout: float | None = None  # seconds, with repetitions; None: the client's
    accept: str = "application/json, application/problem+json"


@dataclass(frozen=True)
class Request:
    method: str
    target: str
    headers: dict[str, str]
    body: bytes | None
    safe: bool  # doing it twice comes to the same


@dataclass(frozen=True)
class Answer:
    status: int
    headers: HTTPMessage  # names have no case
    body: bytes

    def json(self) -> Any:
        if not self.body:
            return None
        try:
            return json.loads(self.body)
        except ValueError:
            raise self.unreadable("is not JSON") from None

    def unreadable(self, why: str) -> ApiError:
        problem = {"code": "unreadable", "detail": f"the server's answer {why}", "request_id": self.headers.get("X-Request-Id")}
        return ApiError(self.status, problem)


@dataclass
class Core:
    """Makes requests, reads answers, and says when a request is repeated; it sends nothing."""

    server: str
    key: str | None
    timeout: float
    retries: int
    user_agent: str | None
    headers: dict[str, str] = field(init=False, repr=False)
    # A tenth is earned by each call, a whole one is spent by each repetition: once the reserve is used up, at most one in
    # ten requests is a repetition.
    tenths: int = field(init=False, default=RESERVE * 10)

    def __post_init__(self) -> None:
        url = urlsplit(self.server)
        if url.scheme not in ("http", "https") or not url.hostname or "@" in url.netloc or url.query or url.fragment:
            raise ValueError(f"server: it has to be a URL like {DEFAULT_SERVER}, without a user or password")
        self.server = f"{url.scheme}://{url.netloc}{url.path.rstrip('/')}"
        self.prefix = url.path.rstrip("/")
        self.headers = {"User-Agent": self.user_agent or f"grapnel-python/{__version__}"}
        if self.key:
            self.headers["Authorization"] = f"Bearer {self.key}"
        self.key = None  # so that it stands in one place
        printable(self.headers)

    def request(self, call: Call) -> Request:
        if not re.fullmatch(r"(/(?!\.+(/|$))[^/?#\x00-\x20\x7f-\U0010ffff]+)+", call.path):
            raise ValueError(f"{call.path!r} is not the path of a route: quote ids and names in it")
        headers = {**self.headers, "Accept": call.accept}
        body = None
        if isinstance(call.body, bytes):
            body, headers["Content-Type"] = call.body, call.content_type
        elif call.body is not None:
            body = json.dumps(call.body, allow_nan=False, ensure_ascii=False).encode()
            headers["Content-Type"] = "application/json"
        once = call.idempotency_key
        if once is None and call.method == "POST" and not call.idempotent:
            once = secrets.token_hex(16)
        if once is not None:
            headers["Idempotency-Key"] = once
        printable(headers)
        query = urlencode([(k, v) for k, v in (call.query or {}).items() if v is not None], doseq=True)
        target = self.prefix + call.path + (f"?{query}" if query else "")
        self.tenths = min(self.tenths + 1, RESERVE * 10)
        return Request(call.method, target, headers, body, call.method == "GET" or once is not None or call.idempotent)

    def good(self, answer: Answer) -> Answer:
        """Gives an answer below 300 and raises any other."""
        if answer.status < 300:
            return answer
        problem: dict[str, Any] = {"request_id": answer.headers.get("X-Request-Id")}
        if answer.status < 400:
            problem |= {"code": "redirect", "detail": f"the server redirects to {answer.headers.get('Location')}; use that address"}
            raise ApiError(answer.status, problem)
        try:
            given = json.loads(answer.body)
        except ValueError:  # a proxy on the way answers with a page of its own; then only the status is known
            given = None
        if isinstance(given, dict):
            problem |= given
        try:
            after = float(answer.headers.get("Retry-After") or 0)
        except ValueError:
            after = 0
        raise ApiError(answer.status, problem, after if 0 < after < 1e6 else 0)

    def pause(self, error: ApiError | Unreachable, tries: int, safe: bool, left: float) -> float | None:
        """Says how long to rest before a repetition; None: there is none. Full jitter; the server's pause is a minimum."""
        if tries > self.retries or not repeatable(error, safe):
            return None
        pause = random.random() * FIRST_PAUSE * (1 << tries - 1)
        if isinstance(error, ApiError):
            pause += error.retry_after
        if pause > MAX_PAUSE or pause > left or self.tenths < 10:
            return None
        self.tenths -= 10
        return pause


def repeatable(error: ApiError | Unreachable, safe: bool) -> bool:
    if isinstance(error, Unreachable):
        return safe or not error.sent
    if error.status == 429:  # turned away before anything was done
        return True
    # in flight: the first try is still being worked on; its answer will be there
    return safe and (error.status in (502, 503, 504) or error.status == 409 and error.code == "idempotency_in_flight")


def part(name: str) -> str:
    """Makes a part of a path of an id or name."""
    if not name.strip("."):
        raise ValueError(f"{name!r} is no id or name")
    return quote(name, safe="")


def printable(headers: Mapping[str, str]) -> None:
    """Refuses values that http.client would refuse with an error that names them, which for a key is the key."""
    for name, value in headers.items():
        if not re.fullmatch(r"[ -~]*", value):
            raise ValueError(f"{name}: its value has a line break or another character that is not printable ASCII")
