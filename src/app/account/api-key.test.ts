/** A key never has more rights than its creator, is shown once, and the quota holds under concurrency. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openTestAccount, startIdentityTest, type IdentityTest } from '../../../test/harness/identity.ts'
import { addMs, HOUR_MS } from '../../base/instant.ts'
import { usd } from '../../base/money.ts'
import { scopes } from '../../contract/endpoint.ts'
import { setRole, updateAccount } from '../../store/account/account.ts'
import { listApiKeys } from '../../store/account/api-key.ts'
import { transact } from '../../store/platform/database.ts'
import { listEvents } from '../../store/notice/event.ts'
import { addMember } from './account.ts'
import { createApiKey, revokeApiKey, rotateApiKey, type ApiKeyInput } from './api-key.ts'
import type { Actor } from '../app.ts'

let fixture: IdentityTest
beforeAll(async () => {
  fixture = await startIdentityTest()
})
afterAll(() => fixture.close())

const plain: ApiKeyInput = {
  name: 'A key',
  scopes: ['inference'],
  expiresAt: null,
  allowedModels: null,
  allowedOrigins: [],
  monthlyLimit: null,
  totalLimit: null,
  requestsPerMinute: null,
  tokensPerMinute: null,
}
const create = (actor: Actor, more: Partial<ApiKeyInput> = {}) =>
  transact(fixture.database, (tx) => createApiKey(tx, actor, { ...plain, ...more }))
const revoke = (actor: Actor, id: string) => transact(fixture.database, (tx) => revokeApiKey(tx, actor, id))

describe('creating a key', () => {
  test('for another member needs an owner, and gives only the rights of that member', async () => {
    const { actor } = await openTestAccount(fixture)
    const added = await transact(fixture.database, (tx) =>
      addMember(tx, actor, { email: `viewer-of-${actor.accountId}@example.test`, name: null, role: 'viewer' }),
    )
    if (!added.ok) throw new Error(added.message)
    const memberId = added.value.id
    expect(await create(actor, { memberId, scopes: ['compute:read'] })).toMatchObject({
      ok: true,
      value: { key: { person_id: memberId } },
    })
    expect(await create(actor, { memberId, scopes: ['compute:write'] })).toMatchObject({
      reason: 'viewer_is_read_only',
    })
    expect(await create(actor, { memberId: 'usr_nobody' })).toMatchObject({ issues: [{ path: ['memberId'] }] })
    const viewer = { ...actor, personId: memberId, role: 'viewer' as const }
    expect(await create(viewer, { memberId: actor.personId })).toMatchObject({ reason: 'owner_only' })
  })

  test('stores limits, and each scope once', async () => {
    const { actor } = await openTestAccount(fixture)
    const expiresAt = addMs(fixture.clock.now(), HOUR_MS)
    const answer = await create(actor, {
      scopes: ['keys', 'inference', 'keys'],
      expiresAt,
      allowedModels: ['a-model'],
      monthlyLimit: usd('5'),
      totalLimit: usd('50'),
      requestsPerMinute: 60,
      tokensPerMinute: 9_000,
    })
    expect(answer).toMatchObject({
      ok: true,
      value: {
        text: expect.stringMatching(/^bk_/) as string,
        key: {
          scopes: ['inference', 'keys'],
          expires_at: expiresAt,
          allowed_models: ['a-model'],
          monthly_limit_nano: usd('5'),
          total_limit_nano: usd('50'),
          requests_per_min: 60,
          tokens_per_min: 9_000,
          revoked_at: null,
        },
      },
    })
  })

  test('grants no scope that the calling key lacks; operator includes all', async () => {
    const { actor } = await openTestAccount(fixture, { scopes: ['keys', 'inference'] })
    expect(await create(actor, { scopes: ['inference', 'billing:read', 'operator'] })).toMatchObject({
      kind: 'forbidden',
      reason: 'scope_not_held',
      message: expect.stringContaining('billing:read, operator') as string,
    })
    const operator = await openTestAccount(fixture, { scopes: ['operator'] })
    expect(await create(operator.actor, { scopes })).toMatchObject({ ok: true })
  })

  test('grants a viewer read scopes only', async () => {
    const { actor } = await openTestAccount(fixture)
    await transact(fixture.database, (tx) => setRole(tx, actor.accountId, actor.personId, 'viewer'))
    expect(await create(actor, { scopes: ['compute:read', 'inference'] })).toMatchObject({
      kind: 'forbidden',
      reason: 'viewer_is_read_only',
    })
    expect(await create(actor, { scopes: ['compute:read', 'billing:read'] })).toMatchObject({ ok: true })
  })

  test('grants no higher rate limits than those of the calling key', async () => {
    const { actor } = await openTestAccount(fixture)
    const answer = await create(actor, { scopes: ['keys'], requestsPerMinute: 10, tokensPerMinute: 500 })
    if (!answer.ok) throw new Error(answer.message)
    const keyHolder = { ...actor, keyId: answer.value.key.public_id }
    const ask = (requestsPerMinute: number | null, tokensPerMinute: number | null) =>
      create(keyHolder, { scopes: ['keys'], requestsPerMinute, tokensPerMinute })
    const refused = (field: string) => ({ reason: 'exceeds_parent_key_limit', issues: [{ path: [field] }] })
    expect(await ask(11, 500)).toMatchObject(refused('requestsPerMinute'))
    expect(await ask(10, 501)).toMatchObject(refused('tokensPerMinute'))
    expect(await ask(10, null)).toMatchObject(refused('tokensPerMinute'))
    expect(await ask(10, 500)).toMatchObject({ ok: true, value: { key: { tokens_per_min: 500 } } })
  })

  test('rejects an expiry in the past', async () => {
    const { actor } = await openTestAccount(fixture)
    const issues = [{ path: ['expiresAt'] }]
    expect(await create(actor, { expiresAt: fixture.clock.now() })).toMatchObject({ kind: 'invalid', issues })
  })

  test('the quota counts live keys, and holds for concurrent requests', async () => {
    const { actor, accountId } = await openTestAccount(fixture)
    await transact(fixture.database, (tx) => updateAccount(tx, accountId, { quota: { keys: 4 } }))
    const results = await Promise.all(Array.from({ length: 12 }, () => create(actor)))
    // The first key of the account is one of the four.
    expect(results.filter((result) => result.ok)).toHaveLength(3)
    expect(new Set(results.flatMap((result) => (result.ok ? [] : [result.reason])))).toEqual(
      new Set(['quota_exceeded']),
    )
    const [newest] = await listApiKeys(fixture.database.db, accountId)
    await revoke(actor, newest?.public_id ?? '')
    expect(await create(actor, { expiresAt: addMs(fixture.clock.now(), HOUR_MS) })).toMatchObject({ ok: true })
    expect(await create(actor)).toMatchObject({ reason: 'quota_exceeded' })
    fixture.clock.advance(HOUR_MS)
    expect(await create(actor)).toMatchObject({ ok: true })
  })
})

describe('revoking a key', () => {
  test('succeeds repeatedly, keeps the first time, and records one event without the secret', async () => {
    const { actor, accountId } = await openTestAccount(fixture)
    const answer = await create(actor)
    if (!answer.ok) throw new Error(answer.message)
    const { public_id: id, last4 } = answer.value.key
    const first = await revoke(actor, id)
    fixture.clock.advance(1_000)
    expect(await revoke(actor, id)).toEqual(first)
    const events = await listEvents(fixture.database.db, accountId, { subject: { kind: 'key', id }, limit: 10 })
    expect(events.map((event) => event.type)).toEqual(['key.revoked', 'key.created'])
    const secret = answer.value.text.slice(`bk_${id}_`.length)
    expect(JSON.stringify(events)).not.toContain(secret)
    expect(JSON.stringify(events)).not.toContain(`"${last4}"`)
  })

  test("does not find another account's key", async () => {
    const { actor } = await openTestAccount(fixture)
    const other = await openTestAccount(fixture)
    expect(await revoke(actor, other.actor.keyId)).toMatchObject({ kind: 'not_found' })
    expect(await listApiKeys(fixture.database.db, other.accountId)).toMatchObject([{ revoked_at: null }])
  })
})

describe('rotating a key', () => {
  const rotate = (actor: Actor, id: string, graceHours = 24) =>
    transact(fixture.database, (tx) => rotateApiKey(tx, actor, id, graceHours))
  const createdKey = async (actor: Actor, more: Partial<ApiKeyInput> = {}) => {
    const created = await create(actor, more)
    if (!created.ok) throw new Error(created.message)
    return created.value
  }

  test('gives the same key another secret, and records until when the old one works', async () => {
    const { actor } = await openTestAccount(fixture)
    const { key, text } = await createdKey(actor, { totalLimit: usd('50'), allowedModels: ['a-model'] })
    const rotated = await rotate(actor, key.public_id, 2)
    if (!rotated.ok) throw new Error(rotated.message)
    const until = addMs(fixture.clock.now(), 2 * HOUR_MS)
    const { last4 } = rotated.value.key
    expect(rotated.value.key).toEqual({ ...key, last4, old_secret_until: until })
    expect([rotated.value.text === text, rotated.value.text.slice(-4)]).toEqual([false, last4])
    const [event] = await listEvents(fixture.database.db, actor.accountId, { type: 'key.rotated', limit: 10 })
    expect(event?.subject).toMatchObject({ id: key.public_id })
  })

  test('needs the rights to create it, except by the key itself', async () => {
    const { actor } = await openTestAccount(fixture, { scopes: ['keys', 'inference'] })
    const operators = await openTestAccount(fixture, { scopes: ['operator'] })
    const strong = await createdKey(operators.actor, { scopes: ['operator'] })
    const weak = { ...operators.actor, scopes: ['keys'] as const }
    expect(await rotate(weak, strong.key.public_id)).toMatchObject({ reason: 'scope_not_held' })
    const limited = await createdKey(actor, { scopes: ['keys'], totalLimit: usd('5') })
    const free = await createdKey(actor, { scopes: ['keys'] })
    const byLimited = { ...actor, scopes: ['keys'] as const, keyId: limited.key.public_id }
    expect(await rotate(byLimited, free.key.public_id)).toMatchObject({ reason: 'key_is_limited' })
    expect(await rotate(byLimited, limited.key.public_id)).toMatchObject({ ok: true })
    expect(await rotate(actor, strong.key.public_id)).toMatchObject({ reason: 'key_not_found' })
    const added = await transact(fixture.database, (tx) =>
      addMember(tx, actor, { email: `member-of-${actor.accountId}@example.test`, name: null, role: 'member' }),
    )
    if (!added.ok) throw new Error(added.message)
    const member = { ...actor, personId: added.value.id, role: 'member' as const }
    expect(await rotate(member, free.key.public_id)).toMatchObject({ reason: 'owner_only' })
  })

  test('is for active keys of programs', async () => {
    const { actor } = await openTestAccount(fixture)
    const revoked = await createdKey(actor)
    await revoke(actor, revoked.key.public_id)
    const device = await createdKey(actor, { kind: 'device' })
    for (const { key } of [revoked, device])
      expect(await rotate(actor, key.public_id)).toMatchObject({ reason: 'key_not_rotatable' })
  })
})
