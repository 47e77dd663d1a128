"""Runs moto's server with FIFO queues that keep the order of a group, as those of SQS do.

moto lets two calls at the same time have messages of one group, and of a group whose messages were
all hidden for too long it delivers the last one first.
"""

import threading
import time

from moto.server import main
from moto.sqs import models

turn = threading.Lock()
receive = models.SQSBackend.receive_message


def in_order(self, queue_name, count, wait, *rest):
    end = time.monotonic() + wait
    while True:
        with turn:
            queue = self.get_queue(queue_name)
            for message in [m for m in queue.pending_messages if m.visible]:
                queue.pending_messages.remove(message)
            found = receive(self, queue_name, count, 0, *rest)
        if found or time.monotonic() >= end:
            return found
        time.sleep(0.02)


models.SQSBackend.receive_message = in_order
main()
