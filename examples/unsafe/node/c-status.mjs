// The order of statuses is their index in an array.
import { app, charge, once, start } from './lab.mjs'

const statusOrder = ['draft', 'open', 'paid', 'refunded', 'void']

async function handleStatus(event, tx) {
  await charge(event, tx)
  const { invoice: id, status } = event.data
  if (status === undefined) return
  const invoice = (await tx.query('SELECT * FROM invoices WHERE id = $1', [id])).rows[0]
  const currentIndex = statusOrder.indexOf(invoice?.status?.toLowerCase())
  const newIndex = statusOrder.indexOf(status.toLowerCase())
  if (newIndex > currentIndex) {
    await tx.query('UPDATE invoices SET status = $2 WHERE id = $1', [id, status])
  }
}

app.post('/hooks', once(handleStatus))

start()
