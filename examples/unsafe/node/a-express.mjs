// Seen, then recorded, then processed.
import { app, query, processEvent, start } from './lab.mjs'

app.post('/hooks', async (req, res) => {
  const eventId = req.body.id
  const seen = await query('SELECT 1 FROM webhook_events WHERE event_id = $1', [eventId])
  if (seen.rowCount > 0) {
    return res.sendStatus(200) // already processed
  }
  await query('INSERT INTO webhook_events VALUES($1)', [eventId])
  await processEvent(req.body)
  res.sendStatus(200)
})

start()
