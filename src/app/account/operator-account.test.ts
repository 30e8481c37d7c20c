/** An account is created completely or not at all, and each change is audited with its reason. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  openOperator,
  openTestAccount,
  startIdentityTest,
  type IdentityTest,
  type TestAccount,
} from '../../../test/harness/identity.ts'
import { parseApiKey } from '../../base/api-key.ts'
import { formatInstant } from '../../base/instant.ts'
import { listMembers } from '../../store/account/account.ts'
import { findKnownKey } from '../../store/account/api-key.ts'
import { listAudit } from '../../store/platform/audit.ts'
import { transact } from '../../store/platform/database.ts'
import {
  changeAccount,
  createAccount,
  getAccount,
  type ChangeAccountInput,
  type CreateAccountInput,
} from './operator-account.ts'

let fixture: IdentityTest
let operator: TestAccount
beforeAll(async () => {
  fixture = await startIdentityTest()
  operator = await openOperator(fixture)
})
afterAll(() => fixture.close())

const plain: CreateAccountInput = {
  name: 'Example Ltd',
  ownerEmail: 'Boss@Example.com',
  ownerName: null,
  scopes: null,
  platformFeePercentage: null,
}
const create = (more: Partial<CreateAccountInput> = {}) =>
  transact(fixture.database, (tx) => createAccount(tx, operator.actor, { ...plain, ...more }))
const change = (input: Omit<ChangeAccountInput, 'reason'>) =>
  transact(fixture.database, (tx) => changeAccount(tx, operator.actor, { ...input, reason: 'because of a test' }))

async function scopesOf(keyText: string) {
  const parsed = parseApiKey(keyText)
  if (parsed.kind !== 'key') throw new Error('not a key')
  return (await findKnownKey(fixture.database.db, parsed.key.publicId))?.scopes
}

describe('opening an account', () => {
  test('creates the owner and a key with the scopes of a customer', async () => {
    const created = await create()
    if (!created.ok) throw new Error(created.message)
    const { account, keyText } = created.value
    expect(account).toMatchObject({ name: 'Example Ltd', platform_fee_bp: null })
    expect(account.standing).toMatchObject({ available: 0n, held: 0n, earnings: 0n, creditLine: 0n, creditUsed: 0n })
    expect(await listMembers(fixture.database.db, account.id)).toMatchObject([
      { email: 'boss@example.com', role: 'owner' },
    ])
    expect(await scopesOf(keyText)).toEqual([
      'inference',
      'compute:read',
      'compute:write',
      'billing:read',
      'billing:write',
      'keys',
    ])
    expect(await listAudit(fixture.database.db, { accountId: account.id, limit: 5 })).toMatchObject([
      { actor: operator.actor.keyId, action: 'account.create' },
    ])
    expect(JSON.stringify(await listAudit(fixture.database.db, { limit: 5 }), bigintAsText)).not.toContain(keyText)
  })

  test('gives a supplier its fee and the scope supply; scopes can be chosen', async () => {
    const supplier = await create({ platformFeePercentage: 12.34 })
    if (!supplier.ok) throw new Error(supplier.message)
    expect(supplier.value.account.platform_fee_bp).toBe(1_234)
    expect(await scopesOf(supplier.value.keyText)).toContain('supply')
    const named = await create({ scopes: ['operator', 'operator'], platformFeePercentage: 1 })
    if (!named.ok) throw new Error(named.message)
    expect(await scopesOf(named.value.keyText)).toEqual(['operator'])
  })

  test('rejects a fee finer than a basis point instead of rounding it', async () => {
    const refusal = { kind: 'invalid', issues: [{ path: ['platformFeePercentage'] }] }
    expect(await create({ platformFeePercentage: 12.345 })).toMatchObject(refusal)
    // 0.07 × 100 is 7.000000000000001 in floating point, and still seven.
    expect(await create({ platformFeePercentage: 0.07 })).toMatchObject({ ok: true })
  })
})

describe('changing an account', () => {
  test('merges the quota, sets and removes the fee, and audits both', async () => {
    const { accountId } = await openTestAccount(fixture)
    await change({ accountId, quota: { gpus: 8 } })
    const changed = await change({ accountId, quota: { keys: 2, gpus: undefined }, platformFeePercentage: 20 })
    expect(changed).toMatchObject({ ok: true, value: { quota: { gpus: 8, keys: 2 }, platform_fee_bp: 2_000 } })
    expect(await change({ accountId, platformFeePercentage: null })).toMatchObject({
      value: { quota: { gpus: 8, keys: 2 }, platform_fee_bp: null },
    })
    const audit = await listAudit(fixture.database.db, { accountId, limit: 5 })
    expect(audit).toHaveLength(3)
    expect(audit[0]).toMatchObject({
      actor: operator.actor.keyId,
      action: 'account.change',
      reason: 'because of a test',
      detail: { before: { platformFeeBp: 2_000 }, changed: { platformFeeBp: null } },
    })
  })

  test('suspending again keeps the first time; resuming clears it', async () => {
    const { accountId } = await openTestAccount(fixture)
    await change({ accountId, suspended: true })
    const since = fixture.clock.now()
    fixture.clock.advance(1_000)
    expect(await change({ accountId, suspended: true })).toMatchObject({ value: { suspended_at: since } })
    expect(await listAudit(fixture.database.db, { accountId, limit: 1 })).toMatchObject([
      { detail: { changed: { suspendedAt: formatInstant(since) } } },
    ])
    expect(await change({ accountId, suspended: false })).toMatchObject({ value: { suspended_at: null } })
  })

  test('rejects an empty change, a bad fee, an unknown account and its own account', async () => {
    const { accountId } = await openTestAccount(fixture)
    expect(await change({ accountId })).toMatchObject({ kind: 'invalid' })
    expect(await change({ accountId, platformFeePercentage: 0.001 })).toMatchObject({ kind: 'invalid' })
    expect(await change({ accountId: 'acc_none', suspended: true })).toMatchObject({ kind: 'not_found' })
    expect(await change({ accountId: operator.accountId, suspended: true })).toMatchObject({ kind: 'invalid' })
    expect(await getAccount(fixture.database.db, 'acc_none')).toMatchObject({ kind: 'not_found' })
    expect(await listAudit(fixture.database.db, { accountId, limit: 5 })).toHaveLength(0)
  })
})

function bigintAsText(_: string, value: unknown): unknown {
  return typeof value === 'bigint' ? value.toString() : value
}
