/** An idle rule on GPUs whose load nobody can measure is refused, in the order and in a change. */
import { expect, test } from 'vitest'
import { sql } from 'kysely'
import { testServer } from './harness/server.ts'

test('an idle rule on simulated GPUs of a real machine is refused, with the reason (issue 31, 16)', async () => {
  const server = await testServer({ runLoops: false })
  try {
    const { call } = await server.account({ usd: '100' })
    await sql`update machine set simulation = 'gpus'`.execute(server.app.database.db)
    const idle = { afterMinutes: 5, action: 'stop' }
    const node = { cluster_name: 'mock-iad', node_name: 'mock-iad-h100-01', gpu_count: 1 }
    const refused = { reason: 'idle_gpus_not_measured' }
    expect((await call('POST', '/v1/marketplace/instances/create', { ...node, idle })).body).toMatchObject(refused)
    const made = await call('POST', '/v1/marketplace/instances/create', node)
    expect(made.status).toBe(200)
    const change = await call('PATCH', `/v2/rentals/${made.body.instance_name}`, { idle })
    expect(change.body).toMatchObject(refused)
  } finally {
    await server.close()
  }
})
