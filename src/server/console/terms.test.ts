/** The operator's terms. Promise 58: new terms block new orders, never what runs. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startJourney, succeed, type Journey } from '../../../test/harness/journey.ts'
import { personHeaders } from '../../../test/harness/people.ts'
import { ask } from '../../../test/harness/console.ts'
import type { Call } from '../../../test/harness/server.ts'
import { waitFor } from '../../../test/harness/wait.ts'

let journey: Journey
let owner: { id: string; key: string; call: Call }
let session: Record<string, string>
beforeAll(async () => {
  journey = await startJourney({ env: { BERTH_PUBLIC_URL: 'https://cloud.example' } })
  owner = await journey.account({ usd: '500' })
  session = await personHeaders(journey.app, owner)
})
afterAll(() => journey.close())

const order = {
  kind: 'virtual-machine',
  region: 'us-central-1',
  gpuType: 'h100',
  networkType: 'ethernet',
  gpuCount: 1,
}
const publish = (body: string) => succeed(journey.operator, 'POST', '/v2/operator/terms', { body })

// oxlint-disable-next-line typescript/no-explicit-any
async function asPerson(method: string, path: string, body?: unknown): Promise<any> {
  const answer = await ask(journey.url, path, { method, headers: session, body })
  return { status: answer.status, ...JSON.parse(answer.text) }
}

test('promise 58: new terms block new orders, by keys and sessions, until an owner accepts them; what runs goes on', async () => {
  expect((await journey.anonymous('GET', '/v2/terms')).body).toEqual({ terms: null })
  const rental = await succeed(owner.call, 'POST', '/v2/rentals', order)
  expect((await publish('First')).version).toBe(1)
  expect((await publish('First')).version).toBe(1)
  await waitFor('the terms to count', async () => {
    const refused = await owner.call('POST', '/v2/rentals', order)
    return refused.body.reason === 'terms_not_accepted'
  })
  const create: ReadonlyArray<readonly [string, unknown]> = [
    ['/v2/rentals', order],
    ['/v2/alpha/on-demand/virtual-machine-rentals', { gpuCount: 1 }],
    ['/v1/marketplace/instances/create', { cluster_name: 'x', node_name: 'y', gpu_count: 1 }],
  ]
  for (const [path, body] of create)
    expect([path, (await owner.call('POST', path, body)).body.reason]).toEqual([path, 'terms_not_accepted'])
  expect(await asPerson('POST', '/v2/rentals', order)).toMatchObject({ status: 403, reason: 'terms_not_accepted' })

  // Existing rentals can be read, changed and ended, and the operator's account still orders.
  const path = `/v2/rentals/${rental.id}`
  expect((await owner.call('GET', path)).status).toBe(200)
  expect((await owner.call('PATCH', path, { label: 'goes on' })).status).toBe(200)
  expect((await journey.operator('POST', '/v2/rentals', order)).body.reason).not.toBe('terms_not_accepted')

  expect((await asPerson('GET', '/v2/people/me')).terms).toEqual({ newest: 1, accepted: null, acceptedAt: null })
  expect(await asPerson('POST', '/v2/people/me/terms', { version: 2 })).toMatchObject({ reason: 'terms_outdated' })
  // A key cannot accept.
  expect((await owner.call('POST', '/v2/people/me/terms', { version: 1 })).body.reason).toBe('person_session_required')
  expect(await asPerson('POST', '/v2/people/me/terms', { version: 1 })).toEqual({ status: 200, version: 1 })
  expect((await asPerson('GET', '/v2/people/me')).terms).toEqual({
    newest: 1,
    accepted: 1,
    acceptedAt: journey.now(),
  })
  expect((await owner.call('POST', '/v2/rentals', order)).status).toBe(200)
  const row = await journey.app.database.db.selectFrom('terms_acceptance').selectAll().executeTakeFirstOrThrow()
  expect(row).toMatchObject({ version: 1, address: '127.0.0.1' })

  // A newer version asks again, and the rental of before still ends when its owner says so.
  expect((await publish('Second')).version).toBe(2)
  await waitFor('the newer terms to count', async () => {
    const refused = await owner.call('POST', '/v2/rentals', order)
    return refused.body.reason === 'terms_not_accepted'
  })
  expect((await owner.call('DELETE', path)).status).toBe(200)
})

test('a member who accepts binds nobody; an owner who accepted before and joins does', async () => {
  const other = await journey.account({ usd: '500' })
  const { version } = await publish('Third')
  const refused = async () => (await other.call('POST', '/v2/rentals', order)).body.reason === 'terms_not_accepted'
  await waitFor('the terms to count', refused)
  const { id: personId } = await succeed(owner.call, 'GET', '/v2/users/me')
  expect(await asPerson('POST', '/v2/people/me/terms', { version })).toMatchObject({ status: 200 })
  const { email } = await succeed(owner.call, 'GET', '/v2/users/me')
  await succeed(other.call, 'POST', '/v2/members', { email, role: 'member' })
  expect((await asPerson('POST', `/v2/people/me/offers/${other.id}/accept`)).status).toBe(200)
  expect(await refused()).toBe(true)
  await succeed(other.call, 'PATCH', `/v2/members/${personId}`, { role: 'owner' })
  await waitFor('the order to be possible', async () => !(await refused()))
})
