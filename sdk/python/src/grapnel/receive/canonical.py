"""Keys without ids, and keys for others: the canonical form of JSON, and idempotency keys."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import TypeAlias, cast

MAX_DEPTH = 64


class Number(str):
    """A number as it was written: 1.0, 1e0 and 9007199254740993 keep their digits."""


class Members(list[tuple[str, "Json"]]):
    """The members of an object in their order; two can have one name."""


Json: TypeAlias = "Members | list[Json] | Number | str | bool | None"


def _constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


def parse(body: bytes) -> Json:
    """Reads JSON, and keeps how numbers were written and all members."""
    try:
        value = json.loads(
            body.decode("utf-8"), parse_int=Number, parse_float=Number, parse_constant=_constant, object_pairs_hook=Members
        )
    except RecursionError as error:
        raise ValueError("the JSON is too deep") from error
    return cast(Json, value)


def canonical(body: bytes, ignore: Iterable[str] = ()) -> bytes:
    """The canonical form without the ignored paths (``$.created_at``, ``$.items[*].attempt``, ``$["odd name"]``)."""
    value = parse(body)
    for path in ignore:
        remove(value, _path(path))
    return _write(value, 0).encode("utf-8")


PART = re.compile(r"""\.(?P<name>[^.\[\]"'*\s]+)|\.(?P<all>\*)|\[(?P<index>\*|\d+)\]|\[(?P<quoted>"(?:[^"\\]|\\.)*")\]""")


def _path(path: str) -> list[str | int | None]:
    """The parts of a path: a member's name, an element's index, None for all of them."""
    parts: list[str | int | None] = []
    at = 1
    while at < len(path) and path[0] == "$" and (found := PART.match(path, at)):
        name, index, quoted = found["name"], found["index"], found["quoted"]
        parts.append(name or (int(index) if index and index != "*" else json.loads(quoted) if quoted else None))
        at = found.end()
    if not parts or at < len(path):
        raise ValueError(f'ignored path {path!r}: use members and elements, for example $.data.at, $.items[*].at or $["odd name"]')
    return parts


def remove(value: Json, path: Sequence[str | int | None]) -> None:
    part, rest = path[0], path[1:]
    if isinstance(value, Members):
        chosen = [n for n, (name, _) in enumerate(value) if part in (None, name)]
    elif isinstance(value, list):
        chosen = [n for n in range(len(value)) if part is None or part == n]
    else:
        return
    for n in reversed(chosen):
        if not rest:
            del value[n]
        else:
            remove(value[n][1] if isinstance(value, Members) else value[n], rest)


def _write(value: Json, depth: int) -> str:
    if isinstance(value, Number):
        return value
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, list) and depth >= MAX_DEPTH:
        raise ValueError(f"the JSON is deeper than {MAX_DEPTH} levels")
    if isinstance(value, Members):  # sorted by code points, which is the order of UTF-8's bytes
        members = sorted(value, key=lambda member: member[0])
        return "{" + ",".join(f"{_string(name)}:{_write(member, depth + 1)}" for name, member in members) + "}"
    if isinstance(value, list):
        elements = cast("list[Json]", value)
        return "[" + ",".join(_write(each, depth + 1) for each in elements) + "]"
    return "null" if value is None else "true" if value else "false"


def _string(text: str) -> str:
    """The shortest escapes; a surrogate without its partner stays escaped, because UTF-8 cannot have it."""
    return re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", json.dumps(text, ensure_ascii=False))


def idempotency_key(source: str, event: str, step: str) -> str:
    """The key of one step of an event for a service further down: the same in every attempt and every language."""
    text = b"grapnel:idempotency:1\n"
    for part in (source, event, step):
        data = part.encode("utf-8")
        text += b"%d:%s\n" % (len(data), data)
    return "idk_" + hashlib.sha256(text).hexdigest()[:32]
