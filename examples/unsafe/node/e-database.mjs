// INSERT … ON CONFLICT DO NOTHING and the work in one transaction.
import { app, transaction, processEvent, start } from './lab.mjs'

app.post('/hooks', async (req, res) => {
  try {
    await transaction(async (tx) => {
      const result = await tx.query(`INSERT INTO webhook_events VALUES($1, $2, NULL, now())
        ON CONFLICT (event_id) DO NOTHING RETURNING event_id`, [req.body.id, req.body.type])
      if (result.rows.length === 0) return // a duplicate
      await processEvent(req.body, tx)
    })
    res.status(200).json({ received: true })
  } catch {
    res.status(500).json({ error: 'Processing failed' })
  }
})

start()
