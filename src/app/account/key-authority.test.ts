/** No key removes rights from a stronger one, and no account is left without an owner with a working key. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openOperator, openTestAccount, startIdentityTest, type IdentityTest } from '../../../test/harness/identity.ts'
import { makeApiKey } from '../../base/api-key.ts'
import { addMs, HOUR_MS, type Instant } from '../../base/instant.ts'
import type { Role } from '../../contract/account.ts'
import type { Scope } from '../../contract/endpoint.ts'
import { findMember, findOrInsertPerson, insertMember } from '../../store/account/account.ts'
import { findApiKey, findKnownKey, insertApiKey, noKeyLimits } from '../../store/account/api-key.ts'
import { listAudit } from '../../store/platform/audit.ts'
import { transact } from '../../store/platform/database.ts'
import { changeMember, removeMember } from './account.ts'
import { revokeApiKey } from './api-key.ts'
import type { Actor } from '../app.ts'
import { restoreOwner } from './operator-account.ts'

let fixture: IdentityTest
beforeAll(async () => {
  fixture = await startIdentityTest()
})
afterAll(() => fixture.close())

let people = 0

async function join(
  accountId: string,
  role: Role,
  key: { scopes: readonly Scope[]; expiresAt?: Instant } | undefined,
): Promise<Actor> {
  people += 1
  return transact(fixture.database, async (tx) => {
    const email = `person-${people}@example.test`
    const { id: personId } = await findOrInsertPerson(tx, { email, name: null })
    await insertMember(tx, { accountId, personId, role, name: null })
    const apiKey = makeApiKey()
    const limits = { ...noKeyLimits, expiresAt: key?.expiresAt ?? null }
    if (key !== undefined)
      await insertApiKey(tx, apiKey, { accountId, personId, name: email, scopes: key.scopes, limits })
    return { accountId, personId, keyId: apiKey.publicId, role, scopes: key?.scopes ?? [] }
  })
}

const revoke = (actor: Actor, id: string) => transact(fixture.database, (tx) => revokeApiKey(tx, actor, id))
const demote = (actor: Actor, personId: string, role: Role = 'viewer') =>
  transact(fixture.database, (tx) => changeMember(tx, actor, { personId, role }))
const remove = (actor: Actor, personId: string) => transact(fixture.database, (tx) => removeMember(tx, actor, personId))

const roles = ['viewer', 'member', 'owner'] as const satisfies readonly Role[]
const scopeSets: ReadonlyArray<readonly Scope[]> = [['keys'], ['keys', 'compute:write'], ['operator']]
/** Expected, by hand: the index of the strongest set that each set covers. */
const covers = (by: number, victim: number): boolean => by >= victim
const grid = roles.flatMap((role) =>
  scopeSets.flatMap((_, scopes) =>
    roles.flatMap((victim) => scopeSets.map((__, theirs) => ({ role, scopes, victim, theirs }))),
  ),
)

describe('roles and scopes', () => {
  test('a key revokes another only with at least its role and its scopes', async () => {
    const { accountId } = await openTestAccount(fixture)
    for (const { role, scopes, victim, theirs } of grid) {
      // A viewer's key is read-only, so it is rejected earlier.
      if (role === 'viewer') continue
      const by = await join(accountId, role, { scopes: scopeSets[scopes] ?? [] })
      const other = await join(accountId, victim, { scopes: scopeSets[theirs] ?? [] })
      const isHigher = roles.indexOf(victim) > roles.indexOf(role)
      // Only the read scopes of a viewer's key count, not `keys` or `compute:write`.
      const isCovered = victim === 'viewer' ? theirs < 2 || scopes === 2 : covers(scopes, theirs)
      const expected = isHigher ? { reason: 'role_too_low' } : isCovered ? { ok: true } : { reason: 'scope_not_held' }
      const what = `${role} ${scopeSets[scopes]?.join()} revokes ${victim} ${scopeSets[theirs]?.join()}`
      expect(await revoke(by, other.keyId), what).toMatchObject(expected)
      const key = await findApiKey(fixture.database.db, accountId, other.keyId)
      expect(key?.revoked_at === null, what).toBe(!('ok' in expected))
    }
  })

  test('an owner demotes and removes only people whose keys its own key covers', async () => {
    const { accountId } = await openTestAccount(fixture)
    for (const { role, scopes, victim, theirs } of grid) {
      if (role !== 'owner' || victim === 'viewer') continue
      const by = await join(accountId, role, { scopes: scopeSets[scopes] ?? [] })
      for (const act of [demote, remove]) {
        const other = await join(accountId, victim, { scopes: scopeSets[theirs] ?? [] })
        const expected = covers(scopes, theirs) ? { ok: true } : { reason: 'scope_not_held' }
        const what = `owner ${scopeSets[scopes]?.join()}, ${act.name}, ${victim} ${scopeSets[theirs]?.join()}`
        expect(await act(by, other.personId), what).toMatchObject(expected)
        const member = await findMember(fixture.database.db, accountId, other.personId)
        expect(member?.role === victim, what).toBe(!('ok' in expected))
      }
    }
  })

  test('a person can revoke their own keys, whatever their scopes', async () => {
    const { accountId } = await openTestAccount(fixture)
    const strong = await join(accountId, 'member', { scopes: ['operator'] })
    expect(await revoke({ ...strong, keyId: 'weak', scopes: ['keys'] }, strong.keyId)).toMatchObject({ ok: true })
  })

  test('an outdated role does not help', async () => {
    const { accountId, actor } = await openTestAccount(fixture)
    const by = await join(accountId, 'member', { scopes: ['operator'] })
    expect(await revoke({ ...by, role: 'owner' }, actor.keyId)).toMatchObject({ reason: 'role_too_low' })
  })
})

describe('an owner with a working key', () => {
  const hour = (): Instant => addMs(fixture.clock.now(), HOUR_MS)
  const others: ReadonlyArray<{ name: string; key: () => Parameters<typeof join>[2]; counts: boolean }> = [
    { name: 'without a key', key: () => undefined, counts: false },
    { name: 'with a key that cannot manage keys', key: () => ({ scopes: ['inference'] }), counts: false },
    { name: 'with an expired key', key: () => ({ scopes: ['keys'], expiresAt: fixture.clock.now() }), counts: false },
    { name: 'with a live key', key: () => ({ scopes: ['keys'], expiresAt: hour() }), counts: true },
    { name: "with an operator's key", key: () => ({ scopes: ['operator'] }), counts: true },
  ]
  test.each(others)('another owner $name counts: $counts', async ({ key, counts }) => {
    for (const leave of [demote, remove]) {
      const { accountId, actor } = await openTestAccount(fixture)
      await join(accountId, 'owner', key())
      expect(await leave(actor, actor.personId)).toMatchObject(counts ? { ok: true } : { reason: 'last_owner' })
    }
  })

  test('an owner whose key was revoked does not count', async () => {
    const { accountId, actor } = await openTestAccount(fixture)
    const second = await join(accountId, 'owner', { scopes: ['keys'] })
    expect(await revoke(actor, second.keyId)).toMatchObject({ ok: true })
    expect(await demote(actor, actor.personId)).toMatchObject({ reason: 'last_owner' })
  })

  test('the operator restores an owner: a new person or a member, with a working key', async () => {
    const { accountId, actor } = await openTestAccount(fixture)
    const operator = await openOperator(fixture)
    const member = await join(accountId, 'viewer', undefined)
    const memberEmail = `person-${people}@example.test`
    expect(await revoke(actor, actor.keyId)).toMatchObject({ ok: true })
    for (const ownerEmail of [memberEmail, 'new-owner@example.test']) {
      const restored = await transact(fixture.database, (tx) =>
        restoreOwner(tx, operator.actor, { accountId, ownerEmail, ownerName: null, reason: 'keys were lost' }),
      )
      if (!restored.ok) throw new Error(restored.message)
      const { personId, keyText } = restored.value
      const [, publicId = ''] = keyText.split('_')
      expect(await findKnownKey(fixture.database.db, publicId)).toMatchObject({ person_id: personId, role: 'owner' })
      expect(await findMember(fixture.database.db, accountId, personId)).toMatchObject({ email: ownerEmail })
      expect(personId === member.personId).toBe(ownerEmail === memberEmail)
    }
    const audit = await listAudit(fixture.database.db, { accountId, limit: 10 })
    expect(audit.map(({ action, reason }) => ({ action, reason }))).toEqual(
      Array.from({ length: 2 }, () => ({ action: 'account.restore_owner', reason: 'keys were lost' })),
    )
    const none = { accountId: 'acc_none', ownerEmail: 'x@example.test', ownerName: null, reason: 'a test' }
    expect(await transact(fixture.database, (tx) => restoreOwner(tx, operator.actor, none))).toMatchObject({
      reason: 'account_not_found',
    })
  })
})
