/** A create that a client repeats because it got no response happens once. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { DAY_MS, MINUTE_MS } from '../../src/base/instant.ts'
import { api, type OperationId } from '../../src/contract/api.ts'
import type { Endpoint } from '../../src/contract/endpoint.ts'
import { exampleBodies } from '../../src/contract/openapi/example-body.ts'
import { examples, formOf, makeOwned, messageBatchOf, type Example, type Owned } from '../harness/examples.ts'
import { fingerprint } from '../harness/fingerprint.ts'
import { checkLedgerAndEngines, startJourney, succeed, type Journey } from '../harness/journey.ts'
import { send } from '../harness/send.ts'
import type { Call } from '../harness/server.ts'
import { manualClock } from '../sim/clock.ts'
import { StripeSimulator } from '../sim/stripe-server.ts'

const path = '/v2/alpha/on-demand/virtual-machine-rentals'
const order = { gpuCount: 1, region: 'mock-region', label: 'once' }

let journey: Journey
let stripe: StripeSimulator
let ada: { id: string; key: string; call: Call }
let its: Owned
beforeAll(async () => {
  // Nothing listens there: what matters is that messages are queued.
  const mail = { BERTH_SMTP_URL: 'smtp://127.0.0.1:9', BERTH_MAIL_FROM: 'berth@cloud.example' }
  stripe = await StripeSimulator.open(manualClock())
  journey = await startJourney({ env: { ...stripe.env, ...mail, BERTH_PUBLIC_URL: 'https://cloud.example' } })
  const scopes = [
    'inference',
    'compute:read',
    'compute:write',
    'billing:read',
    'billing:write',
    'keys',
    'supply',
  ] as const
  ada = await journey.account({ usd: '5000', scopes: [...scopes], platformFeePercentage: 10 })
  its = await makeOwned(journey, ada)
})
afterAll(async () => {
  await journey.close()
  await stripe.close()
})

const heldBy = async (by: Call): Promise<string> => (await succeed(by, 'GET', '/v2/customer/balance')).heldUsd

test('twenty concurrent requests with one key and one body: one rental and twenty equal responses', async () => {
  const bob = await journey.account({ usd: '100' })
  const headers = { 'Idempotency-Key': 'order-1' }
  const replies = await Promise.all(Array.from({ length: 20 }, () => bob.call('POST', path, order, headers)))
  expect(replies.map((reply) => reply.status)).toEqual(replies.map(() => 200))
  expect(new Set(replies.map((reply) => JSON.stringify(reply.body))).size).toBe(1)
  expect(await succeed(bob.call, 'GET', path)).toHaveLength(1)
  expect(await heldBy(bob.call)).toBe('2.490000000')
})

test('repeats a response with a secret to the same API key only', async () => {
  const headers = { 'Idempotency-Key': 'deploy-1' }
  const wanted = { name: 'deploy', scopes: ['compute:write'] }
  const lesser = await succeed(ada.call, 'POST', '/v2/api-keys', { name: 'lesser', scopes: ['keys'] })
  const made = await succeed(ada.call, 'POST', '/v2/api-keys', wanted, headers)
  expect(await succeed(ada.call, 'POST', '/v2/api-keys', wanted, headers)).toEqual(made)
  const stolen = await journey.as(lesser.key as string)('POST', '/v2/api-keys', wanted, headers)
  expect([stolen.status, stolen.body.reason]).toEqual([400, 'idempotency_key_reused'])
  expect(JSON.stringify(stolen.body)).not.toContain(made.key)
})

test('rejects a reused key with a different body; keys of other accounts are independent', async () => {
  const headers = { 'Idempotency-Key': 'order-2' }
  const first = await succeed(ada.call, 'POST', path, order, headers)
  const before = await fingerprint(journey.app)
  for (const body of [{ ...order, label: 'other' }, { gpuCount: 1 }]) {
    const reply = await ada.call('POST', path, body, headers)
    expect([reply.status, reply.body.code, reply.body.reason]).toEqual([400, 'BAD_REQUEST', 'idempotency_key_reused'])
  }
  const elsewhere = await ada.call(
    'POST',
    '/v1/marketplace/instances/create',
    examples.createInstance(its).body,
    headers,
  )
  expect([elsewhere.status, elsewhere.body.reason]).toEqual([400, 'idempotency_key_reused'])
  expect(await fingerprint(journey.app)).toEqual(before)
  // An omitted field and its default value are the same order.
  const same = await succeed(ada.call, 'POST', path, { networkType: 'ethernet', gpuType: 'h100', ...order }, headers)
  expect(same).toEqual(first)
  const bob = await journey.account({ usd: '100' })
  expect((await succeed(bob.call, 'POST', path, order, headers)).id).not.toBe(first.id)
})

test('a rejected create can be retried under its key', async () => {
  const poor = await journey.account()
  const headers = { 'Idempotency-Key': 'order-3' }
  expect((await poor.call('POST', path, order, headers)).status).toBe(403)
  await succeed(journey.operator, 'POST', `/v2/operator/accounts/${poor.id}/credit`, { amountUsd: '5', reason: 'paid' })
  expect((await poor.call('POST', path, order, headers)).status).toBe(200)
})

test('remembers a response for a day', async () => {
  const headers = { 'Idempotency-Key': 'order-4' }
  const first = await succeed(ada.call, 'POST', path, order, headers)
  await journey.advance(DAY_MS - MINUTE_MS)
  expect((await succeed(ada.call, 'POST', path, order, headers)).id).toBe(first.id)
  await journey.advance(2 * MINUTE_MS)
  expect((await succeed(ada.call, 'POST', path, order, headers)).id).not.toBe(first.id)
})

const creates = (Object.entries(api) as Array<[OperationId, Endpoint]>).filter(
  ([, { idempotent }]) => idempotent === true,
)

test.each(creates)('%s: sent twice with one key, it happens once', async (operation, endpoint) => {
  const key = endpoint.access.includes('operator') ? journey.operatorKey : ada.key
  const headers = { Authorization: `Bearer ${key}`, 'Idempotency-Key': `twice-${operation}` }
  const example = examples[operation](its)
  const first = await send(journey.url, endpoint, example, headers)
  expect([first.status, first.body]).toEqual([200, first.body])
  const before = await fingerprint(journey.app)
  const second = await send(journey.url, endpoint, example, headers)
  // Payments report that they were already made; everything else is identical, including secrets shown only once.
  expect(second.body).toEqual('replayed' in first.body ? { ...first.body, replayed: true } : first.body)
  const other = otherRequest(operation, example)
  expect(comparable(other), `otherBody needs a change for ${operation}`).not.toEqual(comparable(example))
  const reused = await send(journey.url, endpoint, other, headers)
  expect([reused.status, reused.body.reason]).toEqual([400, 'idempotency_key_reused'])
  expect(await fingerprint(journey.app)).toEqual(before)
})

/** Two forms are equal to `toEqual`, whatever they contain. */
function comparable({ body, ...example }: Example): unknown {
  if (!(body instanceof FormData)) return { ...example, body }
  return { ...example, body: [...body].map(([name, value]) => [name, typeof value === 'string' ? value : value.name]) }
}

function otherRequest(operation: OperationId, example: Example): Example {
  // It has no body: what differs is the machine.
  if (operation === 'rebootRental') return { ...example, params: { id: its.instance } }
  // Its requests name a model of this journey.
  if (operation === 'createMessageBatch') return { body: messageBatchOf(its.model, 'other') }
  // A form is no plain object.
  if (operation === 'uploadFile') return { body: formOf({ ...exampleBodies.uploadFile, file: 'other.jsonl' }) }
  return { ...example, body: { ...(example.body as object), ...otherBody[operation] } }
}

/** Turns it into a different request. */
const otherBody: { readonly [Op in OperationId]?: object } = {
  createBareMetalRental: { label: 'other' },
  createVirtualMachineRental: { label: 'other' },
  createRental: { label: 'other' },
  createGroup: { label: 'other' },
  createVolume: { label: 'other' },
  cloneVolume: { label: 'other' },
  createPortToken: { name: 'other' },
  createTemplate: { name: 'Other' },
  addRegistryCredential: { name: 'other' },
  createBudget: { name: 'Other' },
  createManagedDeployment: { name: 'other' },
  createJob: { name: 'other' },
  createJobSchedule: { name: 'other' },
  createBatch: { metadata: { run: 'other' } },
  createInstance: { gpu_count: 2 },
  createCheapestInstance: { gpuCount: 2 },
  addMember: { role: 'viewer' },
  createInvitation: { role: 'viewer' },
  createSignUpInvitation: { email: 'other@example.com' },
  createApiKey: { name: 'other' },
  rotateApiKey: { graceHours: 2 },
  addSshKey: { name: 'other' },
  createWebhook: { description: 'other' },
  createAccount: { name: 'other' },
  addSsoProvider: { name: 'Other' },
  creditAccount: { amountUsd: '99.00' },
  adjustAccount: { amountUsd: '-2.51' },
  createTopUp: { amountUsd: '99.00' },
  refundPayment: { amountUsd: '0.02' },
  exportPayoutRun: { eurRate: '0.93' },
  refundCharge: { amountUsd: '0.02' },
  payOutSupplier: { amountUsd: '0.02' },
  restoreOwner: { ownerEmail: 'other@example.com' },
  createModel: { contextTokens: 999 },
  createDeployment: { weight: 7 },
  createJoinToken: { uses: 7 },
  addHost: { clusterName: 'other' },
  addBaseImage: { loginUser: 'other' },
}

test('the ledger is consistent afterwards', async () => {
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})
