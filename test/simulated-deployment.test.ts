/** A model never runs on a simulated machine: the quote, the deployment and a rollout say so at once. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { passForReal } from './harness/simulated-machine.ts'
import { testServer, type TestServer } from './harness/server.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer({})
})
afterAll(() => server.close())

test('is refused while only simulated machines are free, and accepted with real ones (issue 31, 10 F5)', async () => {
  const { call } = await server.account({ usd: '100' })
  const recipe = { name: 'custom', image: { name: 'lab/chat-engine' } }
  const body = { name: 'assistant', recipe, gpus: { model: 'H100' }, replicas: { min: 1, max: 1 } }
  const refused = { reason: 'only_simulated_machines' }
  expect((await call('POST', '/v2/deployments/quote', { recipe, gpus: body.gpus })).body).toMatchObject(refused)
  expect((await call('POST', '/v2/deployments', body)).body).toMatchObject(refused)
  expect((await call('GET', '/v2/deployments')).body).toEqual({ deployments: [] })
  // No machine at all has them: it may wait for one.
  const absent = { ...body, name: 'patient', gpus: { model: 'B900' }, replicas: { min: 0, max: 1 } }
  expect((await call('POST', '/v2/deployments', absent)).status).toBe(200)
  const { id } = (await call('GET', '/v2/deployments')).body.deployments[0]
  const rollout = await call('POST', `/v2/deployments/${id}/rollout`, { gpus: { model: 'H100' } })
  expect(rollout.body).toMatchObject(refused)
  await passForReal(server.app)
  expect((await call('POST', '/v2/deployments', body)).status).toBe(200)
})
