"""A status "processing" and the work in one transaction, which commits itself before its context manager does."""

from lab import app, connect, event, process_event, start


@app.post("/hooks")
def webhook():
    db, received = connect(), event()
    with db:
        db.execute("BEGIN IMMEDIATE")
        db.execute("INSERT INTO webhook_events(event_id, type, status) VALUES(?, ?, 'processing')", (received["id"], received["type"]))
        process_event(received, db)
        db.execute("UPDATE webhook_events SET status = 'completed' WHERE event_id = ?", (received["id"],))
        db.commit()
    return "", 200


start()
