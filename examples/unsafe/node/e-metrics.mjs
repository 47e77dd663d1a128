// A metric is written after the work, inside the same try.
import { app, query, processEvent, start } from './lab.mjs'

await query('CREATE TABLE IF NOT EXISTS metrics(event_id text, type text, status text, attempt int)')
const record = (event, status, attempt) => query('INSERT INTO metrics VALUES($1, $2, $3, $4)', [event.id, event.type, status, attempt])

app.post('/hooks', async (req, res) => {
  const attemptNumber = parseInt(req.headers['x-retry-count'] || '1')
  try {
    await processEvent(req.body)
    await record(req.body, 'success', attemptNumber)
    res.status(200).json({ received: true })
  } catch {
    await record(req.body, 'failed', attemptNumber)
    res.status(500).json({ error: 'Processing failed' })
  }
})

start()
