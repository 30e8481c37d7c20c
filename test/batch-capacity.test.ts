/** Batches and the capacity and the time that they have: interactive requests go first, and a day is the end. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { addMs, instantOf, MINUTE_MS, type Instant } from '../src/base/instant.ts'
import { limits } from '../src/base/limits.ts'
import {
  batchCost,
  batchModelPrices,
  chatLine,
  createBatch,
  endOfBatch,
  readBatch,
  resultsOf,
} from './harness/batch.ts'
import { serveModel, type TestModel } from './harness/inference.ts'
import { testServer, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'

const SLOTS = 10
const LINE_SLOTS = 8
const CLIENTS = 16
/** Within this time free slots have lines. */
const FILL_MS = 2_000

describe('P23: interactive requests', () => {
  let server: TestServer
  let model: TestModel
  beforeAll(async () => {
    server = await testServer()
    model = await serveModel(server, {
      name: 'busy',
      model: batchModelPrices,
      deployment: { concurrency: SLOTS },
      behaviour: { latencyMs: 150 },
    })
  })
  afterAll(async () => {
    await model.upstream.close()
    await server.close()
  })

  test('P23: no line starts while one waits; when none does, lines take at most four fifths of the slots', async () => {
    const { upstream } = model
    const { call } = await server.account({ usd: '1' })
    const other = await server.account({ usd: '1' })
    let isLoaded = true
    let answered = 0
    const ask = async (): Promise<void> => {
      while (isLoaded) {
        const messages = [{ role: 'user', content: 'interactive' }]
        const { status } = await other.call('POST', '/v1/chat/completions', { model: 'busy', messages })
        expect(status).toBe(200)
        answered += 1
      }
    }
    const clients = Array.from({ length: CLIENTS }, ask)
    await waitFor('all slots to be taken', () => upstream.inFlight === SLOTS)

    const lines = Array.from({ length: 80 }, (_, id) => chatLine(id, { model: 'busy' }))
    const { id } = await createBatch(call, lines)
    await waitFor('the batch to wait', async () => (await readBatch(call, id)).waiting_for === 'capacity')
    const before = answered
    await waitFor('further interactive requests', () => answered >= before + 3 * SLOTS)
    expect(upstream.requests.filter(({ body }) => body.includes('question'))).toEqual([])
    expect((await readBatch(call, id)).request_counts).toEqual({ total: 80, completed: 0, failed: 0 })

    isLoaded = false
    await Promise.all(clients)
    const idleSince = performance.now()
    let most = 0
    await waitFor('lines to fill their slots', () => {
      most = Math.max(most, upstream.inFlight)
      return most >= LINE_SLOTS
    })
    expect(performance.now() - idleSince).toBeLessThan(FILL_MS)
    await waitFor('the batch to end', async () => {
      most = Math.max(most, upstream.inFlight)
      return (await readBatch(call, id)).status === 'completed'
    })
    expect(most).toBe(LINE_SLOTS)
  })
})

describe('P25: a day', () => {
  let server: TestServer
  let model: TestModel
  let now: Instant = instantOf(Date.parse('2026-11-18T12:00:00Z'))
  beforeAll(async () => {
    server = await testServer({ clock: { now: () => now } })
    model = await serveModel(server, {
      name: 'slow',
      model: batchModelPrices,
      deployment: { concurrency: 5 },
      behaviour: { latencyMs: 200 },
    })
  })
  afterAll(async () => {
    await model.upstream.close()
    await server.close()
  })

  test('P25: a batch that expires keeps and charges the lines that have an answer', async () => {
    const customer = await server.account({ usd: '1' })
    const lines = Array.from({ length: 100 }, (_, id) => chatLine(id, { model: 'slow' }))
    const { id, expires_at: end, created_at: start } = await createBatch(customer.call, lines)
    expect((end - start) * 1_000).toBe(limits.batchMs)
    await waitFor('some lines to be answered', async () => {
      return (await readBatch(customer.call, id)).request_counts.completed > 0
    })
    now = addMs(now, limits.batchMs - MINUTE_MS)
    expect((await readBatch(customer.call, id)).status).toBe('in_progress')
    now = addMs(now, MINUTE_MS)
    const batch = await endOfBatch(customer.call, id)
    expect([batch.status, batch.expired_at, batch.completed_at]).toEqual(['expired', end, null])
    const { output, errors } = await resultsOf({ url: server.url, key: customer.key }, batch)
    expect(output).toHaveLength(batch.request_counts.completed)
    expect(output.length).toBeGreaterThan(0)
    expect(errors.length).toBeGreaterThan(0)
    expect(errors.every(({ error }) => error?.code === 'batch_expired')).toBe(true)
    const ids = [...output, ...errors].map((line) => line.custom_id)
    expect(ids.sort()).toEqual(lines.map((line) => line.custom_id).sort())
    expect(Math.round(Number(batch.cost_usd) * 1e9)).toBe(batchCost(output))
    const requests = (await customer.call('GET', '/v2/usage/requests?limit=1000')).body.requests
    expect(requests).toHaveLength(output.length)
    const { body } = await server.operator('GET', '/v2/operator/ledger/verify')
    expect(body).toMatchObject({ ok: true, findings: [] })
  })
})
