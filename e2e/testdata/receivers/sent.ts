// Pass the X-Webhook-ID header as eventId — it's the unique delivery identifier
async function handleWebhook(eventData: any, eventId: string) {
  const { field } = eventData;

  // Check if already processed
  const existing = await db.webhookEvents.findUnique({
    where: { eventId }
  });

  if (existing) {
    console.log(`Event ${eventId} already processed`);
    return; // Skip duplicate
  }

  // Process event
  await processEvent(eventData);

  // Record as processed
  await db.webhookEvents.create({
    data: {
      eventId,
      eventType: field,
      processedAt: new Date()
    }
  });
}

// In your handler, pass the header:
app.post('/webhooks/sent', async (req, res) => {
  res.sendStatus(200);
  const eventId = req.headers['x-webhook-id'] as string;
  await handleWebhook(req.body, eventId);
});
