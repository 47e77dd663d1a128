// SET NX without a lease, and DEL on failure.
import { app, redis, processEvent, start } from './lab.mjs'

app.post('/hooks', async (req, res) => {
  const eventId = req.body.id || req.headers['x-webhook-id']
  if (!eventId) {
    return res.status(400).json({ error: 'Missing event ID' })
  }
  const isNew = await redis.set(`webhook:processed:${eventId}`, Date.now().toString(), 'EX', 604800, 'NX')
  if (!isNew) {
    return res.status(200).json({ received: true, duplicate: true })
  }
  try {
    await processEvent(req.body)
    res.status(200).json({ received: true })
  } catch {
    await redis.del(`webhook:processed:${eventId}`) // so that the retry is processed
    res.status(500).json({ error: 'Processing failed' })
  }
})

start()
