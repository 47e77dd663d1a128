"""Imports every module of the generated client, then publishes an event and follows its delivery with it."""

import importlib
import os
import pkgutil

import generated
from generated import AuthenticatedClient
from generated.api.deliveries import list_deliveries
from generated.api.endpoints import create_endpoint, update_endpoint
from generated.api.events import publish_event, publish_raw
from generated.models import EndpointPatch, NewEndpoint, NewEvent, Problem
from generated.types import File

modules = [importlib.import_module(found.name) for found in pkgutil.walk_packages(generated.__path__, "generated.")]

client = AuthenticatedClient(base_url=os.environ["GRAPNEL_SERVER"], token=os.environ["GRAPNEL_KEY"])


def good(answer):
    assert answer is not None and not isinstance(answer, Problem), answer
    return answer


endpoint = good(create_endpoint.sync(client=client, body=NewEndpoint(url=os.environ["RECEIVER"], event_types=["interop.*"])))
assert good(update_endpoint.sync(endpoint.id, client=client, body=EndpointPatch(description="of the Python client"))).description
events = {
    good(publish_event.sync(client=client, body=NewEvent(type_="interop.python", data={"n": 1}), idempotency_key="python-1")).id,
    good(publish_raw.sync(client=client, body=File(payload=b"\x00\x01"), type_="interop.raw")).id,
}
for _ in range(5000):  # each list is a request, so the loop goes at the pace of the server
    delivered = {one.event_id for one in good(list_deliveries.sync(client=client, endpoint=endpoint.id, limit=10)).data if one.status == "delivered"}
    if delivered == events:
        break
assert delivered == events, delivered

refused = publish_event.sync(client=client, body=NewEvent(type_="not a type", data=1))
assert isinstance(refused, Problem) and refused.errors[0].pointer == "/type", refused
print(f"{len(modules)} modules import; creates, changes, publishes, lists, reads problems")
