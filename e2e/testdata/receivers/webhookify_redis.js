const Redis = require('ioredis');
const redis = new Redis(process.env.REDIS_URL);

async function handleWebhook(req, res) {
  const eventId = req.body.id || req.headers['x-webhook-id'];

  if (!eventId) {
    console.error('Webhook missing event ID');
    return res.status(400).json({ error: 'Missing event ID' });
  }

  // Try to set the key — NX means "only if it does not exist"
  // EX sets a TTL of 7 days (604800 seconds)
  const isNew = await redis.set(
    `webhook:processed:${eventId}`,
    Date.now().toString(),
    'EX', 604800,
    'NX'
  );

  if (!isNew) {
    // Event already processed — acknowledge but skip processing
    console.log(`Duplicate webhook skipped: ${eventId}`);
    return res.status(200).json({ received: true, duplicate: true });
  }

  try {
    // Process the event
    await processEvent(req.body);
    res.status(200).json({ received: true });
  } catch (error) {
    // Processing failed — remove the key so the retry can be processed
    await redis.del(`webhook:processed:${eventId}`);
    console.error(`Webhook processing failed: ${eventId}`, error);
    res.status(500).json({ error: 'Processing failed' });
  }
}
