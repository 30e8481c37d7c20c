/** A server is killed (SIGKILL) again and again while it runs a batch: no line is lost, and none is charged twice. */
import { afterAll, beforeAll, expect, test } from 'vitest'
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
import { succeed } from './harness/journey.ts'
import { waitFor } from './harness/wait.ts'
import { startServerLab, type ServerLab } from './lab/server-lab.ts'
import { needs } from './needs.ts'

needs('kills', 'build')

const KILLS = Number.parseInt(process.env.BERTH_TEST_BATCH_KILLS ?? '6', 10)
const LINES = 300
const MINUTE_MS = 60_000

let lab: ServerLab
let model: TestModel
beforeAll(async () => {
  lab = await startServerLab({ BERTH_DRIVERS: '' })
  model = await serveModel(lab, {
    name: 'chatter',
    model: batchModelPrices,
    deployment: { concurrency: 10 },
    behaviour: { latencyMs: 100 },
  })
})
afterAll(async () => {
  await model?.upstream.close()
  await lab?.close()
})

test(`P24: ${KILLS} kills during a batch lose no line and charge none twice`, { timeout: 10 * MINUTE_MS }, async () => {
  const customer = await lab.account({ usd: '1' })
  const lines = Array.from({ length: LINES }, (_, id) => chatLine(id))
  const { id } = await createBatch(customer.call, lines)
  // The first kill is while the file is read, the others are spread over the lines.
  await lab.kill()
  for (let kill = 1; kill < KILLS; kill += 1) {
    await lab.start()
    const enough = Math.floor((LINES * kill) / KILLS)
    await waitFor(
      `${enough} lines to have a result`,
      async () => (await readBatch(customer.call, id)).request_counts.completed >= enough,
      3 * MINUTE_MS,
    )
    await lab.kill()
  }
  await lab.start()
  const batch = await endOfBatch(customer.call, id, 5 * MINUTE_MS)
  expect(batch).toMatchObject({
    status: 'completed',
    request_counts: { total: LINES, completed: LINES, failed: 0 },
    error_file_id: null,
  })
  const { output } = await resultsOf({ url: lab.url, key: customer.key }, batch)
  // In the order of the input, each once.
  expect(output.map((line) => line.custom_id)).toEqual(lines.map((line) => line.custom_id))
  expect(Math.round(Number(batch.cost_usd) * 1e9)).toBe(batchCost(output))
  const { requests } = await succeed(customer.call, 'GET', '/v2/usage/requests?limit=1000')
  const charged = requests as ReadonlyArray<{ requestId: string; batchId: string; costUsd: string }>
  expect(charged).toHaveLength(LINES)
  expect(new Set(charged.map(({ requestId }) => requestId))).toEqual(
    new Set(output.map(({ response }) => response?.request_id)),
  )
  expect(new Set(charged.map(({ batchId }) => batchId))).toEqual(new Set([id]))
  const cost = charged.reduce((sum, { costUsd }) => sum + Math.round(Number(costUsd) * 1e9), 0)
  expect(cost).toBe(batchCost(output))
  expect(await succeed(lab.operator, 'GET', '/v2/operator/ledger/verify')).toMatchObject({ ok: true, findings: [] })
  // Lines whose server was killed were sent again: otherwise no kill interrupted anything.
  expect(model.upstream.received).toBeGreaterThan(LINES)
})
