"""A coroutine function is put into a queue that calls functions, and the answer does not wait for it."""

from lab import Queue, app, connect, event, now, process_event, start

queue = Queue()


async def handle_webhook(event_data: dict, event_id: str) -> None:
    db = connect()
    existing = db.execute("SELECT 1 FROM webhook_events WHERE event_id = ?", (event_id,)).fetchone()
    if existing:
        return
    process_event(event_data, db)
    db.execute("INSERT INTO webhook_events VALUES(?, ?, NULL, ?)", (event_id, event_data["type"], now()))


@app.post("/hooks")
def webhook():
    received = event()
    queue.enqueue(handle_webhook, received, received["id"])
    return "", 200


start()
