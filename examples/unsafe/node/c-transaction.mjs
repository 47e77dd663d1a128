// A status "processing" and the work in one transaction; a duplicate is a violated constraint.
import { app, transaction, processEvent, start } from './lab.mjs'

app.post('/hooks', async (req, res) => {
  const eventId = req.headers['x-webhook-id']
  await transaction(async (tx) => {
    await tx.query("INSERT INTO webhook_events VALUES($1, $2, 'processing')", [eventId, req.body.type])
    await processEvent(req.body, tx)
    await tx.query("UPDATE webhook_events SET status = 'completed' WHERE event_id = $1", [eventId])
  })
  res.sendStatus(200)
})

start()
