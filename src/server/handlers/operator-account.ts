/** Accounts over HTTP, for operators. */
import { createOnce } from '../../app/idempotency.ts'
import { changeAccount, createAccount, getAccount, restoreOwner } from '../../app/account/operator-account.ts'
import type { App } from '../../app/app.ts'
import { ok } from '../../contract/result.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { balanceOf } from '../../domain/balance.ts'
import { quotaOf } from '../../domain/quota.ts'
import { findAccount, listAccounts, type AccountWithStanding } from '../../store/account/account.ts'
import { readSnapshot } from '../../store/ledger/billing.ts'
import { transact } from '../../store/platform/database.ts'
import { badCursor, decodeCursor, pageOf, rowsToAsk } from '../http/cursor.ts'
import type { Handlers } from '../http/handler.ts'
import { accountOnWire } from './account.ts'

export const operatorAccountHandlers = {
  listAccounts: async (app, { query }) => {
    const { db } = app.database
    const after = query.cursor === undefined ? undefined : decodeCursor(query.cursor)
    if (query.cursor !== undefined && (after === undefined || (await findAccount(db, after)) === undefined)) {
      return badCursor()
    }
    const accounts = await readSnapshot(app.database, (snapshot) =>
      listAccounts(snapshot, {
        q: query.q,
        supplier: query.supplier,
        suspended: query.suspended,
        ...(after === undefined ? {} : { after }),
        limit: rowsToAsk(query.limit),
      }),
    )
    const page = pageOf(accounts, query.limit, (account) => account.id)
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
    const { creditLineUsd: creditLine, ...others } = body
    const input = { accountId: params.id, ...others, creditLine }
    const changed = await transact(app.database, (tx) => changeAccount(tx, actor, input))
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
} satisfies Partial<Handlers>

function operatedAccountOnWire(app: App, account: AccountWithStanding): ResponseOf<Api['getAccount']> {
  const balance = balanceOf(account.standing, app.clock.now())
  return {
    ...accountOnWire(account),
    platformFeePercentage: account.platform_fee_bp === null ? null : account.platform_fee_bp / 100,
    quota: quotaOf(account.quota),
    balanceUsd: balance.balance,
    unbilledUsd: balance.unbilled,
    availableUsd: balance.available,
    heldUsd: balance.held,
    creditLineUsd: balance.creditLine,
    creditUsedUsd: balance.creditUsed,
    debtUsd: balance.debt,
    earningsUsd: balance.earnings,
  }
}
