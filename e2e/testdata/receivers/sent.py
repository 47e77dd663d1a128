async def handle_webhook(event_data: dict, event_id: str):
    field = event_data['field']

    # Check if already processed
    existing = db.webhook_events.find_unique(
        where={"event_id": event_id}
    )

    if existing:
        print(f"Event {event_id} already processed")
        return

    # Process event
    await process_event(event_data)

    # Record as processed
    db.webhook_events.create({
        "event_id": event_id,
        "event_type": field,
        "processed_at": datetime.now()
    })

# In your handler, pass the header:
@app.route('/webhooks/sent', methods=['POST'])
def webhook():
    event_id = request.headers.get('X-Webhook-ID')
    # Enqueue for background processing, then return 200 immediately
    queue.enqueue(handle_webhook, request.json, event_id)
    return '', 200
