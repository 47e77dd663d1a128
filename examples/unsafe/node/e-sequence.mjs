// A newer version updates the row; without a row nothing is updated.
import { app, charge, once, start } from './lab.mjs'

async function handleOrderUpdate(event, tx) {
  await charge(event, tx)
  const { invoice, version, status } = event.data
  await tx.query(`UPDATE invoices SET status = $1, version = $2
    WHERE id = $3 AND (version IS NULL OR version < $2)`, [status, version, invoice])
}

app.post('/hooks', once(handleOrderUpdate))

start()
