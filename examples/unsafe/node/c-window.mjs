// Duplicates are looked for within 7 days; rows stay for 30.
import { app, query, processEvent, now, start } from './lab.mjs'

const day = 24 * 60 * 60 * 1000

async function cleanupOldEvents() {
  await query("DELETE FROM webhook_events WHERE processed_at < $1 AND status = 'completed'", [new Date(now() - 30 * day)])
}
setInterval(() => cleanupOldEvents().catch(console.error), day)

app.post('/hooks', async (req, res) => {
  const eventId = req.headers['x-webhook-id']
  const existing = await query('SELECT 1 FROM webhook_events WHERE event_id = $1 AND processed_at >= $2',
    [eventId, new Date(now() - 7 * day)])
  if (existing.rowCount > 0) return res.sendStatus(200) // a duplicate is no error
  await processEvent(req.body)
  await query("INSERT INTO webhook_events VALUES($1, $2, 'completed', $3)", [eventId, req.body.type, new Date(now())])
  res.sendStatus(200)
})

start()
