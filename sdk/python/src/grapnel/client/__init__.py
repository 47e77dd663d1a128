"""Calls the API of a Grapnel server: publishes events, manages endpoints, replays, and consumes queues.

``Client`` blocks, ``AsyncClient`` is for asyncio; both have the same methods. ``types`` has the objects of the API as
TypedDicts. Only the standard library is needed.
"""

from . import types
from ._async import AsyncClient
from ._consume import AsyncConsumer, Consumer, ConsumeOptions, LeaseLost, Message, Reject, RetryAfter, Settled
from ._http import DEFAULT_SERVER, ApiError, Field, Unreachable
from ._sync import Client

__all__ = [
    "DEFAULT_SERVER",
    "ApiError",
    "AsyncClient",
    "AsyncConsumer",
    "Client",
    "ConsumeOptions",
    "Consumer",
    "Field",
    "LeaseLost",
    "Message",
    "Reject",
    "RetryAfter",
    "Settled",
    "Unreachable",
    "types",
]
