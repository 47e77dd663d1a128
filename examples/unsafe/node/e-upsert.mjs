// An upsert that sets what arrives last.
import { app, charge, once, start } from './lab.mjs'

async function handleOrder(event, tx) {
  await charge(event, tx)
  const { invoice, version, status, occurred_at: at, amount } = event.data
  await tx.query(`INSERT INTO invoices VALUES($1, $2, $3, $4, $5) ON CONFLICT (id) DO UPDATE SET status = excluded.status,
    version = excluded.version, updated_at = excluded.updated_at, amount = excluded.amount`, [invoice, status, version, at, String(amount)])
}

app.post('/hooks', once(handleOrder))

start()
