/**
 * A database of an earlier version, with data, upgraded by this one: the ledger is correct, rentals go on, and what was
 * stored can be read. `test/fixtures/upgrade/` has a dump for the last migration of each earlier version. To write that
 * of this version: BERTH_TEST_WRITE_DUMP=1 npx vitest run test/upgrade.test.ts
 */
import { readFile, writeFile } from 'node:fs/promises'
import { readdirSync } from 'node:fs'
import path from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import pg from 'pg'
import { afterEach, describe, expect, test } from 'vitest'
import { addMs, instantOf, systemClock } from '../src/base/instant.ts'
import { migrate } from '../src/store/platform/migrate.ts'
import { emptyDatabase } from './harness/database.ts'
import { serveModel } from './harness/inference.ts'
import { succeed } from './harness/journey.ts'
import { removeFolder } from './harness/leftover.ts'
import { olderSchema } from './harness/older-schema.ts'
import { testServer, type Call } from './harness/server.ts'
import { dumpTables, loadTables } from './harness/table-dump.ts'
import { waitFor } from './harness/wait.ts'

const DUMPS = 'test/fixtures/upgrade'
const TERMINATED = '/v2/alpha/on-demand/rentals'

/** What the dump must show again after any upgrade. */
interface Facts {
  readonly key: string
  readonly operatorKey: string
  readonly rentals: ReadonlyArray<{ readonly id: number; readonly status: string; readonly name: string }>
  readonly paidUsd: readonly string[]
  /** The clock of the server goes on from here: nobody is charged for the time in between. */
  readonly at: number
}

const cleanUp: Array<() => Promise<unknown>> = []
afterEach(async () => {
  for (const step of cleanUp.splice(0).toReversed()) await step()
})

const versions = readdirSync(DUMPS).map((name) => name.replace('.gz', ''))

describe.each(versions)('a database at %s', (version) => {
  test('is upgraded with its data, and the ledger is correct', async () => {
    const [facts = '', ...dump] = gunzipSync(await readFile(path.join(DUMPS, `${version}.gz`)))
      .toString()
      .split('\n')
    const before = JSON.parse(facts) as Facts
    const database = await emptyDatabase()
    cleanUp.push(() => database.drop())
    const pool = new pg.Pool({ connectionString: database.url, max: 2 })
    pool.on('error', () => {})
    cleanUp.push(() => pool.end())
    const older = await olderSchema(`${version}.sql~`)
    cleanUp.push(() => removeFolder(older))
    await migrate(pool, older)
    await loadTables(pool, dump.join('\n'))

    const startedAt = performance.now()
    const clock = { now: () => addMs(instantOf(before.at), Math.round(performance.now() - startedAt)) }
    const server = await testServer({ databaseUrl: database.url, clock })
    cleanUp.push(() => server.close())
    const [operator, customer] = [server.as(before.operatorKey), server.as(before.key)]
    expect(await succeed(operator, 'GET', '/v2/operator/ledger/verify')).toMatchObject({ ok: true, findings: [] })
    expect(await factsOf(customer)).toEqual({ rentals: before.rentals, paidUsd: before.paidUsd })
    const { secrets } = await succeed(customer, 'GET', '/v2/secrets')
    expect((secrets as Array<{ name: string }>).map(({ name }) => name)).toEqual(['TOKEN'])
    expect(await succeed(operator, 'POST', '/v2/operator/reseal', {})).toMatchObject({ unreadable: [] })

    // It goes on: what ran can be terminated, and new orders work.
    const running = before.rentals.find(({ status }) => status === 'Running')?.id ?? 0
    await terminate(customer, running)
    const next = await rent(customer)
    await terminate(customer, next)
    expect(await succeed(operator, 'GET', '/v2/operator/ledger/verify')).toMatchObject({ ok: true, findings: [] })
  })
})

async function rent(call: Call): Promise<number> {
  const order = { gpuCount: 1, region: 'mock-region' }
  const { id } = await succeed(call, 'POST', '/v2/alpha/on-demand/virtual-machine-rentals', order)
  await waitFor('it to run', async () => (await succeed(call, 'GET', `${TERMINATED}/${id}`)).status === 'Running')
  return id as number
}

async function terminate(call: Call, rentalId: number): Promise<void> {
  await succeed(call, 'POST', '/v2/alpha/on-demand/virtual-machine-rentals/terminate', { rentalId })
  await waitFor(
    'its end',
    async () => (await succeed(call, 'GET', `${TERMINATED}/${rentalId}`)).status === 'Terminated',
  )
}

/** Without charges of the running rental, which continue. */
async function factsOf(call: Call): Promise<Pick<Facts, 'rentals' | 'paidUsd'>> {
  const all = (await succeed(call, 'GET', '/v2/alpha/on-demand/virtual-machine-rentals')) as Facts['rentals']
  const rentals = all.map(({ id, status, name }) => ({ id, status, name })).toSorted((a, b) => a.id - b.id)
  const { lines } = await succeed(call, 'GET', '/v2/customer/statement?limit=100')
  const purchases = (lines as Array<{ kind: string; amountUsd: string }>).filter(({ kind }) => kind === 'purchase')
  return { rentals, paidUsd: purchases.map(({ amountUsd }) => amountUsd) }
}

async function writeDump(): Promise<void> {
  const server = await testServer()
  cleanUp.push(() => server.close())
  const { key, call } = await server.account({ usd: '500' })
  await serveModel(server, { name: 'tiny' })
  await terminate(call, await rent(call))
  await rent(call)
  await succeed(call, 'POST', '/v1/chat/completions', { model: 'tiny', messages: [{ role: 'user', content: 'Hello' }] })
  await succeed(call, 'PUT', '/v2/secrets/TOKEN', { value: 'of an earlier version' })
  await succeed(call, 'POST', '/v2/webhooks', { url: 'https://example.com/hook' })
  await succeed(call, 'POST', '/v2/budgets', { name: 'All', monthlyUsd: '400', alertsPercent: [80], action: 'block' })
  await server.account({ platformFeePercentage: 10 })
  const pool = new pg.Pool({ connectionString: server.databaseUrl, max: 2 })
  cleanUp.push(() => pool.end())
  await waitFor('the request to be settled', async () => {
    const { rows } = await pool.query('select 1 from request')
    return rows.length > 0
  })
  const facts: Facts = { key, operatorKey: server.operatorKey, at: systemClock.now(), ...(await factsOf(call)) }
  const { rows } = await pool.query<{ last: string }>('select max(name) as last from migration')
  const last = rows[0]?.last.replace('.sql', '') ?? ''
  await writeFile(
    path.join(DUMPS, `${last}.gz`),
    gzipSync([JSON.stringify(facts), await dumpTables(pool)].join('\n'), { level: 9 }),
  )
}

// Not a test that is skipped: on a build machine, that would be an error.
if (process.env['BERTH_TEST_WRITE_DUMP'] === '1')
  test('writes the dump of this version', () => expect(writeDump()).resolves.toBeUndefined())
