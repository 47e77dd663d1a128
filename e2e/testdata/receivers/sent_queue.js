app.post('/webhooks/sent', async (req, res) => {
  // Acknowledge immediately
  res.sendStatus(200);

  // Process asynchronously — include X-Webhook-ID for idempotency
  await queue.add('process-webhook', {
    eventId: req.headers['x-webhook-id'],
    ...req.body,
  });
});
