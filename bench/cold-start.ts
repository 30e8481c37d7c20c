/**
 * From an empty data folder to the first response, compared with PostgreSQL's own first start (initdb, start, first
 * query).
 */
import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import pg from 'pg'
import { startEmbeddedPostgres } from '../src/server/data/embedded-postgres.ts'
import { median, readyUrl, startProcess, type Bench } from './harness.ts'

const ROUNDS = 5

async function timed(work: (dataDir: string) => Promise<() => Promise<unknown>>): Promise<number> {
  const dataDir = await mkdtemp(path.join(os.tmpdir(), 'berth-bench-'))
  const startedAt = performance.now()
  const stop = await work(dataDir)
  const tookMs = performance.now() - startedAt
  await stop()
  await rm(dataDir, { recursive: true, force: true })
  return tookMs
}

async function postgresAlone(dataDir: string): Promise<() => Promise<unknown>> {
  const postgres = await startEmbeddedPostgres({ dataDir, log: () => {} })
  const client = new pg.Client({ connectionString: postgres.url })
  await client.connect()
  await client.query('select 1')
  await client.end()
  return () => postgres.stop()
}

async function berth(dataDir: string): Promise<() => Promise<unknown>> {
  const child = startProcess({ BERTH_DATA_DIR: dataDir })
  const url = await readyUrl(child)
  const answer = await fetch(`${url}/v1/marketplace`, {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: '{}',
  })
  if (answer.status !== 200) throw new Error(`the first request was answered with ${answer.status}`)
  await answer.arrayBuffer()
  return () => {
    const ended = new Promise((resolve) => child.once('exit', resolve))
    child.kill('SIGTERM')
    return ended
  }
}

export const coldStart: Bench = {
  name: 'cold-start',
  about: 'fresh data folder to the first answered request',
  run: async () => {
    const ours: number[] = []
    const alone: number[] = []
    for (let round = 0; round < ROUNDS; round += 1) {
      alone.push(await timed(postgresAlone))
      ours.push(await timed(berth))
    }
    const against = `PostgreSQL alone: ${median(alone).toFixed(0)} ms`
    return [
      { name: 'first answer', value: median(ours), unit: 'ms', against },
      { name: 'ratio', value: median(ours) / median(alone), unit: '×', against: 'to reach: ≤ 2 ×' },
    ]
  },
}
