"""INSERT … ON CONFLICT DO NOTHING, committed on its own, before the work."""

from lab import app, connect, event, process_event, start, verified


@app.post("/hooks")
def hooks():
    if not verified():
        return "", 401
    db, received = connect(), event()
    claimed = db.execute("""INSERT INTO webhook_events(event_id) VALUES(?)
        ON CONFLICT(event_id) DO NOTHING RETURNING true""", (received["id"],)).fetchone()
    if claimed:
        process_event(received, db)
    return "", 200


start()
