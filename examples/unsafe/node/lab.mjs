// The laboratory around a sample: an Express application with a PostgreSQL, the work that a sample calls, and the
// routes of a test receiver (sdk/README.md). Only the sample decides about duplicates, order and answers.
import { createRequire } from 'node:module'
import { createHmac, timingSafeEqual } from 'node:crypto'

const require = createRequire(new URL('../../../sdk/typescript/package.json', import.meta.url))
const express = require('express4')
const { Pool } = require('pg')
const { Redis } = require('ioredis')

const pool = new Pool({ connectionString: process.env.DSN, max: 20 })
export const query = (text, values) => pool.query(text, values)

export const redis = process.env.REDIS ? new Redis(process.env.REDIS) : undefined

// An error that a handler throws reaches nobody in Express 4: the request hangs. The process would end, too, but for this line.
process.on('unhandledRejection', (error) => console.error(error.message))

// transaction runs fn with a client inside one transaction; an error rolls it back.
export async function transaction(fn) {
  const client = await pool.connect()
  try {
    await client.query('BEGIN')
    const result = await fn(client)
    await client.query('COMMIT')
    return result
  } catch (error) {
    await client.query('ROLLBACK')
    throw error
  } finally {
    client.release()
  }
}

await query(`
  CREATE TABLE IF NOT EXISTS webhook_events(event_id text PRIMARY KEY, type text, status text, processed_at timestamptz);
  CREATE TABLE IF NOT EXISTS ledger(event text, invoice text, amount text);
  CREATE TABLE IF NOT EXISTS invoices(id text PRIMARY KEY, status text, version bigint, updated_at text, amount text);
  CREATE TABLE IF NOT EXISTS jobs(id bigserial PRIMARY KEY, body jsonb NOT NULL);
  CREATE TABLE IF NOT EXISTS dead(body jsonb NOT NULL, error text NOT NULL)`)

// now is the time in milliseconds; POST /_clock sets it.
let set = 0
export const now = () => set || Date.now()

const faults = new Map()
const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms))

async function fault(id) {
  const f = faults.get(id)
  if (!f || f.times-- <= 0) return
  if (f.kind === 'slow' || f.kind === 'hang') await wait(f.ms)
  if (f.kind !== 'slow') throw new Error(`${f.kind} fault`)
}

// charge takes the money: one row that no constraint protects.
export async function charge(event, db = pool) {
  await fault(event.id)
  await db.query('INSERT INTO ledger VALUES($1, $2, $3)', [event.id, event.data?.invoice, String(event.data?.amount)])
}

// processEvent is the work of a sample that says nothing about order. It keeps the newest version or time, or the state of
// a state machine, by one conditional statement, and charges for an event that changed something.
const upsert = `INSERT INTO invoices AS i VALUES($1, $2, $3, $4, $5) ON CONFLICT(id) DO UPDATE SET status = excluded.status,
  version = excluded.version, updated_at = excluded.updated_at, amount = excluded.amount WHERE `
const edges = `(i.status, excluded.status) IN (('draft','open'), ('open','paid'), ('open','void'), ('paid','refunded'))`

export async function processEvent(event, db = pool) {
  const { invoice, version, status, occurred_at: at, amount } = event.data ?? {}
  const newer = version !== undefined ? 'excluded.version > i.version' : at !== undefined ? 'excluded.updated_at > i.updated_at' : edges
  if (version !== undefined || at !== undefined || status !== undefined) {
    const { rowCount } = await db.query(upsert + newer, [invoice, status, version, at && `${at} ${event.id}`, String(amount)])
    if (rowCount === 0) return
  }
  await charge(event, db)
}

export const app = express()
app.disable('x-powered-by')

app.get('/_probe', async (req, res) => {
  const { event, key } = req.query
  const ledger = await query(`SELECT count(*)::int n, max(amount) amount FROM ledger WHERE ${key ? 'invoice' : 'event'} = $1`, [key ?? event])
  const invoice = await query('SELECT * FROM invoices WHERE id = $1', [key])
  const { status, version, amount } = invoice.rows[0] ?? {}
  res.json({ effects: ledger.rows[0].n, state: status ?? '', version: Number(version ?? 0), amount: amount ?? ledger.rows[0].amount ?? '' })
})
app.post('/_fault', (req, res) => {
  const { event, kind, times = 1, ms = 0 } = req.query
  faults.set(event, { kind, times: Number(times), ms: Number(ms) })
  res.json({})
})
app.post('/_clock', (req, res) => {
  set = Number(req.query.now) * 1000
  res.json({})
})

// A sender of the documents has its id in the body and, in the third, in a header. Torture's is in webhook-id.
app.use(express.json({ verify: (req, _res, raw) => { req.raw = raw } }), (req, _res, next) => {
  const id = req.headers['webhook-id']
  if (id !== undefined) req.headers['x-webhook-id'] = id
  if (id !== undefined && req.body && typeof req.body === 'object') req.body.id = id
  next()
})

function verified(req) {
  const { 'webhook-id': id, 'webhook-timestamp': at, 'webhook-signature': signatures = '' } = req.headers
  if (!id || !at || Math.abs(now() / 1000 - Number(at)) > 300) return false
  const key = Buffer.from(process.env.SECRET.replace('whsec_', ''), 'base64')
  const want = createHmac('sha256', key).update(`${id}.${at}.`).update(req.raw).digest()
  return signatures.split(' ').some((s) => {
    const got = Buffer.from(s.startsWith('v1,') ? s.slice(3) : '', 'base64')
    return got.length === want.length && timingSafeEqual(got, want)
  })
}

// once is the correct frame for samples that show a gate alone: it verifies, claims the id and calls fn in one transaction.
export const once = (fn) => async (req, res) => {
  if (!verified(req)) return res.sendStatus(401)
  try {
    await transaction(async (tx) => {
      await tx.query("SET LOCAL lock_timeout = '2s'")
      const claim = await tx.query('INSERT INTO webhook_events VALUES($1) ON CONFLICT DO NOTHING', [req.body.id])
      if (claim.rowCount === 1) await fn(req.body, tx)
    })
    res.sendStatus(200)
  } catch {
    res.sendStatus(503)
  }
}

export function start() {
  const server = app.listen(Number(process.env.PORT ?? 0), '127.0.0.1', () => {
    console.log(`listening on http://127.0.0.1:${server.address().port}`)
  })
  process.on('SIGTERM', () => process.exit(0))
}
