/** Responses match the contract, and a create with one Idempotency-Key happens once. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Actor } from '../../app/app.ts'
import { api } from '../../contract/api.ts'
import type { BodyOf } from '../../contract/endpoint.ts'
import { openTestAccount, startIdentityTest, type IdentityTest } from '../../../test/harness/identity.ts'
import { accountHandlers } from './account.ts'
import { apiKeyHandlers } from './api-key.ts'
import { sshKeyHandlers } from './ssh-key.ts'
import { valueOf } from '../../../test/harness/value.ts'
import { instantOf } from '../../base/instant.ts'
import { usd } from '../../base/money.ts'

let fixture: IdentityTest
beforeAll(async () => {
  fixture = await startIdentityTest()
})
afterAll(() => fixture.close())

const rest = {
  query: undefined,
  params: undefined,
  body: undefined,
  allowedModels: null,
  requestId: 'req_1',
  idempotencyKey: undefined,
}

const createKey = (actor: Actor, body: BodyOf<typeof api.createApiKey>, idempotencyKey?: string) =>
  apiKeyHandlers.createApiKey(fixture.app, { ...rest, operation: 'createApiKey', actor, body, idempotencyKey })

describe('account handlers', () => {
  test('getMe, members and keys match the contract', async () => {
    const { actor, accountId } = await openTestAccount(fixture, { platformFeeBp: 500 })
    const me = valueOf(
      await accountHandlers.getMe(fixture.app, { ...rest, operation: 'getMe', actor }),
      api.getMe.response,
    )
    expect(me).toMatchObject({ role: 'owner', account: { id: accountId, supplier: true, suspended: false } })
    const body = { email: 'second@example.com', role: 'viewer' } as const
    const member = valueOf(
      await accountHandlers.addMember(fixture.app, { ...rest, operation: 'addMember', actor, body }),
      api.addMember.response,
    )
    const list = { ...rest, actor }
    const { members } = valueOf(
      await accountHandlers.listMembers(fixture.app, { ...list, operation: 'listMembers' }),
      api.listMembers.response,
    )
    expect(members.map((one) => one.id)).toEqual([actor.personId, member.id])
    const params = { id: member.id }
    const changed = await accountHandlers.changeMember(fixture.app, {
      ...list,
      operation: 'changeMember',
      params,
      body: { role: 'member' },
    })
    expect(valueOf(changed, api.changeMember.response).role).toBe('member')
    const removed = await accountHandlers.removeMember(fixture.app, { ...list, operation: 'removeMember', params })
    valueOf(removed, api.removeMember.response)
  })

  test('a key is shown once; the same Idempotency-Key shows it again and creates no other', async () => {
    const { actor } = await openTestAccount(fixture)
    const body = {
      name: 'CI',
      scopes: ['inference' as const],
      expiresAt: instantOf(Date.UTC(2026, 5, 1)),
      monthlyLimitUsd: usd('5.5'),
      requestsPerMinute: 60,
      tokensPerMinute: 9_000,
    }
    const first = valueOf(await createKey(actor, body, 'once'), api.createApiKey.response)
    expect(first).toMatchObject({
      expiresAt: body.expiresAt,
      monthlyLimitUsd: body.monthlyLimitUsd,
      totalLimitUsd: null,
      allowedModels: null,
      requestsPerMinute: 60,
      tokensPerMinute: 9_000,
    })
    expect(await createKey(actor, body, 'once')).toEqual({ ok: true, value: first })
    expect(await createKey(actor, { ...body, name: 'Other' }, 'once')).toMatchObject({
      reason: 'idempotency_key_reused',
    })
    const listed = await apiKeyHandlers.listApiKeys(fixture.app, { ...rest, operation: 'listApiKeys', actor })
    const { apiKeys } = valueOf(listed, api.listApiKeys.response)
    expect(apiKeys.map((key) => key.name).sort()).toEqual(['CI', 'First key'])
    expect(JSON.stringify(api.listApiKeys.response.encode({ apiKeys }))).not.toContain(first.key)
    const params = { id: first.publicId }
    const revoked = await apiKeyHandlers.revokeApiKey(fixture.app, {
      ...rest,
      operation: 'revokeApiKey',
      actor,
      params,
    })
    expect(valueOf(revoked, api.revokeApiKey.response).revokedAt).not.toBeNull()
  })

  test('an SSH key is added once, listed and deleted', async () => {
    const { actor } = await openTestAccount(fixture)
    const publicKey = `ssh-ed25519 ${Buffer.concat([
      Buffer.from([0, 0, 0, 11]),
      Buffer.from('ssh-ed25519'),
      Buffer.from([0, 0, 0, 32]),
      Buffer.alloc(32, 9),
    ]).toString('base64')}`
    const body = { name: 'laptop', publicKey }
    const add = () =>
      sshKeyHandlers.addSshKey(fixture.app, { ...rest, operation: 'addSshKey', actor, body, idempotencyKey: 'k' })
    const added = valueOf(await add(), api.addSshKey.response)
    expect(await add()).toEqual({ ok: true, value: added })
    const listed = await sshKeyHandlers.listSshKeys(fixture.app, { ...rest, operation: 'listSshKeys', actor })
    expect(valueOf(listed, api.listSshKeys.response)).toEqual({ sshKeys: [added] })
    const params = { id: added.id }
    const deleted = await sshKeyHandlers.deleteSshKey(fixture.app, {
      ...rest,
      operation: 'deleteSshKey',
      actor,
      params,
    })
    valueOf(deleted, api.deleteSshKey.response)
  })
})
