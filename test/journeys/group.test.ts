/** Groups on simulated machines: ordered as a whole, started at one instant, ended or restarted when a node is lost. */
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { MINUTE_MS, SECOND_MS, type Instant } from '../../src/base/instant.ts'
import { usd } from '../../src/base/money.ts'
import type { Reply } from '../harness/exchange.ts'
import {
  chargedFor,
  checkLedgerAndEngines,
  eventTypesOf,
  LIST_LAG_MS,
  startJourney,
  succeed,
  type Journey,
} from '../harness/journey.ts'
import type { Call } from '../harness/server.ts'

interface Node {
  readonly rank: number
  readonly hostname: string
  readonly address: string
  readonly rentalId: number
  readonly rentalName: string
  readonly machineId: string
  readonly state: string
  readonly statusReason: string | null
}

/** Three machines with eight H100 at $2.19 each: $17.52 an hour for one. */
const H100 = { gpusPerNode: 8, gpuModel: 'h100', clusterName: 'mock-iad' }
const PER_HOUR = usd('17.52')

let journey: Journey
let ada: { id: string; call: Call }
beforeAll(async () => {
  journey = await startJourney()
})
afterAll(() => journey.close())

async function newAccount(money = '1000'): Promise<void> {
  ada = await journey.account({ usd: money })
}

const order = (more: object = {}) => succeed(ada.call, 'POST', '/v2/groups', { nodes: 2, ...H100, ...more })
const look = (id: string) => succeed(ada.call, 'GET', `/v2/groups/${id}`)
const end = (id: string) => succeed(ada.call, 'DELETE', `/v2/groups/${id}`)
const availableUsd = async () => (await succeed(ada.call, 'GET', '/v2/customer/balance')).availableUsd as string

async function startGroup(more: object = {}): Promise<Reply['body']> {
  const { id } = await order(more)
  await journey.pass()
  await journey.advance(LIST_LAG_MS)
  const group = await look(id)
  expect(group.state).toBe('running')
  return group
}

/** Ends a group and waits until its machines are free. */
async function clear(id: string): Promise<void> {
  await end(id)
  await journey.advance(LIST_LAG_MS)
  await journey.advance(MINUTE_MS)
  expect((await look(id)).state).toBe('ended')
}

/** The machine disappears at the provider. */
async function lose(node: Node): Promise<void> {
  const driver = journey.app.drivers.get('mock')
  const { signal } = new AbortController()
  const machines = (await driver?.list('berth-', signal)) ?? []
  const row = await journey.app.database.db
    .selectFrom('rental')
    .select('external_id')
    .where('id', '=', node.rentalId)
    .executeTakeFirstOrThrow()
  expect(machines.map(({ externalId }) => externalId)).toContain(row.external_id)
  await driver?.destroy(row.external_id ?? '', signal)
}

async function segmentsOf(nodes: readonly Node[]) {
  return journey.app.database.db
    .selectFrom('segment')
    .select(['rental_id', 'started_at', 'ended_at'])
    .where(
      'rental_id',
      'in',
      nodes.map(({ rentalId }) => rentalId),
    )
    .execute()
}

describe('an order', () => {
  beforeAll(() => newAccount())

  test('takes whole machines of one cluster, with names and addresses by rank', async () => {
    const group = await order({ nodes: 3 })
    const nodes = group.nodes as Node[]
    expect(group).toMatchObject({ state: 'starting', clusterName: 'mock-iad', costPerHourUsd: '52.560000000' })
    expect(nodes.map(({ machineId }) => machineId)).toEqual([1, 2, 3].map((n) => `mock-iad-h100-0${n}`))
    expect(nodes.map(({ hostname }) => hostname)).toEqual(['node-0', 'node-1', 'node-2'])
    expect(nodes.map(({ rentalName }) => rentalName)).toEqual([0, 1, 2].map((n) => `${group.name}-${n}`))
    expect(new Set(nodes.map(({ address }) => address)).size).toBe(3)
    const rental = await succeed(ada.call, 'GET', `/v2/rentals/${group.name}-1`)
    expect(rental).toMatchObject({ gpuCount: 8, group: { id: group.id, name: group.name, rank: 1 } })
    expect(rental.actions).not.toContain('stop')
    await clear(group.id)
  })

  test('promise 29: without machines for all nodes it leaves nothing behind', async () => {
    const before = await availableUsd()
    const reply = await ada.call('POST', '/v2/groups', { nodes: 4, ...H100 })
    expect([reply.status, reply.body.reason]).toEqual([400, 'no_capacity'])
    expect((await succeed(ada.call, 'GET', '/v2/groups')).groups).toEqual([])
    expect(await availableUsd()).toBe(before)
  })

  test('promise 29: money for one node places none, and the amount is that of all', async () => {
    const poor = await journey.account({ usd: '20' })
    const reply = await poor.call('POST', '/v2/groups', { nodes: 2, ...H100 })
    expect([reply.status, reply.body.reason]).toEqual([403, 'insufficient_balance'])
    expect(reply.body.message).toContain('35.04')
    expect((await succeed(poor.call, 'GET', '/v2/rentals')).rentals).toEqual([])
    expect(await succeed(poor.call, 'GET', '/v2/customer/balance')).toMatchObject({ heldUsd: '0.000000000' })
  })

  test('a price above the maximum of the group is refused', async () => {
    const reply = await ada.call('POST', '/v2/groups', { nodes: 2, ...H100, maxCostPerHourUsd: '35.03' })
    expect([reply.status, reply.body.reason]).toEqual([400, 'price_changed'])
  })

  test('a machine that is rented in part is no node', async () => {
    const node = { cluster_name: 'mock-iad', node_name: 'mock-iad-h100-01', gpu_count: 1 }
    const { instance_id: name } = await succeed(ada.call, 'POST', '/v1/marketplace/instances/create', node)
    const group = await order()
    expect((group.nodes as Node[]).map(({ machineId }) => machineId)).toEqual(['mock-iad-h100-02', 'mock-iad-h100-03'])
    await clear(group.id)
    await succeed(ada.call, 'DELETE', `/v2/rentals/${name}`)
    await journey.advance(MINUTE_MS)
  })
})

describe('a start', () => {
  beforeAll(() => newAccount())

  test('promise 30: no node runs before all do, and all bills begin at one instant', async () => {
    const group = await order({ nodes: 3 })
    await journey.pass()
    // The provider shows each machine at another moment of its list lag.
    for (let n = 0; n < 20 && (await look(group.id)).state === 'starting'; n += 1) {
      expect(await segmentsOf(group.nodes)).toEqual([])
      await journey.advance(LIST_LAG_MS / 10)
    }
    const running = await look(group.id)
    expect(running.state).toBe('running')
    const segments = await segmentsOf(group.nodes)
    expect(segments).toHaveLength(3)
    expect(new Set(segments.map(({ started_at: at }) => at)).size).toBe(1)
    await journey.advance(10 * MINUTE_MS)
    await clear(group.id)
    const charges = await Promise.all((group.nodes as Node[]).map(({ rentalId }) => chargedFor(ada.call, { rentalId })))
    expect(charges.every((charge) => charge === charges[0] && charge > 0n)).toBe(true)
    expect(await eventTypesOf(ada.call, `group:${group.id}`)).toEqual([
      'group.created',
      'group.running',
      'group.ending',
      'group.ended',
    ])
  })

  test.each(['end', 'restart'])(
    'promise 29: a node that cannot start ends the group free of charge (%s)',
    async (onNodeLoss) => {
      const before = await availableUsd()
      const group = await order({ label: 'fault-slow-boot', onNodeLoss })
      await journey.pass()
      await journey.advance(LIST_LAG_MS)
      await lose(group.nodes[1])
      await journey.advanceBy(30 * SECOND_MS, 4)
      const ended = await look(group.id)
      expect(ended).toMatchObject({ stateReason: 'machine_lost', failedRank: 1, startedAt: null })
      await journey.advanceBy(MINUTE_MS, 15)
      expect((await look(group.id)).state).toBe('ended')
      expect(await segmentsOf(group.nodes)).toEqual([])
      expect(await availableUsd()).toBe(before)
    },
  )
})

describe('a running group', () => {
  beforeAll(() => newAccount())

  test('promise 32: ends 60 seconds after the last report of a node, whose own time is free from then on', async () => {
    const group = await startGroup()
    await journey.advance(10 * MINUTE_MS)
    const seenAt = journey.clock.now()
    await lose(group.nodes[1])
    await journey.advance(59 * SECOND_MS)
    expect((await look(group.id)).state).toBe('running')
    await journey.advance(SECOND_MS)
    expect(await look(group.id)).toMatchObject({ stateReason: 'node_lost', failedRank: 1 })
    await journey.advanceBy(MINUTE_MS, 15)
    expect((await look(group.id)).state).toBe('ended')
    const segments = await segmentsOf(group.nodes)
    const spanOf = (n: number) => segments.filter(({ rental_id: id }) => id === group.nodes[n].rentalId)
    expect(spanOf(1).map(({ ended_at: at }) => at)).toEqual([seenAt])
    expect(spanOf(0).map(({ ended_at: at }) => at)).toEqual([seenAt + 60 * SECOND_MS])
    const startedAt = segments[0]?.started_at as Instant
    // By hand: price × time, rounded down.
    const cost = (until: number) => (PER_HOUR * BigInt(until - startedAt)) / 3_600_000n
    expect(await chargedFor(ada.call, { rentalId: group.nodes[0].rentalId })).toBe(cost(seenAt + 60 * SECOND_MS))
    expect(await chargedFor(ada.call, { rentalId: group.nodes[1].rentalId })).toBe(cost(seenAt))
  })

  test('promise 32: starts again on other machines if its order says so, all at one instant', async () => {
    const group = await startGroup({ onNodeLoss: 'restart' })
    await lose(group.nodes[0])
    await journey.advance(MINUTE_MS)
    await journey.advance(10 * SECOND_MS)
    await journey.advance(10 * SECOND_MS)
    const again = await look(group.id)
    expect(again).toMatchObject({ state: 'running', restarts: 1, startedAt: group.startedAt })
    const nodes = again.nodes as Node[]
    expect(nodes.map(({ rentalName }) => rentalName)).toEqual([0, 1].map((n) => `${group.name}-${n}-r1`))
    const segments = await segmentsOf(nodes)
    expect(segments).toHaveLength(2)
    expect(new Set(segments.map(({ started_at: at }) => at)).size).toBe(1)
    expect(await eventTypesOf(ada.call, `group:${group.id}`)).toContain('group.restarting')
    await clear(group.id)
    await journey.advanceBy(MINUTE_MS, 15)
  })

  test('ends with a node that its customer terminates alone', async () => {
    const group = await startGroup({ onNodeLoss: 'restart' })
    await succeed(ada.call, 'DELETE', `/v2/rentals/${group.name}-1`)
    await journey.advance(LIST_LAG_MS)
    await journey.advance(MINUTE_MS)
    expect(await look(group.id)).toMatchObject({ state: 'ended', stateReason: 'customer_request', failedRank: 1 })
  })

  test('belongs to its account, by id and by name', async () => {
    const group = await startGroup()
    const stranger = await journey.account()
    for (const name of [group.id, group.name])
      expect((await stranger.call('DELETE', `/v2/groups/${name}`)).body.reason).toBe('group_not_found')
    expect((await look(group.name)).id).toBe(group.id)
    await clear(group.id)
    await end(group.id)
    const { groups } = await succeed(ada.call, 'GET', '/v2/groups?ended=only&limit=1')
    expect(groups.map(({ id }: { id: string }) => id)).toEqual([group.id])
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  })
})

test('promise 34: concurrent orders neither deadlock nor hold machines of a group that is not placed', async () => {
  const callers = await Promise.all(Array.from({ length: 6 }, () => journey.account({ usd: '5000' })))
  const sizes = [2, 3, 2, 4, 2, 3, 5, 2]
  const replies = await Promise.all(
    Array.from({ length: 48 }, (_, n) => {
      const caller = callers[n % callers.length]
      if (caller === undefined) throw new Error('there is no caller')
      const nodes = sizes[n % sizes.length]
      // Orders for one GPU compete for the same machines.
      if (n % 5 === 4)
        return caller.call('POST', '/v2/marketplace/instances/create-cheapest', { gpuModel: 'h100', gpuCount: 1 })
      return caller.call('POST', '/v2/groups', { nodes, gpusPerNode: 8 })
    }),
  )
  expect(new Set(replies.map(({ status, body }) => `${status} ${body.reason ?? 'ok'}`))).toEqual(
    new Set(['200 ok', '400 no_capacity']),
  )
  const { machines } = await succeed(journey.operator, 'GET', '/v2/operator/machines?limit=1000')
  const inUse = new Map<string, number>(
    machines.map((one: { id: string; gpusInUse: number }) => [one.id, one.gpusInUse]),
  )
  const placed = replies.flatMap(({ status, body }) => (status === 200 && body.nodes !== undefined ? [body.nodes] : []))
  const taken = (placed.flat() as Node[]).map(({ machineId }) => machineId)
  expect(taken.length).toBeGreaterThan(0)
  expect(new Set(taken).size).toBe(taken.length)
  expect(taken.map((id) => inUse.get(id))).toEqual(taken.map(() => 8))
  const singles = replies.filter(({ status, body }) => status === 200 && body.nodes === undefined).length
  const claims = await journey.app.database.db.selectFrom('gpu_claim').select('rental_id').execute()
  expect(claims).toHaveLength(taken.length * 8 + singles)
  const { rows } = await sql<{ deadlocks: string }>`
    select deadlocks from pg_stat_database where datname = current_database()`.execute(journey.app.database.db)
  expect(Number(rows[0]?.deadlocks)).toBe(0)
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})
