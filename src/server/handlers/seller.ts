/** Who sells and who buys, over HTTP. */
import { checkVatId, setBillingProfile } from '../../app/document/billing-profile.ts'
import { removeTaxRate, setSeller, setTaxRate } from '../../app/document/seller.ts'
import { limits } from '../../base/limits.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { ok } from '../../contract/result.ts'
import { formatPercent, type TaxRate } from '../../domain/tax.ts'
import { findBillingDetails, listVatIds, type BillingDetails } from '../../store/document/billing-details.ts'
import { addressOf, findSeller, listTaxRates } from '../../store/document/seller.ts'
import { transact, type Db } from '../../store/platform/database.ts'
import type { Handlers } from '../http/handler.ts'
import { mapOk } from './billing.ts'

export const sellerHandlers = {
  getBillingProfile: async ({ database: { db } }, { actor }) => {
    const details = await findBillingDetails(db, actor.accountId)
    return ok({ profile: details === undefined ? null : profileOnWire(details) })
  },

  setBillingProfile: async (app, { actor, body }) =>
    transact(app.database, async (tx) => {
      const { name, vatId, poNumber, ...address } = body
      const saved = await setBillingProfile(app, tx, actor, { name, address, vatId, poNumber })
      return mapOk(saved, (details) => ({ profile: profileOnWire(details) }))
    }),

  getSeller: async ({ database: { db } }) => ok(await sellerOnWire(db)),

  setSeller: async (app, { actor, body }) =>
    transact(app.database, async (tx) => {
      const { name, taxId, email, footer, taxBy, ...address } = body
      await setSeller(tx, actor, { name, address, taxId, email, footer, taxBy })
      return ok(await sellerOnWire(tx.db))
    }),

  setTaxRate: async (app, { actor, body }) =>
    transact(app.database, async (tx) => mapOk(await setTaxRate(tx, actor, body), rateOnWire)),

  deleteTaxRate: async (app, { actor, params }) =>
    transact(app.database, async (tx) => mapOk(await removeTaxRate(tx, actor, params.country), rateOnWire)),

  listVatIds: async ({ database: { db } }) => {
    const rows = await listVatIds(db, limits.listedVatIds)
    return ok({
      vatIds: rows.map((row) => ({
        accountId: row.account_id,
        name: row.name,
        country: row.country,
        vatId: row.vat_id ?? '',
        vatState: row.vat_state ?? 'pending',
        checkedBy: row.vat_checked_by,
        vatCheckedAt: row.vat_checked_at,
      })),
    })
  },

  checkVatId: async (app, { actor, params, body }) =>
    transact(app.database, async (tx) =>
      mapOk(await checkVatId(tx, actor, { ...body, accountId: params.id }), (details) => ({
        accountId: details.account_id,
        vatId: details.vat_id,
        vatState: details.vat_state,
      })),
    ),
} satisfies Partial<Handlers>

function profileOnWire(details: BillingDetails): NonNullable<ResponseOf<Api['getBillingProfile']>['profile']> {
  return {
    name: details.name,
    ...addressOf(details),
    vatId: details.vat_id,
    vatState: details.vat_state,
    vatCheckedAt: details.vat_checked_at,
    poNumber: details.po_number,
    updatedAt: details.updated_at,
  }
}

async function sellerOnWire(db: Db): Promise<ResponseOf<Api['getSeller']>> {
  const seller = await findSeller(db)
  const taxRates = (await listTaxRates(db)).map(rateOnWire)
  if (seller === undefined) return { seller: null, taxRates }
  const { name, tax_id: taxId, email, footer, tax_by: taxBy, updated_at: updatedAt } = seller
  return { seller: { name, ...addressOf(seller), taxId, email, footer, taxBy, updatedAt }, taxRates }
}

function rateOnWire({ country, name, percentMilli }: TaxRate): ResponseOf<Api['setTaxRate']> {
  return { country, name, percent: formatPercent(percentMilli) }
}
