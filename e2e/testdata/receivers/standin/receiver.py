"""Runs one published receiver: receiver.py SAMPLE. What the sample leaves open (its framework, database, queue and
business) stands here; GET /state tells what came of it."""
import asyncio
import json
import sys
from datetime import datetime
from http.server import BaseHTTPRequestHandler, HTTPServer

state = {"processed": []}
events = {}


class Request:
    headers = None
    json = None


class App:
    handle = None

    def route(self, _path, methods):
        def keep(function):
            App.handle = staticmethod(function)
            return function
        return keep


class WebhookEvents:
    def find_unique(self, where):
        return events.get(where["event_id"])

    def create(self, data):
        events[data["event_id"]] = data


class Database:
    webhook_events = WebhookEvents()


class Queue:
    jobs = []

    def enqueue(self, function, *args):
        self.jobs.append((function, args))

    def work(self):
        while self.jobs:
            function, args = self.jobs.pop(0)
            asyncio.run(function(*args))


async def process_event(event):
    state["processed"].append(event)


request, queue = Request(), Queue()
names = {"app": App(), "db": Database(), "queue": queue, "request": request, "datetime": datetime, "process_event": process_event}
with open(sys.argv[1]) as sample:
    exec(compile(sample.read(), sys.argv[1], "exec"), names)


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer(200, json.dumps(state).encode())

    def do_POST(self):
        request.headers = self.headers
        request.json = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        body, status = App.handle()
        queue.work()
        self.answer(status, body.encode())


server = HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
