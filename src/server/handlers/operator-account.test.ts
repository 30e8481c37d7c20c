/** Pages contain each row once, money moves once per key, and responses match the contract. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import {
  openOperator,
  openTestAccount,
  startIdentityTest,
  type IdentityTest,
  type TestAccount,
} from '../../../test/harness/identity.ts'
import { api } from '../../contract/api.ts'
import { writeAudit } from '../../store/platform/audit.ts'
import { transact } from '../../store/platform/database.ts'
import { encodeCursor } from '../http/cursor.ts'
import { auditHandlers } from './audit.ts'
import { operatorAccountHandlers } from './operator-account.ts'
import { operatorMoneyHandlers } from './operator-money.ts'
import { valueOf } from '../../../test/harness/value.ts'
import { usd } from '../../base/money.ts'

const handlers = { ...operatorAccountHandlers, ...operatorMoneyHandlers, ...auditHandlers }

let fixture: IdentityTest
let operator: TestAccount
beforeAll(async () => {
  fixture = await startIdentityTest()
  operator = await openOperator(fixture)
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

const request = <Op extends string>(operation: Op) => ({ ...rest, operation, actor: operator.actor })
const page = (limit: number, cursor?: string) => ({ limit, ...(cursor === undefined ? {} : { cursor }) })
const badCursors = ['nonsense!', encodeCursor('acc_none')]

describe('accounts', () => {
  test('are paged newest first, each once', async () => {
    const opened: string[] = []
    for (let n = 0; n < 5; n += 1) opened.unshift((await openTestAccount(fixture)).accountId)
    const seen: string[] = []
    let cursor: string | undefined
    do {
      const query = page(2, cursor)
      const listed = await handlers.listAccounts(fixture.app, { ...request('listAccounts'), query })
      const { accounts, nextCursor } = valueOf(listed, api.listAccounts.response)
      seen.push(...accounts.map((account) => account.id))
      cursor = nextCursor ?? undefined
    } while (cursor !== undefined)
    expect(seen).toEqual([...opened, operator.accountId])
  })

  test('reject a foreign cursor by its field', async () => {
    for (const cursor of badCursors) {
      const query = page(2, cursor)
      const refusal = { kind: 'invalid', issues: [{ path: ['cursor'] }] }
      expect(await handlers.listAccounts(fixture.app, { ...request('listAccounts'), query })).toMatchObject(refusal)
      expect(await handlers.listAudit(fixture.app, { ...request('listAudit'), query })).toMatchObject(refusal)
    }
  })

  test('create, get and change match the contract', async () => {
    const body = { name: 'Example Ltd', ownerEmail: 'boss@example.com', platformFeePercentage: 12.5 }
    const create = () =>
      handlers.createAccount(fixture.app, { ...request('createAccount'), body, idempotencyKey: 'open' })
    const { account, key } = valueOf(await create(), api.createAccount.response)
    expect(account).toMatchObject({ supplier: true, platformFeePercentage: 12.5, availableUsd: 0n })
    expect(await create()).toEqual({ ok: true, value: { account, key } })
    const params = { id: account.id }
    const got = await handlers.getAccount(fixture.app, { ...request('getAccount'), params })
    expect(valueOf(got, api.getAccount.response)).toEqual(account)
    const changed = await handlers.changeAccount(fixture.app, {
      ...request('changeAccount'),
      params,
      body: { quota: { keys: 3 }, suspended: true, reason: 'because of a test' },
    })
    expect(valueOf(changed, api.changeAccount.response)).toMatchObject({
      suspended: true,
      quota: { keys: 3, sshKeys: account.quota['sshKeys'] },
    })
  })
})

describe('money', () => {
  test('a repeated request moves nothing and is marked as replayed', async () => {
    const { accountId } = await openTestAccount(fixture)
    const params = { id: accountId }
    const reason = 'because of a test'
    const credit = (amount: string, idempotencyKey?: string) =>
      handlers.creditAccount(fixture.app, {
        ...request('creditAccount'),
        params,
        body: { amountUsd: usd(amount), reason, kind: 'purchase' },
        idempotencyKey,
      })
    const first = valueOf(await credit('10', 'pay'), api.creditAccount.response)
    expect(first).toMatchObject({ replayed: false, availableUsd: usd('10') })
    expect(await credit('10', 'pay')).toEqual({ ok: true, value: { ...first, replayed: true } })
    expect(await credit('11', 'pay')).toMatchObject({ reason: 'idempotency_key_reused' })
    // Without a key, each request is separate.
    expect(await credit('10')).toMatchObject({ value: { replayed: false, availableUsd: usd('20') } })
    // The stored response is deleted after a day; the posting stays.
    await fixture.database.db.deleteFrom('idempotency').where('key', '=', 'pay').execute()
    expect(await credit('10', 'pay')).toMatchObject({ value: { replayed: true, availableUsd: usd('20') } })
    const adjusted = await handlers.adjustAccount(fixture.app, {
      ...request('adjustAccount'),
      params,
      body: { amountUsd: usd('-20.5'), reason },
    })
    expect(adjusted).toMatchObject({ kind: 'insufficient_balance' })
    const refunded = await handlers.refundCharge(fixture.app, {
      ...request('refundCharge'),
      params,
      body: { amountUsd: usd('1'), reason, rentalId: 1 },
    })
    expect(refunded).toMatchObject({ kind: 'not_found' })
    const paidOut = await handlers.payOutSupplier(fixture.app, {
      ...request('payOutSupplier'),
      params,
      body: { amountUsd: usd('1'), reason },
    })
    expect(paidOut).toMatchObject({ kind: 'insufficient_balance' })
  })
})

describe('the audit log', () => {
  test('is listed newest first, optionally by account, and cannot be changed', async () => {
    const { accountId } = await openTestAccount(fixture)
    for (const action of ['host.add', 'host.drain', 'host.remove'] as const) {
      await transact(fixture.database, (tx) => writeAudit(tx, { actor: 'test', action, accountId, detail: { n: 1 } }))
    }
    const list = async (limit: number, cursor?: string) => {
      const query = { ...page(limit, cursor), accountId }
      return valueOf(await handlers.listAudit(fixture.app, { ...request('listAudit'), query }), api.listAudit.response)
    }
    const first = await list(2)
    expect(first.records.map((record) => record.action)).toEqual(['host.remove', 'host.drain'])
    const second = await list(2, first.nextCursor ?? undefined)
    expect(second).toMatchObject({ records: [{ action: 'host.add', detail: { n: 1 } }], nextCursor: null })
    await expect(fixture.database.db.deleteFrom('audit').execute()).rejects.toThrow('append-only')
  })
})
