// Answered first; then put into a durable queue.
import { app, query, processEvent, start } from './lab.mjs'

app.post('/hooks', async (req, res) => {
  res.sendStatus(200)
  await query('INSERT INTO jobs(body) VALUES($1)', [JSON.stringify({ eventId: req.headers['x-webhook-id'], ...req.body })])
})

// The worker of the queue: an entry is removed once its work is done.
async function work() {
  const job = (await query('SELECT * FROM jobs ORDER BY id LIMIT 1')).rows[0]
  if (job) {
    const existing = await query('SELECT 1 FROM webhook_events WHERE event_id = $1', [job.body.eventId])
    if (existing.rowCount === 0) {
      await processEvent(job.body)
      await query('INSERT INTO webhook_events VALUES($1)', [job.body.eventId])
    }
    await query('DELETE FROM jobs WHERE id = $1', [job.id])
  }
}
const turn = () => work().catch(() => {}).then(() => setTimeout(turn, 10))
turn()

start()
