// The key is a hash of the payload with sorted keys.
import { createHash } from 'node:crypto'
import { app, redis, processEvent, start } from './lab.mjs'

function computePayloadHash(payload) {
  const normalized = JSON.stringify(payload, Object.keys(payload).sort())
  return createHash('sha256').update(normalized).digest('hex')
}

app.post('/hooks', async (req, res) => {
  const isNew = await redis.set(`webhook:hash:${computePayloadHash(req.body)}`, '1', 'EX', 3600, 'NX')
  if (!isNew) {
    return res.status(200).json({ received: true, duplicate: true })
  }
  await processEvent(req.body)
  res.status(200).json({ received: true })
})

start()
