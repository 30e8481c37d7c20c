/** Accounts, their money and the audit log over HTTP, for operators. */
import { createOnce } from '../../app/idempotency.ts'
import { changeAccount, createAccount, getAccount, restoreOwner } from '../../app/account/operator-account.ts'
import {
  adjustAccount,
  creditAccount,
  payOutSupplier,
  refundCharge,
  type Moved,
} from '../../app/money/operator-money.ts'
import type { Actor, App } from '../../app/app.ts'
import { formatInstant } from '../../base/instant.ts'
import { formatUsd, usd } from '../../base/money.ts'
import { ok, type Result } from '../../contract/result.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { balanceOf } from '../../domain/balance.ts'
import { quotaOf } from '../../domain/quota.ts'
import { findAccount, listAccounts, readAccountNames, type AccountWithStanding } from '../../store/account/account.ts'
import { listAudit, type AuditRecord } from '../../store/platform/audit.ts'
import { readSnapshot } from '../../store/ledger/billing.ts'
import { transact, type Tx } from '../../store/platform/database.ts'
import { badCursor, decodeCursor, decodeIdCursor, pageOf, rowsToAsk } from '../http/cursor.ts'
import type { Handlers } from '../http/handler.ts'
import { accountOnWire } from './account.ts'

export const operatorAccountHandlers = {
  listAccounts: async (app, { query }) => {
    const { db } = app.database
    const after = query.cursor === undefined ? undefined : decodeCursor(query.cursor)
    if (query.cursor !== undefined && (after === undefined || (await findAccount(db, after)) === undefined)) {
      return badCursor()
    }
    const found = await readSnapshot(app.database, (snapshot) =>
      listAccounts(snapshot, {
        q: query.q,
        supplier: query.supplier,
        suspended: query.suspended,
        ...(after === undefined ? {} : { after }),
        limit: rowsToAsk(query.limit),
      }),
    )
    const page = pageOf(found, query.limit, (account) => account.id)
    return ok({
      accounts: page.rows.map((account) => operatedAccountOnWire(app, account)),
      nextCursor: page.nextCursor,
    })
  },

  createAccount: async (app, { operation, actor, body, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: { body } }, async (tx) => {
      const created = await createAccount(tx, actor, {
        name: body.name,
        ownerEmail: body.ownerEmail,
        ownerName: body.ownerName ?? null,
        scopes: body.scopes ?? null,
        platformFeePercentage: body.platformFeePercentage ?? null,
      })
      if (!created.ok) return created
      return ok({ account: operatedAccountOnWire(app, created.value.account), key: created.value.keyText })
    }),

  getAccount: async (app, { params }) => {
    const account = await readSnapshot(app.database, (db) => getAccount(db, params.id))
    return account.ok ? ok(operatedAccountOnWire(app, account.value)) : account
  },

  changeAccount: async (app, { actor, params, body }) => {
    const changed = await transact(app.database, (tx) => changeAccount(tx, actor, { accountId: params.id, ...body }))
    return changed.ok ? ok(operatedAccountOnWire(app, changed.value)) : changed
  },

  restoreOwner: async (app, { operation, actor, params, body, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: { params, body } }, async (tx) => {
      const { ownerEmail, ownerName = null, reason } = body
      const restored = await restoreOwner(tx, actor, { accountId: params.id, ownerEmail, ownerName, reason })
      if (!restored.ok) return restored
      const { account, personId, keyText } = restored.value
      return ok({ account: operatedAccountOnWire(app, account), memberId: personId, key: keyText })
    }),

  creditAccount: async (app, { operation, actor, params, body, idempotencyKey }) =>
    moveOnce(app, actor, { operation, params, body, idempotencyKey }, availableOnWire, (tx, input) =>
      creditAccount(tx, actor, { ...input, kind: body.kind }),
    ),

  adjustAccount: async (app, { operation, actor, params, body, idempotencyKey }) =>
    moveOnce(app, actor, { operation, params, body, idempotencyKey }, availableOnWire, (tx, input) =>
      adjustAccount(tx, actor, input),
    ),

  refundCharge: async (app, { operation, actor, params, body, idempotencyKey }) =>
    moveOnce(app, actor, { operation, params, body, idempotencyKey }, availableOnWire, (tx, input) =>
      refundCharge(tx, actor, { ...input, rentalId: body.rentalId }),
    ),

  payOutSupplier: async (app, { operation, actor, params, body, idempotencyKey }) =>
    moveOnce(app, actor, { operation, params, body, idempotencyKey }, unpaidOnWire, (tx, input) =>
      payOutSupplier(tx, actor, input),
    ),

  listAudit: async (app, { query }) => {
    const before = query.cursor === undefined ? undefined : decodeIdCursor(query.cursor)
    if (query.cursor !== undefined && before === undefined) return badCursor()
    const found = await listAudit(app.database.db, {
      ...(before === undefined ? {} : { before }),
      ...(query.accountId === undefined ? {} : { accountId: query.accountId }),
      limit: rowsToAsk(query.limit),
    })
    const page = pageOf(found, query.limit, (record) => record.id)
    const nameOf = await readAccountNames(
      app.database.db,
      page.rows.map((record) => record.account_id),
    )
    return ok({
      records: page.rows.map((record) => ({
        ...auditOnWire(record),
        accountName: record.account_id === null ? null : nameOf(record.account_id),
      })),
      nextCursor: page.nextCursor,
    })
  },
} satisfies Partial<Handlers>

interface MoneyRequest {
  readonly operation: string
  readonly params: { readonly id: string }
  readonly body: { readonly amountUsd: string; readonly reason: string }
  readonly idempotencyKey: string | undefined
}

type MoneyInput = Parameters<typeof adjustAccount>[2]

/** A repeated request gets the first answer, with `replayed` set. */
async function moveOnce<Reply extends { postingKey: string; replayed: boolean }>(
  app: App,
  actor: Actor,
  { operation, params, body, idempotencyKey }: MoneyRequest,
  onWire: (moved: Moved) => Reply,
  work: (tx: Tx, input: MoneyInput) => Promise<Result<Moved>>,
): Promise<Result<Reply>> {
  let fresh: Reply | undefined
  const input = { accountId: params.id, amount: usd(body.amountUsd), reason: body.reason, idempotencyKey }
  const reply = await createOnce(
    app,
    actor,
    { key: idempotencyKey, operation, request: { params, body } },
    async (tx) => {
      const moved = await work(tx, input)
      if (!moved.ok) return moved
      fresh = onWire(moved.value)
      return ok(fresh)
    },
  )
  return !reply.ok || reply.value === fresh ? reply : ok({ ...reply.value, replayed: true })
}

function availableOnWire({ postingKey, replayed, balances }: Moved): ResponseOf<Api['creditAccount']> {
  return { postingKey, replayed, availableUsd: formatUsd(balances.available) }
}

function unpaidOnWire({ postingKey, replayed, balances }: Moved): ResponseOf<Api['payOutSupplier']> {
  return { postingKey, replayed, unpaidUsd: formatUsd(balances.earnings) }
}

function operatedAccountOnWire(app: App, account: AccountWithStanding): ResponseOf<Api['getAccount']> {
  const balance = balanceOf(account.standing, app.clock.now())
  return {
    ...accountOnWire(account),
    platformFeePercentage: account.platform_fee_bp === null ? null : account.platform_fee_bp / 100,
    quota: quotaOf(account.quota),
    balanceUsd: formatUsd(balance.balance),
    availableUsd: formatUsd(balance.available),
    heldUsd: formatUsd(balance.held),
    creditLineUsd: formatUsd(balance.creditLine),
    creditUsedUsd: formatUsd(balance.creditUsed),
    earningsUsd: formatUsd(balance.earnings),
  }
}

function auditOnWire(record: AuditRecord): Omit<ResponseOf<Api['listAudit']>['records'][number], 'accountName'> {
  return {
    id: record.id.toString(),
    at: formatInstant(record.at),
    actor: record.actor,
    action: record.action,
    accountId: record.account_id,
    subject: record.subject,
    reason: record.reason,
    detail: record.detail,
  }
}
