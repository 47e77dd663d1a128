// A dead letter is written when the sender says that it has tried five times.
import { app, query, processEvent, start } from './lab.mjs'

app.post('/hooks', async (req, res) => {
  try {
    await processEvent(req.body)
    res.status(200).json({ received: true })
  } catch (error) {
    const retryCount = parseInt(req.headers['x-retry-count'] || '0')
    if (retryCount >= 5) {
      await query('INSERT INTO dead VALUES($1, $2)', [JSON.stringify({ event: req.body, headers: req.headers }), error.message])
      res.status(200).json({ received: true, queued_for_review: true })
    } else {
      res.status(500).json({ error: 'Processing failed, please retry' })
    }
  }
})

start()
