/** A key in `x-api-key`, as SDKs of Anthropic send it, is a key like any other. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { testServer, type TestServer } from '../../../test/harness/server.ts'
import { defaultRates } from '../../base/limits.ts'
import { openLog } from '../log.ts'

let server: TestServer
let logged = ''
beforeAll(async () => {
  const log = openLog('trace', { write: (line) => void (logged += line) })
  server = await testServer({ runLoops: false, log })
})
afterAll(() => server.close())

const listModels = (headers: Record<string, string>) => server.anonymous('GET', '/v1/models', undefined, headers)

test('P3: x-api-key equals Authorization, which wins if both are sent, and neither is logged', async () => {
  const { key } = await server.account()
  const other = await server.account({ scopes: ['billing:read'] })
  const byKey = await listModels({ 'X-Api-Key': key })
  const byAuthorization = await listModels({ Authorization: `Bearer ${key}` })
  expect([byKey.status, byKey.body]).toEqual([200, byAuthorization.body])
  expect((await listModels({ 'x-api-key': other.key })).status).toBe(403)
  expect((await listModels({ 'x-api-key': other.key, Authorization: `Bearer ${key}` })).status).toBe(200)
  expect((await listModels({ 'x-api-key': key, Authorization: `Bearer ${other.key}` })).status).toBe(403)
  expect((await listModels({ 'x-api-key': key, Authorization: 'Basic eDp5' })).body.reason).toBe('not_bearer')
  const events = await server.anonymous('GET', '/v2/events?limit=1', undefined, { 'x-api-key': key })
  expect(events.status).toBe(200)
  expect(logged).toContain('/v1/models')
  for (const secret of [key, other.key]) expect(logged).not.toContain(secret.slice(-40))
})

test('P3: failed attempts with x-api-key count like those with Authorization', async () => {
  const attempt = async (headers: Record<string, string>) => (await listModels(headers)).body.reason
  expect(await attempt({ 'x-api-key': 'sk-ant-none' })).toBe('malformed_key')
  expect(await attempt({ 'x-api-key': '' })).toBe('malformed_key')
  const attempts = Array.from({ length: defaultRates.perAddressUnauthenticated }, () => ({
    'x-api-key': 'sk-ant-none',
  }))
  const reasons = await Promise.all(attempts.map(attempt))
  expect(reasons).toContain('rate_limited')
  expect(await attempt({ Authorization: 'Bearer none' })).toBe('rate_limited')
})

test('agents that probe the server with HEAD / get 200', async () => {
  expect((await server.anonymous('HEAD', '/')).status).toBe(200)
})
