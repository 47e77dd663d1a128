"""Runs moto's server with queues that keep the order of a FIFO group, as those of SQS do, and that
take as long with 100,000 messages as with ten.

moto lets two calls at the same time have messages of one group, and of a group whose messages were
all hidden for too long it delivers the last one first. It looks through all messages of a queue at
each call, and forgets the deduplication ids of those that are deleted.
"""

import itertools
import logging
import threading
import time
from collections import OrderedDict

from moto.server import main
from moto.sqs import models

turn = threading.Lock()
receive = models.SQSBackend.receive_message
MOST = 10  # messages of one call


class Messages:
    """The messages of a queue. Those of a FIFO group, or of a queue without groups, are in order."""

    def __init__(self):
        self.groups = {}  # group -> id -> message
        self.taken = {}  # group -> id -> message that a call had last
        self.receipts = {}  # receipt -> group and id of its message
        self.sent = {}  # deduplication id -> when

    def __len__(self):
        return sum(map(len, self.groups.values()))

    def new(self, message):
        once = message.deduplication_id
        if once is None:
            return True
        last = self.sent.get(once)
        if last is not None and message.sent_timestamp - last < models.DEDUPLICATION_TIME_IN_SECONDS * 1000:
            return False
        self.sent[once] = message.sent_timestamp
        return True

    def append(self, message, group):
        self.groups.setdefault(group, OrderedDict())[message.id] = message

    def visible(self):
        """The next messages of one group, none of which is hidden; without groups, just the next."""
        for group, messages in self.groups.items():
            taken = self.taken.setdefault(group, {})
            for shown in [m.id for m in taken.values() if m.visible]:
                del taken[shown]
            if messages and (group is None or not taken):
                free = (m for m in messages.values() if m.id not in taken)
                return list(itertools.islice(free, MOST))
        return []

    def took(self, copy, group):
        self.taken[group][copy.id] = self.groups[group][copy.id]
        self.receipts[copy.receipt_handle] = group, copy.id

    def find(self, receipt):
        if receipt not in self.receipts:
            raise models.ReceiptHandleIsInvalid()
        group, number = self.receipts[receipt]
        return group, number, self.groups[group].get(number)


def of(queue):
    if not isinstance(queue._messages, Messages):
        queue._messages = Messages()
    return queue._messages


def group_of(queue, message):
    return message.group_id if queue.fifo_queue else None


def add(queue, message):
    with turn:
        if not queue.fifo_queue or of(queue).new(message):
            of(queue).append(message, group_of(queue, message))


def delete(queue, receipt):
    with turn:
        group, number, _ = of(queue).find(receipt)
        of(queue).groups[group].pop(number, None)
        of(queue).taken[group].pop(number, None)


def hide(self, queue_name, receipt_handle, visibility_timeout):
    with turn:
        message = of(self.get_queue(queue_name)).find(receipt_handle)[2]
        if message is None:
            raise models.ReceiptHandleIsInvalid()
        message.change_visibility(visibility_timeout)


def in_order(self, queue_name, count, wait, *rest):
    end = time.monotonic() + wait
    queue = self.get_queue(queue_name)
    while True:
        with turn:
            queue._pending_messages.clear()  # visible says which messages may come
            found = receive(self, queue_name, count, 0, *rest)
            for copy in found:
                of(queue).took(copy, group_of(queue, copy))
        if found or time.monotonic() >= end:
            return found
        time.sleep(0.02)


models.Queue.messages = property(lambda queue: of(queue).visible())
models.Queue.add_message = add
models.Queue.delete_message = delete
for count in ("", "_delayed", "_not_visible"):
    setattr(models.Queue, "approximate_number_of_messages" + count, property(lambda queue: len(of(queue))))
models.SQSBackend.change_message_visibility = hide
models.SQSBackend.receive_message = in_order
logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else it writes a line for each request
main()
