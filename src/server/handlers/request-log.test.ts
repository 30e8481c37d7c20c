/** Pages contain each request once, filters work, and only the account can read its bodies. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  openTestAccount,
  startIdentityTest,
  type IdentityTest,
  type TestAccount,
} from '../../../test/harness/identity.ts'
import { addMs, type Instant } from '../../base/instant.ts'
import { api } from '../../contract/api.ts'
import type { QueryOf } from '../../contract/endpoint.ts'
import { encodeCursor } from '../http/cursor.ts'
import { requestLogHandlers as handlers } from './request-log.ts'
import { writeRequest } from '../../../test/harness/ended-request.ts'
import { noUnits } from '../../domain/inference.ts'
import { nanoUsdOf } from '../../base/money.ts'
import { valueOf } from '../../../test/harness/value.ts'

let fixture: IdentityTest
let account: TestAccount
let start: Instant
beforeAll(async () => {
  fixture = await startIdentityTest()
  account = await openTestAccount(fixture)
  start = fixture.clock.now()
  // Two per instant, so that time alone does not order them.
  for (let n = 0; n < 6; n += 1) await log(`req_${n}`, { at: addMs(start, Math.floor(n / 2) * 1_000) })
  await log('req_cut', { outcome: 'cut', model: 'owner/other', keyId: 'another-key', at: addMs(start, 60_000) })
})
afterAll(() => fixture.close())

async function log(
  requestId: string,
  more: {
    at: Instant
    outcome?: 'answered' | 'cut'
    model?: string
    operation?: string
    keyId?: string
    bodies?: [string, string]
  },
): Promise<void> {
  const seal = (text: string | undefined): string | null => (text === undefined ? null : fixture.app.vault.seal(text))
  await writeRequest(fixture.database.db, {
    requestId,
    accountId: account.accountId,
    apiKeyId: more.keyId ?? account.actor.keyId,
    model: more.model ?? 'owner/model',
    at: more.at,
    ...(more.operation === undefined ? {} : { operation: more.operation }),
    outcome: more.outcome ?? 'answered',
    streamed: true,
    units: { ...noUnits, inputTokens: 12, cachedTokens: 2, outputTokens: 30 },
    cost: nanoUsdOf(1500n),
    firstByteMs: 5,
    totalMs: 80,
    traceId: 'a'.repeat(32),
    requestBody: seal(more.bodies?.[0]),
    responseBody: seal(more.bodies?.[1]),
  })
}

type Query = QueryOf<typeof api.listInferenceRequests>
const rest = { body: undefined, allowedModels: null, requestId: 'req_x', idempotencyKey: undefined }
const ask = (query: Query, by = account) =>
  handlers.listInferenceRequests(fixture.app, {
    ...rest,
    operation: 'listInferenceRequests',
    actor: by.actor,
    params: undefined,
    query,
  })
const list = async (query: Query, by = account) => valueOf(await ask(query, by), api.listInferenceRequests.response)
const idsOf = async (query: Partial<Query>) =>
  (await list({ limit: 100, ...query })).requests.map(({ requestId }) => requestId)
const get = (id: string, by = account) =>
  handlers.getInferenceRequest(fixture.app, {
    ...rest,
    operation: 'getInferenceRequest',
    actor: by.actor,
    params: { id },
    query: undefined,
  })

describe('the list', () => {
  test('is paged newest first, each request once', async () => {
    const seen: string[] = []
    let cursor: string | undefined
    do {
      const page = await list({ limit: 3, ...(cursor === undefined ? {} : { cursor }) })
      expect(page.requests.length).toBeLessThanOrEqual(3)
      seen.push(...page.requests.map(({ requestId }) => requestId))
      cursor = page.nextCursor ?? undefined
    } while (cursor !== undefined)
    expect(seen).toEqual(['req_cut', 'req_4', 'req_5', 'req_2', 'req_3', 'req_0', 'req_1'])
  })

  test('shows usage, cost and time of a request, but not its deployment', async () => {
    const { requests } = await list({ limit: 1, model: 'owner/model' })
    expect(requests).toEqual([
      {
        requestId: 'req_4',
        at: addMs(start, 2_000),
        keyId: account.actor.keyId,
        batchId: null,
        operation: 'chat',
        model: 'owner/model',
        status: 200,
        outcome: 'answered',
        reason: null,
        streamed: true,
        inputUnits: 12,
        cachedUnits: 2,
        outputUnits: 30,
        costUsd: 1500n,
        firstByteMs: 5,
        totalMs: 80,
        traceId: 'a'.repeat(32),
      },
    ])
  })

  test('can be filtered by model, key, outcome and time', async () => {
    expect(await idsOf({ model: 'owner/other' })).toEqual(['req_cut'])
    expect(await idsOf({ keyId: 'another-key' })).toEqual(['req_cut'])
    expect(await idsOf({ outcome: 'cut' })).toEqual(['req_cut'])
    expect(await idsOf({ outcome: 'failed' })).toEqual([])
    expect(await idsOf({ since: addMs(start, 2_000) })).toEqual(['req_cut', 'req_4', 'req_5'])
    expect(await idsOf({ since: addMs(start, 2_000), model: 'owner/model' })).toEqual(['req_4', 'req_5'])
  })

  test('can be filtered by protocol, and by whether it was a line of a batch', async () => {
    const other = await openTestAccount(fixture)
    const write = (requestId: string, operation: string) =>
      writeRequest(fixture.database.db, { requestId, accountId: other.accountId, operation, at: start })
    await write('req_a', 'chat')
    await write('req_b', 'messages')
    await write('req_c', 'responses')
    await write('req_d', 'chat')
    await fixture.database.db
      .updateTable('request')
      .set({ batch_id: 'batch_1' })
      .where('request_id', 'in', ['req_c', 'req_d'])
      .execute()
    const idsOfOther = async (query: Partial<Query>) =>
      (await list({ limit: 100, ...query }, other)).requests.map(({ requestId }) => requestId)
    expect(await idsOfOther({ operation: 'messages' })).toEqual(['req_b'])
    expect(await idsOfOther({ operation: 'chat' })).toEqual(['req_a', 'req_d'])
    expect(await idsOfOther({ operation: 'image' })).toEqual([])
    expect(await idsOfOther({ inBatch: true })).toEqual(['req_c', 'req_d'])
    expect(await idsOfOther({ inBatch: false })).toEqual(['req_a', 'req_b'])
    expect(await idsOfOther({ inBatch: true, operation: 'chat' })).toEqual(['req_d'])
  })

  test('rejects a foreign cursor by its field', async () => {
    for (const cursor of ['nonsense!', encodeCursor('17'), encodeCursor(':req_1'), encodeCursor('x:req_1')]) {
      const refusal = { kind: 'invalid', issues: [{ path: ['cursor'] }] }
      expect([cursor, await ask({ limit: 2, cursor })]).toMatchObject([cursor, refusal])
    }
  })

  test('excludes other accounts’ requests', async () => {
    const other = await openTestAccount(fixture)
    expect(await list({ limit: 10 }, other)).toEqual({ requests: [], nextCursor: null })
  })
})

describe('one request', () => {
  test('has its bodies if they were kept, and only for its account', async () => {
    await log('req_kept', { at: start, bodies: ['{"messages":[]}', '{"choices":[]}'] })
    expect(valueOf(await get('req_kept'), api.getInferenceRequest.response)).toMatchObject({
      requestId: 'req_kept',
      requestBody: '{"messages":[]}',
      responseBody: '{"choices":[]}',
    })
    const plain = valueOf(await get('req_0'), api.getInferenceRequest.response)
    expect(plain).toMatchObject({ requestBody: null, responseBody: null })
    const other = await openTestAccount(fixture)
    expect(await get('req_kept', other)).toMatchObject({ kind: 'not_found', reason: 'request_not_found' })
    expect(await get('req_none')).toEqual(await get('req_kept', other))
  })
})
