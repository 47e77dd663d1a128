"""Reads queues as server-sent events, cuts the connection and goes on with Last-Event-ID. Says what came."""
import json
import sys

import httpx
import requests
from httpx_sse import connect_sse
from sseclient import SSEClient


def with_httpx(url, headers):
    with httpx.Client(timeout=30) as client, connect_sse(client, "GET", url, headers=headers) as source:
        yield from source.iter_sse()


def with_requests(url, headers):
    with requests.get(url, headers={**headers, "Accept": "text/event-stream"}, stream=True, timeout=30) as answer:
        yield from SSEClient(answer).events()


def read(job, name, connect):
    """Takes six, settles four, and goes on after the fourth: the fifth and the sixth come again, and then the rest."""
    url = f"{job['server']}/v1/queues/{name}/stream"
    headers = {"Authorization": "Bearer " + job["key"]}

    def settle(meta):
        requests.post(f"{job['server']}/v1/leases/{meta['lease']}/ack", headers=headers, timeout=30).raise_for_status()

    first = []
    stream = connect(url, headers)
    for event in stream:
        first.append(event)
        if len(first) == 6:
            break
    stream.close()
    settled = []
    for event in first[:4]:
        message = json.loads(event.data)
        settle(message["meta"])
        settled.append(message["body"]["n"])
    before, again = [json.loads(event.data)["body"]["n"] for event in first], []
    stream = connect(url, {**headers, "Last-Event-ID": first[3].id})
    for event in stream:
        message = json.loads(event.data)
        settle(message["meta"])
        settled.append(message["body"]["n"])
        if message["body"]["n"] in before:
            again.append(message["body"]["n"])
        if len(settled) == job["count"]:
            break
    stream.close()
    return {"settled": settled, "again": sorted(again)}


job = json.load(sys.stdin)
json.dump({name: read(job, name, connect) for name, connect in (("httpx-sse", with_httpx), ("sseclient-py", with_requests))}, sys.stdout)
