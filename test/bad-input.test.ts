/**
 * Sends every operation every input that its schema rules out, or a sample of them (harness/walk.ts). Each fault gets the
 * right status and names its field, none causes a server error, and nothing is changed. Inputs at the limits are
 * accepted. All cases come from the OpenAPI description, so a new field is covered without a change here.
 */
import { isDeepStrictEqual } from 'node:util'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { limits } from '../src/base/limits.ts'
import { api, type OperationId } from '../src/contract/api.ts'
import { isInference, type Endpoint } from '../src/contract/endpoint.ts'
import { errorFormOf, openaiForm, v1Form, v2Form, type ErrorForm, type InputPart } from '../src/contract/error-form.ts'
import { eachOf } from '../src/reconcile/loop.ts'
import { examples, makeOwned, type Example, type Owned } from './harness/examples.ts'
import { fingerprint, type Fingerprint } from './harness/fingerprint.ts'
import { bodySchema, parameterFaults, schemas } from './harness/described-input.ts'
import { edgesOf, faultsOf, type Fault, variantOf } from './harness/input-faults.ts'
import { checkLedgerAndEngines, startJourney, succeed, type Journey } from './harness/journey.ts'
import { personHeaders } from './harness/people.ts'
import { send } from './harness/send.ts'
import { sampleOf, walkSeed } from './harness/walk.ts'
import type { Reply } from './harness/exchange.ts'

const operations = Object.entries(api) as Array<[OperationId, Endpoint]>
/** Concurrent calls. */
const AT_ONCE = 8
/** Forms have a test of their own: test/files.test.ts. */
const withBody = operations.filter(([, { body, takes }]) => body !== undefined && takes === undefined)

type Texts = Readonly<Record<string, string>>

let journey: Journey
let its: Owned
const keys = { customer: '', operator: '' }
/** The headers of the signed-in owner. */
let session: Readonly<Record<string, string>>
/** Fingerprint of the database before the first call: a rejected call must not change it. */
let untouched: Fingerprint

beforeAll(async () => {
  journey = await startJourney()
  const scopes = [
    'inference',
    'compute:read',
    'compute:write',
    'billing:read',
    'billing:write',
    'keys',
    'supply',
  ] as const
  const owner = await journey.account({ usd: '5000', scopes: [...scopes], platformFeePercentage: 10 })
  its = await makeOwned(journey, owner)
  const often = { name: 'often', requestsPerMinute: 1_000_000 }
  keys.customer = (await succeed(owner.call, 'POST', '/v2/api-keys', { ...often, scopes })).key
  keys.operator = (await succeed(journey.operator, 'POST', '/v2/api-keys', { ...often, scopes: ['operator'] })).key
  session = await personHeaders(journey.app, owner)
  untouched = await fingerprint(journey.app)
})
afterAll(() => journey.close())

function call(operation: OperationId, change: Example, headers: Record<string, string> = {}): Promise<Reply> {
  const endpoint: Endpoint = api[operation]
  const key = endpoint.access.includes('operator') ? keys.operator : keys.customer
  const isPersons = endpoint.access === 'person'
  const credentials = isPersons ? session : endpoint.access === 'public' ? {} : { Authorization: `Bearer ${key}` }
  return send(journey.url, endpoint, { ...examples[operation](its), ...change }, { ...credentials, ...headers })
}

/** What the error says in every form. */
function verdictOf(endpoint: Endpoint, { status, body }: Reply, part: InputPart) {
  const errorForm = errorFormOf(endpoint)
  if (errorForm === v2Form) {
    const paths = (body.issues ?? []).map((issue: { path: unknown }) => JSON.stringify(issue.path))
    return { status, title: [body.code, body.message], paths: [...new Set(paths)] }
  }
  // Other forms name the field only in their text.
  if (errorForm !== v1Form && errorForm !== openaiForm) {
    return { status, title: [errorForm.schemaOf(status).strict().safeParse(body).success], paths: [] }
  }
  const detail: Array<{ loc: unknown[] }> = body.detail ?? []
  const paths = detail.filter(({ loc }) => loc[0] === part).map(({ loc }) => JSON.stringify(loc.slice(1)))
  return { status, title: [body.object, body.type, body.code, body.error?.code], paths: [...new Set(paths)] }
}

function expectedOf(endpoint: Endpoint, paths: ReadonlyArray<Fault['path']>, malformed: boolean) {
  const errorForm = errorFormOf(endpoint)
  const texts = paths.map((path) => JSON.stringify(path))
  if (errorForm === v2Form) return { status: 400, title: ['BAD_REQUEST', 'Input validation failed'], paths: texts }
  if (errorForm !== v1Form && errorForm !== openaiForm)
    return { status: statusOfInvalid(errorForm, malformed), title: [true], paths: [] }
  const status = malformed ? 422 : 400
  const code = errorForm === openaiForm ? null : status
  return { status, title: ['error', 'invalid_request_error', status, code], paths: texts }
}

function statusOfInvalid(form: ErrorForm, malformed: boolean): number {
  return form.writeInvalid('body', [{ code: 'custom', path: ['model'], message: 'Wrong', malformed, input: 1 }]).status
}

/** Sends each input and returns those with a wrong response. */
async function misjudged(
  operation: OperationId,
  faults: readonly Fault[],
  part: InputPart,
  toExample: (fault: Fault) => Example,
): Promise<unknown[]> {
  const endpoint: Endpoint = api[operation]
  const wrong: unknown[] = []
  await eachOf(sampleOf(faults), AT_ONCE, async (fault) => {
    const verdict = verdictOf(endpoint, await call(operation, toExample(fault)), part)
    const expected = expectedOf(endpoint, [fault.path], fault.malformed)
    if (!isDeepStrictEqual(verdict, expected))
      wrong.push({ walkSeed, fault: [...fault.path, fault.what], verdict, expected })
  })
  return wrong
}

/** Once for a group: the digest of all tables takes longer than most calls. */
async function nothingChanged(): Promise<void> {
  const before = untouched
  untouched = await fingerprint(journey.app)
  expect(Object.keys(untouched).filter((table) => untouched[table] !== before[table])).toEqual([])
}

describe('names the field of each single fault in a body', () => {
  test.each(withBody)('%s', async (operation, endpoint) => {
    const faults = faultsOf(bodySchema(endpoint), examples[operation](its).body, schemas)
    expect(faults.length).toBeGreaterThan(5)
    expect(await misjudged(operation, faults, 'body', ({ value }) => ({ body: JSON.stringify(value) }))).toEqual([])
  })
  test('nothing was changed', nothingChanged)
})

describe('names all faults of a body at once', () => {
  test.each(withBody)('%s', async (operation, endpoint) => {
    const sample = examples[operation](its).body as Record<string, unknown>
    const single = faultsOf(variantOf(bodySchema(endpoint), sample, schemas), sample, schemas).filter(
      ({ path, malformed, what }) => {
        return path.length === 1 && malformed && what !== 'missing' && what !== 'unknown key'
      },
    )
    const perField = new Map(single.map((fault) => [fault.path[0] as string, fault]))
    const values = [...perField].map(([name, { value }]) => [name, (value as Record<string, unknown>)[name]])
    const reply = await call(operation, { body: { ...sample, ...Object.fromEntries(values) } })
    const verdict = verdictOf(endpoint, reply, 'body')
    const expected = expectedOf(
      endpoint,
      [...perField.values()].map(({ path }) => path),
      true,
    )
    expect({ ...verdict, paths: new Set(verdict.paths) }).toEqual({ ...expected, paths: new Set(expected.paths) })
  })
})

describe('names the parameter of each single fault in a query', () => {
  test.each(operations.filter(([, { query }]) => query !== undefined))('%s', async (operation, endpoint) => {
    const faults = parameterFaults(endpoint, 'query', examples[operation](its).query ?? {})
    expect(faults).not.toEqual([])
    expect(await misjudged(operation, faults, 'query', ({ value }) => ({ query: value as Texts }))).toEqual([])
  })
  test('nothing was changed', nothingChanged)
})

describe('names the parameter of each single fault in a path', () => {
  test.each(operations.filter(([, { params }]) => params !== undefined))('%s', async (operation, endpoint) => {
    const faults = parameterFaults(endpoint, 'path', examples[operation](its).params ?? {})
    expect(faults).not.toEqual([])
    expect(await misjudged(operation, faults, 'path', ({ value }) => ({ params: value as Texts }))).toEqual([])
  })
  test('nothing was changed', nothingChanged)
})

describe('rejects an unreadable body before validating it', () => {
  test.each(withBody)('%s', async (operation, endpoint) => {
    const most = endpoint.maxBytes ?? (isInference(endpoint) ? limits.inferenceBodyBytes : limits.bodyBytes)
    // Below the body limit for callers without a key.
    const deep = `{"deep":${'['.repeat(30_000)}${']'.repeat(30_000)}}`
    const cases: ReadonlyArray<[what: string, body: string, headers: Record<string, string>, status: number]> = [
      ['bad JSON', '{"a":', {}, 400],
      ['nothing', '', {}, statusOfInvalid(errorFormOf(endpoint), true)],
      ['a wrong type', '{}', { 'Content-Type': 'text/plain' }, 415],
      ['a form', 'a=1', { 'Content-Type': 'application/x-www-form-urlencoded' }, 415],
      ['too large', JSON.stringify('x'.repeat(most)), {}, 413],
      ['very deep', deep, {}, 400],
      ['a prototype', '{"__proto__":{"admin":true}}', {}, 400],
      ['a constructor', '{"constructor":{"prototype":{"admin":true}}}', {}, 400],
      ['U+0000 in a key', String.raw`{"a\u0000":1}`, {}, 400],
      ['infinity', '{"gpuCount":1e400,"gpu_count":1e400,"model":1e400,"filters":{"max_price":1e400}}', {}, 400],
    ]
    for (const [what, body, headers, status] of cases) {
      const reply = await call(operation, { body }, headers)
      expect([what, reply.status, reply.body]).toEqual([what, status, reply.body])
      expect(errorFormOf(endpoint).schemaOf(status).strict().safeParse(reply.body).error?.issues ?? []).toEqual([])
      expect(reply.headers.get('x-request-id')).toMatch(/^req_/)
    }
  })
  test('nothing was changed', nothingChanged)
})

describe('rules that a schema cannot express', () => {
  const machine = '/v2/alpha/on-demand/virtual-machine-rentals'
  const asCustomer = (...request: Parameters<Journey['demo']>) => journey.as(keys.customer)(...request)

  test('lists the known marketplace filters when one is unknown', async () => {
    const reply = await journey.anonymous('POST', '/v1/marketplace', { filters: { gpu_modell: 'h100' } })
    expect(reply.status).toBe(422)
    const known = Object.keys(schemas['MarketplaceFilters']?.properties ?? {})
    expect(known).toHaveLength(9)
    expect(reply.body.detail).toEqual([
      {
        type: 'unrecognized_keys',
        loc: ['body', 'filters', 'gpu_modell'],
        msg: `Unknown key; allowed: ${known.join(', ')}`,
        input: 'h100',
      },
    ])
  })

  test('explains limits that the interface does not name', async () => {
    const label = await asCustomer('POST', machine, { gpuCount: 1, label: 'x'.repeat(limits.labelChars + 1) })
    expect([label.status, label.body.issues[0].path]).toEqual([400, ['label']])
    const rentalIds = Array.from({ length: limits.attachmentsPerVolume + 1 }, (_, n) => n + 1)
    const attach = await asCustomer('POST', '/v2/alpha/on-demand/storage-volumes/attach', {
      storageVolumeId: 1,
      rentalIds,
    })
    expect([attach.status, attach.body.issues[0].path]).toEqual([400, ['rentalIds']])
    const tooLate = '9999-12-31T23:59:59-12:00'
    const end = await asCustomer('POST', machine, { gpuCount: 1, autoTerminateAt: tooLate })
    expect([end.status, end.body.issues[0].path]).toEqual([400, ['autoTerminateAt']])
  })

  test('answers a malformed URL with the error body of its API family', async () => {
    for (const address of ['/v2/webhooks/%zz/deliveries', `/v2/webhooks/${'a'.repeat(500)}/deliveries`]) {
      const reply = await asCustomer('GET', address)
      expect(reply.body).toEqual({
        code: 'BAD_REQUEST',
        message: expect.any(String),
        reason: 'bad_request',
      })
      expect([reply.status, reply.headers.get('x-request-id')]).toEqual([400, expect.stringMatching(/^req_/)])
    }
    const v1 = await asCustomer('GET', '/v1/%zz')
    expect([v1.status, v1.body.object]).toEqual([400, 'error'])
    expect((await asCustomer('GET', '/v2/nothing')).body).toMatchObject({ code: 'NOT_FOUND', reason: 'unknown_path' })
    expect((await asCustomer('GET', '/v1/nothing')).body).toMatchObject({ object: 'error', code: 404 })
  })

  test('rejects a repeated parameter and an unknown cursor', async () => {
    expect((await asCustomer('GET', '/v2/events?limit=1&limit=2')).status).toBe(400)
    for (const list of ['/v2/events', '/v2/customer/statement', `/v2/webhooks/${its.webhook}/deliveries`]) {
      expect([list, (await asCustomer('GET', `${list}?cursor=forged`)).status]).toEqual([list, 400])
    }
    for (const list of ['accounts', 'machines', 'rentals', 'audit']) {
      const reply = await journey.as(keys.operator)('GET', `/v2/operator/${list}?cursor=forged`)
      expect([list, reply.status]).toEqual([list, 400])
    }
    expect((await journey.anonymous('POST', '/v1/marketplace?cursor=%21', {})).status).toBe(400)
  })

  test('accepts only a printable Idempotency-Key of limited length', async () => {
    for (const key of ['x'.repeat(limits.idempotencyKeyChars + 1), 'é']) {
      const reply = await asCustomer('POST', machine, { gpuCount: 1 }, { 'Idempotency-Key': key })
      expect([reply.status, reply.body.reason]).toEqual([400, 'bad_idempotency_key'])
    }
  })

  test('nothing was changed', nothingChanged)
})

/** From here on data changes: these inputs are valid, or wrong in ways no schema can express. */
describe('accepts inputs at their limits', () => {
  test.each(withBody)('%s', async (operation, endpoint) => {
    const refused: unknown[] = []
    const edges = edgesOf(bodySchema(endpoint), examples[operation](its).body, schemas)
    await eachOf(sampleOf(edges), AT_ONCE, async ({ what, value }) => {
      const reply = await call(operation, { body: value })
      // A rule about two fields, which no schema of one field has.
      const isRule = reply.body.issues?.every(({ code }: { code: string }) => code === 'custom') === true
      const isRefused = (reply.body.message === 'Input validation failed' && !isRule) || reply.body.detail !== undefined
      if (isRefused || reply.status >= 500) refused.push([what, reply.status, reply.body])
    })
    expect(refused).toEqual([])
  })

  test.each(withBody)('%s: no number causes a server error', async (operation, endpoint) => {
    const numbers = [1e308, -1e308, 2 ** 31, 2 ** 63]
    const sample = examples[operation](its).body as Record<string, unknown>
    const fields = faultsOf(bodySchema(endpoint), sample, schemas).filter(({ path }) => path.length > 0)
    const wrong: unknown[] = []
    for (const name of new Set(fields.map(({ path }) => path[0] as string))) {
      await eachOf(sampleOf(numbers), AT_ONCE, async (number) => {
        const reply = await call(operation, { body: { ...sample, [name]: number } })
        if (reply.status >= 500) wrong.push([name, number, reply.body])
      })
    }
    expect(wrong).toEqual([])
  })

  test('the ledger is consistent afterwards', async () => expect(await checkLedgerAndEngines(journey)).toEqual([]))
})
