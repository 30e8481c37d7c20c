/** Every method of the Python client is called against a server, and every create while its connection is cut: P36, P37. */
import { mkdtemp } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { makeSshKeyPair } from '../src/base/ssh-key-pair.ts'
import { silentWav } from '../src/base/sound/wav.ts'
import { api, type OperationId } from '../src/contract/api.ts'
import { scopes, type Endpoint } from '../src/contract/endpoint.ts'
import { exampleBodies } from '../src/contract/openapi/example-body.ts'
import { isPublic, pythonApi } from '../scripts/python-operations.ts'
import { placeOf, pythonName } from '../scripts/python-names.ts'
import { cuts, openCuttingProxy, type Cut, type CuttingProxy } from './harness/cutting-proxy.ts'
import { examples, makeOwned, type Example, type Owned } from './harness/examples.ts'
import { LIST_LAG_MS, startJourney, succeed, type Journey } from './harness/journey.ts'
import { removeFolder } from './harness/leftover.ts'
import type { Call } from './harness/server.ts'
import { whyNoPython } from './lab/python-packages.ts'
import { buildPackage, environmentWith, pythonTools, talkTo, type Talk } from './lab/python-wheel.ts'
import { needs } from './needs.ts'

needs('python')

const why = whyNoPython()
const START_MS = 10 * 60_000
const operations = (Object.entries(api) as Array<[OperationId, Endpoint]>).filter(
  ([, one]) => isPublic(one) && one.answers !== 'events',
)
/** A run has one bank file, so each cut would need a run of its own. */
const once: ReadonlySet<string> = new Set<OperationId>(['exportPayoutRun'])
const creates = operations.filter(([id, one]) => one.idempotent === true && !once.has(id))
/** A list in pages takes the size of a page. */
const paged = new Set(pythonApi().operations.flatMap(({ id, pages }) => (pages === undefined ? [] : [id])))
const isOperators = ({ access }: Endpoint): boolean =>
  Array.isArray(access) && access.every((one) => one === 'operator')
/** They end what later calls need, so they come last. */
const isEnd = ([, { method }]: (typeof operations)[number]): boolean => method === 'DELETE'

describe.skipIf(why !== undefined)(`calls of the Python client${why === undefined ? '' : ` (skipped: ${why})`}`, () => {
  let folder: string
  let journey: Journey
  let its: Owned
  let owner: Call
  let proxy: CuttingProxy
  let talk: Talk
  beforeAll(async () => {
    folder = await mkdtemp(path.join(os.tmpdir(), 'berth-python-calls-'))
    const { wheel } = await buildPackage(await pythonTools(), path.join(folder, 'dist'))
    const program = await environmentWith(path.join(folder, 'venv'), wheel, [])
    journey = await startJourney({ env: { BERTH_TRUST_PROXY: '1', BERTH_APPS_DOMAIN: 'apps.example.test' } })
    const customer = scopes.filter((scope) => scope !== 'operator')
    const account = await journey.account({ usd: '50000', scopes: customer, platformFeePercentage: 10 })
    owner = account.call
    its = await makeOwned(journey, account)
    proxy = await openCuttingProxy(journey.url)
    const BERTH_KEYS = JSON.stringify({ owner: account.key, operator: journey.operatorKey })
    talk = talkTo(program, [path.resolve('test/clients/python-caller.py')], { BERTH_URL: proxy.url, BERTH_KEYS })
  }, START_MS)
  afterAll(async () => {
    await talk.close()
    await proxy.close()
    await journey.close()
    await removeFolder(folder)
  })

  const order = (id: OperationId, endpoint: Endpoint, example: Example, isAsync = false) => {
    const { group, method } = placeOf(id, endpoint)
    return {
      as: isOperators(endpoint) ? 'operator' : 'owner',
      call: [...group, method].join('.'),
      args: [...endpoint.path.matchAll(/\{(\w+)\}/g)].map(([, name = '']) => example.params?.[name]),
      kwargs: keywordsOf(id, endpoint, example),
      async: isAsync,
    }
  }

  describe('P37: a cut leaves one object', () => {
    const make = async (id: OperationId, endpoint: Endpoint, number: number, cut?: Cut) => {
      const example = varied(id, examples[id](its), number)
      const rentals = await listRentals(owner)
      const before = await countRows(journey)
      const cutsBefore = proxy.cutCount()
      if (cut !== undefined) proxy.arm(cut)
      const { error, reason, text } = await talk.ask(order(id, endpoint, example, number % 2 === 1))
      const problem = error === undefined ? 'none' : (reason ?? text)
      const rows = difference(before, await countRows(journey))
      const newRentals = (await listRentals(owner)).filter((rental) => !rentals.includes(rental))
      for (const rental of newRentals) await owner('DELETE', `/v2/rentals/${rental}`)
      // The next order needs its machines.
      if (newRentals.length > 0) await journey.advance(LIST_LAG_MS)
      return { cut, problem, cutCount: proxy.cutCount() - cutsBefore, rows }
    }
    // The same create without a cut shows what one object is, in rows of every table.
    test.each(creates)('%s', { timeout: START_MS }, async (id, endpoint) => {
      const whole = await make(id, endpoint, 0)
      expect(whole.problem).toBe(refusals[id] ?? 'none')
      const broken = []
      for (const [at, cut] of cuts.entries()) broken.push(await make(id, endpoint, at + 1, cut))
      expect(broken).toEqual(cuts.map((cut) => ({ ...whole, cut, cutCount: 1 })))
    })
  })

  test(
    'P36: every method sends what its operation takes and reads what it answers',
    { timeout: START_MS },
    async () => {
      const faults: string[] = []
      let answered = 0
      for (const [id, endpoint] of [...operations].toSorted(
        (one, other) => Number(isEnd(one)) - Number(isEnd(other)),
      )) {
        const outcome = await talk.ask(order(id, endpoint, varied(id, examples[id](its), 9), answered % 2 === 1))
        if (outcome.error === undefined) answered += 1
        else if (outcome.status === undefined || outcome.status === '422' || outcome.reason === 'invalid_input')
          faults.push(`${id}: ${outcome.error} ${outcome.text}`)
      }
      expect(faults).toEqual([])
      expect(answered).toBeGreaterThan(operations.length * 0.75)
    },
  )
})

/** Creates that the test's server refuses, and why: it sends no mail and takes no cards. */
const refusals: Partial<Record<OperationId, string>> = {
  createInvitation: 'people_not_configured',
  createSignUpInvitation: 'people_not_configured',
  createTopUp: 'payments_off',
  refundPayment: 'payments_off',
}
/** Rows of counters: a new one begins with the day or the minute. */
const counters = new Set(['ledger_day', 'rate_window'])

function keywordsOf(id: OperationId, { takes }: Endpoint, { query = {}, body = {} }: Example): Record<string, unknown> {
  const fields = takes === 'multipart' ? formFields(id) : (body as Record<string, unknown>)
  const rows = [...Object.entries(query), ...Object.entries(fields)]
    .filter(([name]) => name !== 'stream' && name !== 'cursor')
    .map(([name, value]) => [name === 'limit' && paged.has(id) ? 'page_size' : pythonName(name), value] as const)
  return Object.fromEntries(rows.map(([name, value]) => [name, name === 'page_size' ? Number(value) : value]))
}

function formFields(id: OperationId): Record<string, unknown> {
  const { file, ...others } = exampleBodies[id as 'uploadFile'] as { file: string }
  const content = id === 'uploadFile' ? Buffer.from('{}\n') : silentWav(1)
  return { ...others, file: [file, content.toString('hex')] }
}

/** The example with names of its own: most names can be used once. */
function varied(id: OperationId, example: Example, number: number): Example {
  if (example.body === undefined || example.body instanceof FormData) return example
  const body = { ...(example.body as Record<string, unknown>) }
  for (const name of ['name', 'label', 'id']) {
    if (typeof body[name] === 'string' && isNamed(id)) body[name] = `${body[name]}-${number}`
  }
  for (const name of ['email', 'ownerEmail']) {
    if (typeof body[name] === 'string') body[name] = `n${number}-${body[name]}`
  }
  // An account has one budget for each label.
  if (id === 'createBudget') Object.assign(body, { scope: 'label', scopeValue: `label-${number}` })
  // It has little to pay out.
  if (id === 'payOutSupplier') body['amountUsd'] = '0.001'
  if (id === 'addSshKey') body['publicKey'] = makeSshKeyPair(`n${number}@example.test`).publicKey
  return { ...example, body }
}

/** In some bodies, a name is that of something that exists. */
function isNamed(id: OperationId): boolean {
  return creates.some(([one]) => one === id)
}

async function listRentals(call: Call): Promise<number[]> {
  const { rentals } = await succeed(call, 'GET', '/v2/rentals?limit=1000')
  return (rentals as ReadonlyArray<{ readonly id: number }>).map(({ id }) => id)
}

type Counts = Readonly<Record<string, number>>

async function countRows({ app }: Journey): Promise<Counts> {
  const tables = await sql<{ name: string }>`select table_name as name from information_schema.tables
    where table_schema = 'public' and table_type = 'BASE TABLE'`.execute(app.database.db)
  const parts = tables.rows.map(
    ({ name }) => sql`select ${sql.lit(name)} as name, count(*)::int as n from ${sql.table(name)}`,
  )
  const { rows } = await sql<{ name: string; n: number }>`${sql.join(parts, sql` union all `)}`.execute(app.database.db)
  return Object.fromEntries(rows.map(({ name, n }) => [name, n]))
}

function difference(before: Counts, after: Counts): Counts {
  return Object.fromEntries(
    Object.entries(after)
      .map(([name, count]) => [name, count - (before[name] ?? 0)] as const)
      .filter(([name, count]) => count !== 0 && !counters.has(name)),
  )
}
