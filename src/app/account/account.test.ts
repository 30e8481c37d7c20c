/** Only owners change members, there is always an owner, and a removed member loses their keys. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  openOperator,
  openTestAccount,
  startIdentityTest,
  type IdentityTest,
  type TestAccount,
} from '../../../test/harness/identity.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import type { Role } from '../../contract/account.ts'
import { listMembers } from '../../store/account/account.ts'
import { findApiKey, findKnownKey, insertApiKey, noKeyLimits } from '../../store/account/api-key.ts'
import { makeApiKey } from '../../base/api-key.ts'
import { transact } from '../../store/platform/database.ts'
import { listEvents } from '../../store/notice/event.ts'
import { addMember, changeAccountSettings, changeMember, getMe, removeMember } from './account.ts'
import type { Actor } from '../app.ts'
import { changeAccount } from './operator-account.ts'
import { makeKeyCache } from '../../server/http/key-cache.ts'

let fixture: IdentityTest
beforeAll(async () => {
  fixture = await startIdentityTest()
})
afterAll(() => fixture.close())

const add = (actor: Actor, email: string, role: Role) =>
  transact(fixture.database, (tx) => addMember(tx, actor, { email, name: 'Given Name', role }))
const change = (actor: Actor, personId: string, role: Role) =>
  transact(fixture.database, (tx) => changeMember(tx, actor, { personId, role }))
const remove = (actor: Actor, personId: string) => transact(fixture.database, (tx) => removeMember(tx, actor, personId))

async function addOrThrow(account: TestAccount, email: string, role: Role): Promise<Actor> {
  const added = await add(account.actor, email, role)
  if (!added.ok) throw new Error(added.message)
  const apiKey = makeApiKey()
  await transact(fixture.database, (tx) =>
    insertApiKey(tx, apiKey, {
      accountId: account.accountId,
      personId: added.value.id,
      name: 'Theirs',
      scopes: ['keys'],
      limits: noKeyLimits,
    }),
  )
  return { ...account.actor, personId: added.value.id, keyId: apiKey.publicId, role }
}

describe('getMe', () => {
  test('returns the person, the account and the key', async () => {
    const { actor } = await openTestAccount(fixture)
    const me = await getMe(fixture.app, actor)
    expect(me).toMatchObject({
      ok: true,
      value: {
        member: { id: actor.personId, role: 'owner' },
        account: { id: actor.accountId },
        key: { name: 'First key' },
      },
    })
  })

  test('rejects a person who was just removed', async () => {
    const { actor } = await openTestAccount(fixture)
    expect(await getMe(fixture.app, { ...actor, personId: 'usr_gone' })).toMatchObject({ reason: 'not_a_member' })
  })
})

describe('settings', () => {
  const keep = (actor: Actor, keepsBodies: boolean) =>
    transact(fixture.database, (tx) => changeAccountSettings(tx, actor, { keepsBodies }))

  test('an owner enables stored bodies; cached keys are dropped for that and for a new quota', async () => {
    const { actor, accountId } = await openTestAccount(fixture)
    const operator = await openOperator(fixture)
    const cache = makeKeyCache(fixture)
    await waitFor('keys to be cached', () => cache.isCaching())
    expect(await cache.find(actor.keyId)).toMatchObject({ keeps_bodies: false, account_quota: {} })
    expect(await keep(actor, true)).toMatchObject({ ok: true, value: { id: accountId, keeps_bodies: true } })
    await waitFor('the setting to take effect', async () => (await cache.find(actor.keyId))?.keeps_bodies === true)
    const quota = { streams: 7 }
    await transact(fixture.database, (tx) => changeAccount(tx, operator.actor, { accountId, quota, reason: 'a test' }))
    await waitFor('the quota to take effect', async () => (await cache.find(actor.keyId))?.account_quota.streams === 7)
    cache.close()
    expect(await keep(actor, false)).toMatchObject({ ok: true, value: { keeps_bodies: false } })
  })

  test.each(['member', 'viewer'] as const)('a %s cannot change them', async (role) => {
    const account = await openTestAccount(fixture)
    const actor = await addOrThrow(account, `settings-${role}@example.com`, role)
    expect(await keep(actor, true)).toMatchObject({ kind: 'forbidden', reason: 'owner_only' })
    expect(await findKnownKey(fixture.database.db, actor.keyId)).toMatchObject({ keeps_bodies: false })
  })
})

describe('members', () => {
  test('reuses a person by e-mail, ignoring case, with a name per account', async () => {
    const first = await openTestAccount(fixture)
    const second = await openTestAccount(fixture)
    const here = await add(first.actor, 'Shared@Example.com', 'member')
    const there = await transact(fixture.database, (tx) =>
      addMember(tx, second.actor, { email: 'shared@example.com', name: 'Another Name', role: 'viewer' }),
    )
    if (!here.ok || !there.ok) throw new Error('not added')
    expect(there.value).toMatchObject({ id: here.value.id, name: 'Another Name', email: 'shared@example.com' })
    expect(here.value.name).toBe('Given Name')
    expect(await add(first.actor, 'shared@example.com', 'owner')).toMatchObject({
      kind: 'conflict',
      reason: 'member_exists',
    })
  })

  test.each(['member', 'viewer'] as const)('a %s cannot change members', async (role) => {
    const account = await openTestAccount(fixture)
    const actor = await addOrThrow(account, `${role}@example.com`, role)
    const refusal = { kind: 'forbidden', reason: 'owner_only' }
    expect(await add(actor, 'new@example.com', 'viewer')).toMatchObject(refusal)
    expect(await change(actor, actor.personId, 'owner')).toMatchObject(refusal)
    expect(await remove(actor, account.actor.personId)).toMatchObject(refusal)
    // The role is read again: an outdated role of the key does not help.
    expect(await add({ ...actor, role: 'owner' }, 'new@example.com', 'viewer')).toMatchObject(refusal)
  })

  test('members of other accounts are not found', async () => {
    const { actor } = await openTestAccount(fixture)
    const other = await openTestAccount(fixture)
    expect(await change(actor, other.actor.personId, 'viewer')).toMatchObject({ kind: 'not_found' })
    expect(await remove(actor, other.actor.personId)).toMatchObject({ kind: 'not_found' })
  })

  test('the last owner cannot be removed or demoted', async () => {
    const { actor } = await openTestAccount(fixture)
    await add(actor, 'second@example.com', 'member')
    expect(await change(actor, actor.personId, 'member')).toMatchObject({ kind: 'conflict', reason: 'last_owner' })
    expect(await remove(actor, actor.personId)).toMatchObject({ kind: 'conflict', reason: 'last_owner' })
    expect(await change(actor, actor.personId, 'owner')).toMatchObject({ ok: true })
  })

  test('two owners who remove each other concurrently leave one owner', async () => {
    const account = await openTestAccount(fixture)
    const second = await addOrThrow(account, 'rival@example.com', 'owner')
    const results = await Promise.all([remove(account.actor, second.personId), remove(second, account.actor.personId)])
    expect(results.filter((result) => result.ok)).toHaveLength(1)
    expect(await listMembers(fixture.database.db, account.accountId)).toMatchObject([{ role: 'owner' }])
  })

  test('removing a member revokes their keys in this account only', async () => {
    const account = await openTestAccount(fixture)
    const elsewhere = await openTestAccount(fixture)
    const leaver = await addOrThrow(account, 'leaver@example.com', 'member')
    const stays = await addOrThrow(elsewhere, 'leaver@example.com', 'member')
    expect(await remove(account.actor, leaver.personId)).toMatchObject({ ok: true })
    const { db } = fixture.database
    expect((await findApiKey(db, account.accountId, leaver.keyId))?.revoked_at).not.toBeNull()
    expect((await findApiKey(db, account.accountId, account.actor.keyId))?.revoked_at).toBeNull()
    expect((await findApiKey(db, elsewhere.accountId, stays.keyId))?.revoked_at).toBeNull()
    const events = await listEvents(db, account.accountId, { type: 'key.revoked', limit: 10 })
    expect(events.map((event) => event.subject.id)).toEqual([leaver.keyId])
  })
})
