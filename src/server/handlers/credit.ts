/** Credits, vouchers and cards that are saved without a payment, over HTTP. */
import { createOnce } from '../../app/idempotency.ts'
import { createCardSetup, openCardSetup, readCardSetup } from '../../app/payment/card-setup.ts'
import { readTrial } from '../../app/payment/trial.ts'
import { countTry, createVoucher, forgetTry, redeemVoucher, revokeVoucher } from '../../app/payment/voucher.ts'
import { limits } from '../../base/limits.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { fail, ok } from '../../contract/result.ts'
import { readSnapshot } from '../../store/ledger/billing.ts'
import type { CardSetup } from '../../store/payment/card-setup.ts'
import { listGrants, readUnspentGrants, type GrantWithRest } from '../../store/payment/credit-grant.ts'
import { listVouchers, type Voucher } from '../../store/payment/voucher.ts'
import { transact } from '../../store/platform/database.ts'
import type { Handlers } from '../http/handler.ts'
import { mapOk } from './billing.ts'

export const creditHandlers = {
  listCredits: async (app, { actor }) =>
    readSnapshot(app.database, async (db) => {
      const trial = await readTrial(app, db, actor)
      return ok({
        unspentUsd: await readUnspentGrants(db, actor.accountId),
        trial:
          trial === undefined
            ? null
            : { amountUsd: trial.amount, days: trial.days, state: trial.isGiven ? 'given' : 'available' },
        credits: (await listGrants(db, actor.accountId, limits.listedCredits)).map(creditOnWire),
      })
    }),

  redeemVoucher: async (app, { operation, actor, body, idempotencyKey, address }) => {
    const tried = await countTry(app, actor, address)
    if (!tried.ok) return tried
    const once = { key: idempotencyKey, operation, request: { body } }
    const redeemed = await createOnce(app, actor, once, async (tx) =>
      mapOk(await redeemVoucher(tx, actor, body.code), creditOnWire),
    )
    if (redeemed.ok) await forgetTry(app, tried.value)
    return redeemed
  },

  createCardSetup: async (app, { operation, actor, idempotencyKey, address }) => {
    const once = { key: idempotencyKey, operation, request: {} }
    const created = await createOnce(app, actor, once, async (tx) =>
      mapOk(await createCardSetup(app, tx, actor, address), cardSetupOnWire),
    )
    if (!created.ok) return created
    // The processor is called after the commit; a repeated request gets the same page.
    const setup = await openCardSetup(app, created.value.id)
    return setup === undefined ? fail('card_setup_not_found') : ok(cardSetupOnWire(setup))
  },

  getCardSetup: async (app, { actor, params }) => mapOk(await readCardSetup(app, actor, params.id), cardSetupOnWire),

  listVouchers: async ({ database: { db } }) =>
    ok({ vouchers: (await listVouchers(db, limits.listedVouchers)).map(voucherOnWire) }),

  createVoucher: async (app, { operation, actor, body, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: { body } }, async (tx) => {
      const { amountUsd: amount, uses, usesPerAccount, redeemableUntil, creditDays, note } = body
      const order = { amount, uses, usesPerAccount, redeemableUntil, creditDays, note }
      return mapOk(await createVoucher(tx, actor, order), ({ voucher, code }) => ({
        voucher: voucherOnWire(voucher),
        code,
      }))
    }),

  revokeVoucher: async (app, { actor, params }) => {
    const revoked = await transact(app.database, (tx) => revokeVoucher(tx, actor, params.id))
    return mapOk(revoked, () => ({ message: 'Voucher revoked' }))
  },
} satisfies Partial<Handlers>

function creditOnWire(grant: GrantWithRest): ResponseOf<Api['redeemVoucher']> {
  return {
    id: grant.id,
    kind: grant.kind,
    amountUsd: grant.amount_nano,
    unspentUsd: grant.rest,
    expiredUsd: grant.taken_nano,
    grantedAt: grant.granted_at,
    expiresAt: grant.expires_at,
  }
}

function cardSetupOnWire(setup: CardSetup): ResponseOf<Api['getCardSetup']> {
  return {
    id: setup.id,
    state: setup.state,
    url: setup.state === 'open' ? setup.session_url : null,
    failure: setup.failure,
    createdAt: setup.created_at,
    expiresAt: setup.expires_at,
  }
}

function voucherOnWire(voucher: Voucher): ResponseOf<Api['createVoucher']>['voucher'] {
  return {
    id: voucher.id,
    codeEnd: voucher.code_end,
    amountUsd: voucher.amount_nano,
    uses: voucher.uses,
    usesPerAccount: voucher.uses_per_account,
    used: voucher.used,
    redeemableUntil: voucher.redeemable_until,
    creditDays: voucher.credit_days,
    note: voucher.note,
    createdAt: voucher.created_at,
    revokedAt: voucher.revoked_at,
  }
}
