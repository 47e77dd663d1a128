// Answered first; then looked up, processed and recorded.
import { app, query, processEvent, start } from './lab.mjs'

async function handleWebhook(eventData, eventId) {
  const existing = await query('SELECT 1 FROM webhook_events WHERE event_id = $1', [eventId])
  if (existing.rowCount > 0) return // skip the duplicate
  await processEvent(eventData)
  await query('INSERT INTO webhook_events VALUES($1, $2, NULL, now())', [eventId, eventData.type])
}

app.post('/hooks', async (req, res) => {
  res.sendStatus(200)
  await handleWebhook(req.body, req.headers['x-webhook-id'])
})

start()
