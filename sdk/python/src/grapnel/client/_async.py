"""The API as methods, for asyncio; make sdk writes the blocking client from it."""

# pyright: reportPrivateUsage=false
from __future__ import annotations

import builtins
import json
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from typing import Any, TypeVar, Unpack

from . import types
from ._consume import AsyncConsumer, AsyncHandler, ConsumeOptions
from ._http import DEFAULT_SERVER, Answer, ApiError, Call, Core, Unreachable, part
from ._transport import AsyncTransport

T = TypeVar("T")


class AsyncClient:
    """Calls one server. A call gives the server's answer, or raises ApiError with its code, fields and request id, or
    Unreachable. Every POST carries an Idempotency-Key, so a call whose answer was lost is repeated without doing its work
    twice. All durations are seconds.

    ``timeout`` limits one call with its repetitions, ``retries`` how often it is repeated.
    ``ssl_context`` is for a server whose certificate a private authority has signed.
    """

    def __init__(
        self,
        server: str = DEFAULT_SERVER,
        key: str | None = None,
        *,
        timeout: float = 30,
        retries: int = 2,
        user_agent: str | None = None,
        ssl_context: ssl.SSLContext | None = None,
    ) -> None:
        self._core = Core(server, key, timeout, retries, user_agent)
        self._context = ssl_context
        self._transport = AsyncTransport(self._core.server, ssl_context)
        self.server = self._core.server
        self.events = Events(self)
        self.endpoints = Endpoints(self)
        self.deliveries = Deliveries(self)
        self.dead_letters = DeadLetters(self)
        self.replays = Replays(self)
        self.portal_links = PortalLinks(self)

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes the connections that wait for a next call."""
        await self._transport.close()

    async def call(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, Any] | None = None,
        body: object = None,
        content_type: str = "application/octet-stream",
        idempotency_key: str | None = None,
    ) -> Any:
        """Calls any route of the API. A body of bytes is sent as it is, with its content type, any other as JSON."""
        answer = await self._send(Call(method, path, query, body, content_type, idempotency_key))
        return answer.json()

    async def publish(self, event: types.NewEvent, *, idempotency_key: str | None = None) -> types.Published:
        """Publishes an event. Once this returns, the event and all its deliveries are durable."""
        return await self._ask(types.Published, Call("POST", "/v1/events", body=event, idempotency_key=idempotency_key))

    async def publish_batch(
        self, events: builtins.list[types.NewEvent], *, idempotency_key: str | None = None
    ) -> builtins.list[types.Published | ApiError]:
        """Publishes up to 1000 events, which are committed together in the order given. A refused event does not prevent
        the others: there is an ApiError in its place."""
        answer = await self.call("POST", "/v1/events/batch", body={"events": events}, idempotency_key=idempotency_key)
        return [ApiError(one["status"], one) if "code" in one else one for one in answer["data"]]

    async def consume(self, queue: str, handler: AsyncHandler, **options: Unpack[ConsumeOptions]) -> None:
        """Leases messages from a queue and runs the handler for each, until it is cancelled, one of the signals comes, or
        asking again cannot help: the queue does not exist, or the key lacks the scope. Then it leases nothing more, and
        lets handlers finish for the time of drain. AsyncConsumer can be stopped from elsewhere too.

        A handler that returns acks its message. Reject makes the message a dead letter, RetryAfter returns it to the queue
        for a time, and any other exception returns it for the backoff of the queue's policy. A message comes at least once.
        """
        await AsyncConsumer(self, queue, handler, **options).run()

    async def _send(self, call: Call) -> Answer:
        request = self._core.request(call)
        end = time.monotonic() + (self._core.timeout if call.timeout is None else call.timeout)
        tries = 0
        while True:
            tries += 1
            try:
                return self._core.good(await self._transport.send(request, end - time.monotonic()))
            except (ApiError, Unreachable) as error:
                pause = self._core.pause(error, tries, request.safe, end - time.monotonic())
                if pause is None:
                    raise
            await self._transport.rest(pause)

    async def _ask(self, kind: type[T], call: Call) -> T:
        """Sends a call whose answer is of a kind."""
        answer: T = (await self._send(call)).json()
        return answer

    async def _order(self, kind: type[T], path: str, reason: str | None) -> T:
        """Sends an order with its reason, which is for the audit."""
        return await self._ask(kind, Call("POST", path, body={"reason": reason} if reason else None))

    async def _list(self, kind: type[T], path: str, query: Mapping[str, Any] | None) -> AsyncIterator[T]:
        cursor: Mapping[str, Any] = {}
        while True:
            page = await self.call("GET", path, query={**(query or {}), **cursor})
            for one in page["data"]:
                yield one
            if page["next"] is None:
                return
            cursor = {"cursor": page["next"]}


class Group:
    """Methods about one kind of object."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client


class Events(Group):
    async def get(self, id: str, query: types.GetEventQuery | None = None) -> types.Event:
        return await self._client._ask(types.Event, Call("GET", f"/v1/events/{part(id)}", query=query))

    def list(self, query: types.ListEventsQuery | None = None) -> AsyncIterator[types.Event]:
        """The newest first."""
        return self._client._list(types.Event, "/v1/events", query)


class Endpoints(Group):
    async def create(self, endpoint: types.NewEndpoint, *, idempotency_key: str | None = None) -> types.Endpoint:
        """Only this answer, and that of rotate_secret, shows the secret."""
        return await self._client._ask(types.Endpoint, Call("POST", "/v1/endpoints", body=endpoint, idempotency_key=idempotency_key))

    async def get(self, id: str) -> types.Endpoint:
        return await self._client._ask(types.Endpoint, Call("GET", f"/v1/endpoints/{part(id)}"))

    def list(self, query: types.ListEndpointsQuery | None = None) -> AsyncIterator[types.Endpoint]:
        return self._client._list(types.Endpoint, "/v1/endpoints", query)

    async def update(self, id: str, changes: types.EndpointPatch) -> types.Endpoint:
        """Sets the fields given; None resets one."""
        return await self._client._ask(types.Endpoint, Call("PATCH", f"/v1/endpoints/{part(id)}", body=changes))

    async def delete(self, id: str, reason: str | None = None) -> None:
        """Drops its pending deliveries too."""
        await self._client.call("DELETE", f"/v1/endpoints/{part(id)}", query={"reason": reason})

    async def pause(self, id: str, reason: str | None = None) -> types.Endpoint:
        """Holds its deliveries."""
        return await self._client._order(types.Endpoint, f"/v1/endpoints/{part(id)}/pause", reason)

    async def resume(self, id: str, reason: str | None = None) -> types.Endpoint:
        return await self._client._order(types.Endpoint, f"/v1/endpoints/{part(id)}/resume", reason)

    async def rotate_secret(self, id: str, rotation: types.NewRotation | None = None) -> types.Endpoint:
        """The old secret signs too until the overlap has passed."""
        return await self._client._ask(types.Endpoint, Call("POST", f"/v1/endpoints/{part(id)}/rotate-secret", body=rotation or {}))

    async def test(self, id: str, event: types.NewTest | None = None) -> types.Delivery:
        """Sends an event to this endpoint alone."""
        return await self._client._ask(types.Delivery, Call("POST", f"/v1/endpoints/{part(id)}/test", body=event or {}))


class Deliveries(Group):
    async def get(self, id: str) -> types.Delivery:
        """With its attempts, past and planned."""
        return await self._client._ask(types.Delivery, Call("GET", f"/v1/deliveries/{part(id)}"))

    def list(self, query: types.ListDeliveriesQuery | None = None) -> AsyncIterator[types.Delivery]:
        """The newest first."""
        return self._client._list(types.Delivery, "/v1/deliveries", query)

    async def retry(self, id: str, reason: str | None = None) -> types.Delivery:
        """Attempts a pending delivery now; for a finished one it creates and gives a new delivery."""
        return await self._client._order(types.Delivery, f"/v1/deliveries/{part(id)}/retry", reason)


class DeadLetters(Group):
    def list(self, query: types.ListDeadLettersQuery | None = None) -> AsyncIterator[types.Delivery]:
        return self._client._list(types.Delivery, "/v1/dead-letters", query)

    async def retry(self, id: str, reason: str | None = None) -> types.Delivery:
        """Creates and gives a new delivery."""
        return await self._client.deliveries.retry(id, reason)


class Replays(Group):
    async def plan(self, endpoint: str, replay: types.NewReplay | None = None) -> types.Plan:
        """Counts what a replay would create, and creates nothing."""
        body = {**(replay or {}), "dry_run": True}
        return await self._client._ask(types.Plan, Call("POST", f"/v1/endpoints/{part(endpoint)}/replay", body=body, idempotent=True))

    async def start(self, endpoint: str, replay: types.NewReplay | None = None, *, idempotency_key: str | None = None) -> types.Replay:
        """Starts a durable job that delivers again, the failed deliveries if nothing else is selected."""
        body = {**(replay or {}), "dry_run": False}
        return await self._client._ask(
            types.Replay, Call("POST", f"/v1/endpoints/{part(endpoint)}/replay", body=body, idempotency_key=idempotency_key)
        )

    async def get(self, id: str) -> types.Replay:
        return await self._client._ask(types.Replay, Call("GET", f"/v1/replays/{part(id)}"))

    def list(self, query: types.ListReplaysQuery | None = None) -> AsyncIterator[types.Replay]:
        """The newest first."""
        return self._client._list(types.Replay, "/v1/replays", query)

    async def watch(self, id: str, every: float = 1) -> AsyncIterator[types.Replay]:
        """Gives the replay whenever it has changed; the last one is finished. It asks each time ``every`` has passed."""
        last = ""
        while True:
            replay = await self.get(id)
            now = json.dumps(replay)
            if now != last:
                yield replay
            if replay["status"] not in ("running", "paused"):
                return
            last = now
            await self._client._transport.rest(every)

    async def pause(self, id: str, reason: str | None = None) -> types.Replay:
        return await self._client._order(types.Replay, f"/v1/replays/{part(id)}/pause", reason)

    async def resume(self, id: str, reason: str | None = None) -> types.Replay:
        return await self._client._order(types.Replay, f"/v1/replays/{part(id)}/resume", reason)

    async def cancel(self, id: str, reason: str | None = None) -> types.Replay:
        return await self._client._order(types.Replay, f"/v1/replays/{part(id)}/cancel", reason)


class PortalLinks(Group):
    async def create(self, tenant: str, link: types.NewPortalLink | None = None) -> types.PortalLink:
        """Makes a link that opens the portal of a tenant once."""
        return await self._client._ask(types.PortalLink, Call("POST", f"/v1/tenants/{part(tenant)}/portal-links", body=link or {}))

    async def revoke(self, tenant: str, query: types.RevokePortalLinksQuery | None = None) -> None:
        """Ends all links and sessions of a tenant, or those that the query names."""
        await self._client.call("DELETE", f"/v1/tenants/{part(tenant)}/portal-links", query=query)
