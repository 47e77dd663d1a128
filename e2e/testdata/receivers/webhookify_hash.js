const crypto = require('crypto');

function computePayloadHash(payload) {
  const normalized = JSON.stringify(payload, Object.keys(payload).sort());
  return crypto.createHash('sha256').update(normalized).digest('hex');
}

async function handleWebhook(req, res) {
  const payloadHash = computePayloadHash(req.body);

  const isDuplicate = await redis.set(
    `webhook:hash:${payloadHash}`,
    '1',
    'EX', 3600, // 1 hour TTL
    'NX'
  );

  if (!isDuplicate) {
    return res.status(200).json({ received: true, duplicate: true });
  }

  await processEvent(req.body);
  res.status(200).json({ received: true });
}
