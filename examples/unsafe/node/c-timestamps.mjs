// Newer is a comparison of two Dates, after a read.
import { app, charge, once, start } from './lab.mjs'

async function handleUpdate(event, tx) {
  await charge(event, tx)
  const { invoice: id, status, occurred_at: timestamp } = event.data
  if (timestamp === undefined) return
  const invoice = (await tx.query('SELECT * FROM invoices WHERE id = $1', [id])).rows[0]
  if (new Date(timestamp) > new Date(invoice.updated_at)) {
    await tx.query('UPDATE invoices SET status = $2, updated_at = $3 WHERE id = $1', [id, status, timestamp])
  }
}

app.post('/hooks', once(handleUpdate))

start()
