async function handleWebhookWithDLQ(req, res) {
  try {
    await processEvent(req.body);
    res.status(200).json({ received: true });
  } catch (error) {
    const retryCount = parseInt(req.headers['x-retry-count'] || '0');

    if (retryCount >= 5) {
      // Max retries exceeded — send to dead letter queue
      await sendToDeadLetterQueue({
        event: req.body,
        error: error.message,
        retryCount,
        timestamp: new Date().toISOString(),
        headers: req.headers
      });

      // Return 200 to stop the provider from retrying
      // (we have captured the event in our DLQ)
      res.status(200).json({ received: true, queued_for_review: true });
    } else {
      // Return 500 to trigger provider retry
      res.status(500).json({ error: 'Processing failed, please retry' });
    }
  }
}

async function sendToDeadLetterQueue(failedDelivery) {
  // Option 1: Database table
  await db.query(
    `INSERT INTO webhook_dead_letter_queue
     (event_data, error_message, retry_count, failed_at)
     VALUES ($1, $2, $3, NOW())`,
    [JSON.stringify(failedDelivery.event), failedDelivery.error, failedDelivery.retryCount]
  );

  // Option 2: Message queue (SQS, Redis, etc.)
  await messageQueue.send('webhook-dlq', failedDelivery);

  // Alert the team
  console.error('Event sent to dead letter queue:', failedDelivery.event.id);
}
