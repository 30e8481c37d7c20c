/**
 * Durable billing records per second, compared with one insert per request and with the disk's sync rate; and a meter
 * that is killed repeatedly, after which every acknowledged request must be in the ledger exactly once.
 */
import { closeSync, fdatasyncSync, openSync, readFileSync, rmSync, writeSync } from 'node:fs'
import path from 'node:path'
import pg from 'pg'
import { inParallel, median, type Bench, type Figure } from '../harness.ts'
import { pause, startChild } from './child.ts'
import { figureOf } from './figures.ts'
import { countLedger, openTestLedger, type MeterLedger } from './meter-ledger.ts'
import { ACCOUNT, API_KEY, COST_NANO, endRequests, openMeter, type MeterRun } from './meter-run.ts'
import { withAll } from './stage.ts'

const ROUNDS = 3
/** Fewer than the meter accepts before the database must catch up. */
const REQUESTS_A_ROUND = 30_000
const WARM_UP_REQUESTS = 5_000
const INSERT_WORKERS = 16
const INSERT_MS = 3_000
const SYNC_MS = 1_000
const SYNCED_BYTES = 400
const KILLS = 6
/** Time from start to kill; it varies, to hit the meter in different states. */
const KILL_AFTER_MS = [300, 700, 1_100, 450, 900, 1_400] as const
const SETTLED_WITHIN_MS = 60_000

export const meter: Bench = {
  name: 'meter',
  about: `durable billing records per second, ${KILLS} × kill -9`,
  run: () =>
    withAll(async (stage) => {
      const ledger = await stage.add(openTestLedger())
      const rates = await compareRates(ledger)
      const killed = await killAndCount(ledger)
      const insert = median(rates.inserts)
      const ratioTo = (name: string, values: readonly number[], against?: string): Figure => {
        const ratios = values.map((rate, round) => rate / (rates.inserts[round] ?? Number.NaN))
        return figureOf(name, ratios, '×', against)
      }
      return [
        ratioTo('on the disk, to the plain insert', rates.durable, 'to reach: ≥ 20 ×'),
        ratioTo('in the ledger, relative to plain inserts', rates.inLedger),
        figureOf('records per second, written and synced', rates.durable, '/s', `plain insert: ${insert.toFixed(0)}/s`),
        figureOf('records per second, until in the ledger', rates.inLedger, '/s'),
        figureOf(`plain inserts a second, ${INSERT_WORKERS} connections`, rates.inserts, '/s'),
        figureOf('fdatasync of the disk', rates.syncs, '/s'),
        { name: `requests ended while ${KILLS} times killed`, value: killed.seen, unit: '' },
        { name: 'lost', value: killed.lost, unit: '', against: 'to reach: 0' },
        { name: 'doubled', value: killed.doubled, unit: '', against: 'to reach: 0' },
        {
          name: 'in the ledger but not acknowledged',
          value: killed.unseen,
          unit: '',
          against: 'killed between the record and the answer',
        },
      ]
    }),
}

interface Rates {
  readonly durable: number[]
  readonly inLedger: number[]
  readonly inserts: number[]
  readonly syncs: number[]
}

async function compareRates(ledger: MeterLedger): Promise<Rates> {
  const rates: Rates = { durable: [], inLedger: [], inserts: [], syncs: [] }
  const run = await openMeter({ databaseUrl: ledger.databaseUrl, journalDir: path.join(ledger.dir, 'journal-rates') })
  try {
    await measureMeter(run, WARM_UP_REQUESTS)
    for (let round = 0; round < ROUNDS; round += 1) {
      const { durable, inLedger } = await measureMeter(run, REQUESTS_A_ROUND)
      rates.durable.push(durable)
      rates.inLedger.push(inLedger)
      rates.inserts.push(await measureInserts(ledger.databaseUrl))
      rates.syncs.push(measureSyncs(path.join(ledger.dir, 'synced')))
    }
  } finally {
    await run.close()
  }
  return rates
}

async function measureMeter(run: MeterRun, requests: number): Promise<{ durable: number; inLedger: number }> {
  let begun = 0
  const startedAt = performance.now()
  await endRequests(
    run,
    () => {
      begun += 1
      return begun <= requests
    },
    () => {},
  )
  await run.journal.sync()
  const durableMs = performance.now() - startedAt
  while (run.meter.figures().unsettled > 0) {
    if (performance.now() - startedAt > SETTLED_WITHIN_MS) throw new Error('the ledger does not catch up')
    await pause(2)
  }
  const inLedgerMs = performance.now() - startedAt
  return { durable: (requests * 1_000) / durableMs, inLedger: (requests * 1_000) / inLedgerMs }
}

/** One log row per request and nothing else: no cost, no charge, no balance. */
async function measureInserts(databaseUrl: string): Promise<number> {
  const pool = new pg.Pool({ connectionString: databaseUrl, max: INSERT_WORKERS })
  pool.on('error', () => {})
  await pool.query('create table if not exists plain_insert (like request including all)')
  let inserted = 0
  const startedAt = performance.now()
  const tookMs = await inParallel(range(INSERT_WORKERS), INSERT_WORKERS, async () => {
    const client = await pool.connect()
    while (performance.now() - startedAt < INSERT_MS) {
      inserted += 1
      await client.query({
        name: 'plain_insert',
        text: INSERT,
        values: [`req_${inserted}`, ACCOUNT, API_KEY, COST_NANO],
      })
    }
    client.release()
  })
  await pool.query('drop table plain_insert')
  await pool.end()
  return (inserted * 1_000) / tookMs
}

const INSERT = `
  insert into plain_insert (request_id, account_id, api_key_id, operation, model, deployment, at, status, outcome,
    streamed, input_units, cached_units, output_units, cost_nano, first_byte_ms, total_ms, trace_id)
  values ($1, $2, $3, 'chat', 'bench', 'dep_bench', now(), 200, 'answered', false, 40, 0, 100, $4, 12, 34, $1)`

function range(length: number): number[] {
  return Array.from({ length }, (_, n) => n)
}

function measureSyncs(file: string): number {
  const bytes = Buffer.alloc(SYNCED_BYTES, 'x')
  const opened = openSync(file, 'a')
  const startedAt = performance.now()
  let syncs = 0
  while (performance.now() - startedAt < SYNC_MS) {
    writeSync(opened, bytes)
    fdatasyncSync(opened)
    syncs += 1
  }
  const tookMs = performance.now() - startedAt
  closeSync(opened)
  rmSync(file)
  return (syncs * 1_000) / tookMs
}

interface Killed {
  readonly seen: number
  readonly lost: number
  readonly doubled: number
  readonly unseen: number
}

async function killAndCount(ledger: MeterLedger): Promise<Killed> {
  const before = (await countLedger(ledger.databaseUrl, [])).inLedger
  const seenFile = path.join(ledger.dir, 'seen')
  const args = [ledger.databaseUrl, path.join(ledger.dir, 'journal-killed'), seenFile]
  for (let kill = 0; kill < KILLS; kill += 1) {
    const child = startChild('meter-child.ts', args)
    await child.nextLine()
    await pause(KILL_AFTER_MS[kill % KILL_AFTER_MS.length] ?? 0)
    await child.stop('SIGKILL')
  }
  const last = startChild('meter-child.ts', [...args, 'drain'])
  await last.nextLine()
  await last.ended
  const seen = readFileSync(seenFile, 'utf8').split('\n').slice(0, -1)
  const { lost, doubled, inLedger } = await countLedger(ledger.databaseUrl, seen)
  return { seen: seen.length, lost, doubled, unseen: inLedger - before - (seen.length - lost) }
}
