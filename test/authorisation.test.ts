/**
 * Calls every operation of the contract with each kind of wrong key and with the right one. The cases come from the
 * endpoint table, so a new operation is covered as soon as it has an example.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { errorFormOf, openaiForm, v1Form } from '../src/contract/error-form.ts'
import { api, type OperationId } from '../src/contract/api.ts'
import { isInference, scopes, type Access, type Endpoint, type Scope } from '../src/contract/endpoint.ts'
import { absent, examples, makeOwned, type Example, type Owned } from './harness/examples.ts'
import { fingerprint, type Fingerprint } from './harness/fingerprint.ts'
import { checkLedgerAndEngines, startJourney, succeed, type Journey } from './harness/journey.ts'
import { personHeaders } from './harness/people.ts'
import { send } from './harness/send.ts'
import type { Reply } from './harness/exchange.ts'
import type { Call } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'

type Headers = Readonly<Record<string, string>>

const operations = Object.entries(api) as Array<[OperationId, Endpoint]>
const open = operations.filter(([, { access }]) => access === 'public')
const keyed = operations.filter(([, { access }]) => access !== 'public')
const isOperators = ({ access }: Endpoint): boolean => access.includes('operator')
const isOwned = (operation: OperationId): boolean => examples[operation]?.(absent).owned === true
const customerScopes = scopes.filter((scope) => scope !== 'operator')

let journey: Journey
let owner: { id: string; key: string; call: Call }
let stranger: { id: string; key: string; call: Call }
let its: Owned
/** The headers of the signed-in owner of each account. */
let sessions: { readonly owner: Headers; readonly stranger: Headers }
/** The Authorization header to send, and the expected status and reason. */
let wrongKeys: Array<{ what: string; header: string | undefined; status: 401 | 403; reason: string }>
/** Keys by scope. They belong to the owner, or to the operator for scopes only the operator has. */
const keys = new Map<string, string>()
/** Fingerprint of the database before the first call: a rejected call must not change it. */
let untouched: Fingerprint

beforeAll(async () => {
  journey = await startJourney({
    env: {
      BERTH_TRUST_PROXY: '1',
      BERTH_APPS_DOMAIN: 'apps.example.test',
      BERTH_PUBLIC_URL: 'https://cloud.example',
    },
  })
  const options = { usd: '5000', scopes: [...customerScopes], platformFeePercentage: 10 }
  owner = await journey.account(options)
  stranger = await journey.account(options)
  its = await makeOwned(journey, owner)
  wrongKeys = await makeWrongKeys()
  const { app } = journey
  sessions = { owner: await personHeaders(app, owner), stranger: await personHeaders(app, stranger) }
  for (const [, { access }] of keyed) {
    for (const held of [...acceptedScopeSets(access), ...rejectedScopeSets(access)]) await makeKey(held)
  }
  untouched = await fingerprint(journey.app)
})
afterAll(() => journey.close())

async function makeWrongKeys(): Promise<typeof wrongKeys> {
  const make = (name: string, more: object = {}) =>
    succeed(owner.call, 'POST', '/v2/api-keys', { name, scopes: customerScopes, ...more })
  const expiresAt = new Date(journey.clock.now() + 60_000).toISOString()
  const expired = await make('expired', { expiresAt })
  const revoked = await make('revoked')
  await succeed(owner.call, 'DELETE', `/v2/api-keys/${revoked.publicId}`)
  const isRefused = async (key: string, status: number) =>
    (await journey.as(key)('GET', '/v2/users/me')).status === status
  await waitFor('the revoked key to be refused', () => isRefused(revoked.key, 401))
  journey.clock.advance(60_000)
  const suspended = await journey.account({ usd: '100', scopes: [...customerScopes] })
  const change = { suspended: true, reason: 'does not pay' }
  await succeed(journey.operator, 'PATCH', `/v2/operator/accounts/${suspended.id}`, change)
  await waitFor('the account to be suspended', () => isRefused(suspended.key, 403))
  const last = owner.key.at(-1) === 'a' ? 'b' : 'a'
  return [
    { what: 'no key', header: undefined, status: 401, reason: 'missing_key' },
    { what: 'not a Bearer header', header: `Basic ${owner.key}`, status: 401, reason: 'not_bearer' },
    { what: 'a malformed key', header: 'Bearer bk_short', status: 401, reason: 'malformed_key' },
    { what: 'a typo', header: `Bearer ${owner.key.slice(0, -1)}${last}`, status: 401, reason: 'mistyped_key' },
    { what: 'a revoked key', header: `Bearer ${revoked.key}`, status: 401, reason: 'invalid_key' },
    { what: 'an expired key', header: `Bearer ${expired.key}`, status: 401, reason: 'expired_key' },
    { what: 'a suspended account', header: `Bearer ${suspended.key}`, status: 403, reason: 'account_suspended' },
  ]
}

/** Scope sets that grant access: each named scope is enough on its own. */
function acceptedScopeSets(access: Access): Scope[][] {
  return Array.isArray(access) ? access.map((scope: Scope) => [scope]) : [['inference']]
}

/** A session for operations of people, a key with these scopes for the others. */
function acceptedHeaders({ access }: Endpoint, held: readonly Scope[]): Headers {
  return access === 'person' ? sessions.owner : { Authorization: `Bearer ${keys.get(held.join(' '))}` }
}

function strangersHeaders({ access }: Endpoint): Headers {
  return access === 'person' ? sessions.stranger : { Authorization: `Bearer ${stranger.key}` }
}

/** All scopes that do not grant access: every scope for people. Empty where any key is accepted. */
function rejectedScopeSets(access: Access): Scope[][] {
  if (access === 'person') return [customerScopes]
  return Array.isArray(access) ? [customerScopes.filter((scope) => !access.includes(scope))] : []
}

async function makeKey(held: readonly Scope[]): Promise<void> {
  const name = held.join(' ')
  if (keys.has(name)) return
  const maker = held.includes('operator') ? journey.operator : owner.call
  const { key } = await succeed(maker, 'POST', '/v2/api-keys', { name, scopes: held })
  keys.set(name, key)
}

function call(operation: OperationId, example: Example, headers: Headers): Promise<Reply> {
  return send(journey.url, api[operation], example, {
    ...headers,
    // Failed attempts are rate-limited by address.
    'X-Forwarded-For': `10.1.0.${Object.keys(api).indexOf(operation)}`,
  })
}

function authorizationOf(header: string | undefined): Headers {
  return header === undefined ? {} : { Authorization: header }
}

/** The error body of the operation's form, with a request id. */
function expectErrorPage(endpoint: Endpoint, reply: Reply, status: number): void {
  expect(reply.status).toBe(status)
  const isV1 = [v1Form, openaiForm].includes(errorFormOf(endpoint))
  expect(errorFormOf(endpoint).schemaOf(status).strict().parse(reply.body)).toMatchObject(isV1 ? { code: status } : {})
  expect(reply.headers.get('x-request-id')).toMatch(/^req_/)
}

test('every operation has an example whose path ids belong to the test account', () => {
  expect(Object.keys(examples).toSorted()).toEqual(Object.keys(api).toSorted())
  const forgotten = keyed.filter(([operation, endpoint]) => {
    // Models belong to no account: every account sees the same ones.
    const isCatalog = endpoint.path.startsWith('/v1/models/')
    return endpoint.path.includes('{id}') && !isCatalog && !isOperators(endpoint) && !isOwned(operation)
  })
  expect(forgotten).toEqual([])
})

/** Once for a group: the digest of all tables takes longer than most calls. */
async function nothingChanged(): Promise<void> {
  expect(await fingerprint(journey.app)).toEqual(untouched)
}

describe('a public operation accepts calls without a key or with any key', () => {
  // Some write, such as the login of a device.
  afterAll(async () => {
    untouched = await fingerprint(journey.app)
  })
  test.each(open)('%s', async (operation) => {
    for (const { what, header } of wrongKeys) {
      const reply = await call(operation, examples[operation](its), authorizationOf(header))
      // A device whose login nobody has approved yet.
      const isWaiting = ['authorization_pending', 'slow_down'].includes(reply.body?.reason)
      expect([what, isWaiting ? 200 : reply.status]).toEqual([what, 200])
    }
  })
})

describe('rejects an invalid key and a key without the scope, and changes nothing', () => {
  test.each(keyed)('%s', async (operation, endpoint) => {
    const lacking = rejectedScopeSets(endpoint.access).map((held) => ({
      what: `only ${held.join(', ')}`,
      header: `Bearer ${keys.get(held.join(' '))}`,
      status: 403,
      reason: endpoint.access === 'person' ? 'person_session_required' : 'missing_scope',
    }))
    for (const { what, header, status, reason } of [...wrongKeys, ...lacking]) {
      const reply = await call(operation, examples[operation](its), authorizationOf(header))
      expect([what, reply.body.reason]).toEqual([what, reason])
      expectErrorPage(endpoint, reply, status)
    }
  })
  test('nothing was changed', nothingChanged)
})

describe("another account's resources are not found and do not change", () => {
  const naming = keyed.filter(([operation, endpoint]) => isOwned(operation) && !isOperators(endpoint))
  test.each(naming)('%s', async (operation, endpoint) => {
    const foreign = await call(operation, examples[operation](its), strangersHeaders(endpoint))
    const missing = await call(operation, examples[operation](absent), strangersHeaders(endpoint))
    const status = endpoint.family === 'v1' || endpoint.errors.includes(404) ? 404 : 400
    expectErrorPage(endpoint, foreign, status)
    expectErrorPage(endpoint, missing, status)
    expect(withoutIds(foreign.body, its)).toBe(withoutIds(missing.body, absent))
  })
  test('nothing was changed', nothingChanged)

  const reading = keyed.filter(([operation, endpoint]) => {
    return endpoint.method === 'GET' && !isOwned(operation) && !isOperators(endpoint)
  })
  test.each(reading)('%s', async (operation, endpoint) => {
    const reply = await call(operation, examples[operation](its), strangersHeaders(endpoint))
    expect(reply.status).toBe(200)
    const shown = JSON.stringify(reply.body)
    for (const secret of [its.account, its.instanceToEnd, its.webhook, its.member]) expect(shown).not.toContain(secret)
  })
})

/** The response body with the requested ids, and that of the request, removed. */
function withoutIds(body: unknown, ids: Owned): string {
  let text = JSON.stringify(body).replaceAll(/\breq_\w+/g, '…')
  for (const id of Object.values(ids)) text = text.replaceAll(new RegExp(String.raw`\b${id}\b`, 'g'), '…')
  return text
}

describe('accepts a key that has only the required scope', () => {
  test.each(keyed)('%s', async (operation, endpoint) => {
    for (const [index, held] of acceptedScopeSets(endpoint.access).entries()) {
      const reply = await call(operation, examples[operation](its), acceptedHeaders(endpoint, held))
      expect(reply.headers.get('x-request-id')).toMatch(/^req_/)
      // An earlier call may have used up the example's resource; a server without model engines accepts the key and
      // then finds no model; a simulated machine has no logs; a test server sends no e-mail, takes no payments and has no clusters or
      // provider accounts.
      const lacks = [
        'model_not_found',
        'simulated_machine',
        'mail_not_configured',
        'payments_off',
        'cluster_not_found',
        'provider_not_found',
        'missing_credential',
        'people_not_configured',
        'invitation_not_found',
        'not_a_device',
        'oauth_client_unreachable',
        'terms_outdated',
        'person_not_found',
        'sso_provider_not_found',
        'identity_not_found',
        // A job that has not run has no output, and a batch that has not ended no results.
        'job_output_not_found',
        'batch_not_ended',
        // Payouts need earnings of weeks.
        'nothing_to_pay_out',
        'payout_run_not_draft',
        'nothing_to_settle',
      ]
      const mayRefuse = index > 0 || isInference(endpoint) || lacks.includes(reply.body?.reason)
      const letIn = mayRefuse ? ![401, 403, 429, 500].includes(reply.status) : reply.status === 200
      expect([letIn, reply.status, reply.body]).toEqual([true, reply.status, reply.body])
    }
  })

  test('the ledger is consistent afterwards', async () => {
    expect(await checkLedgerAndEngines(journey)).toEqual([])
  })
})
