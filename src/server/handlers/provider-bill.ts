/** Bills of other clouds over HTTP, for operators. */
import { compareLines, importBill, listBills, readBill, removeBill } from '../../app/money/provider-bill.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { ok } from '../../contract/result.ts'
import { transact } from '../../store/platform/database.ts'
import type { BillComparison, BillPeriod, ProviderBill } from '../../store/provider/provider-bill.ts'
import type { Handlers } from '../http/handler.ts'

export const providerBillHandlers = {
  compareProviderBill: async (app, { params, body }) => {
    const compared = await compareLines(app.database.db, params.name, body.lines, periodOf(body))
    return compared.ok ? ok(comparisonOnWire(compared.value)) : compared
  },

  importProviderBill: async (app, { actor, params, body }) => {
    const input = { label: body.label, lines: body.lines, ...periodOf(body) }
    const imported = await transact(app.database, (tx) => importBill(tx, actor, params.name, input))
    if (!imported.ok) return imported
    const { bill, isNew } = imported.value
    const read = await readBill(app.database.db, params.name, bill.id)
    if (!read.ok) return read
    return ok({ bill: billOnWire(bill), isNew, ...comparisonOnWire(read.value.comparison) })
  },

  listProviderBills: async (app, { params }) => {
    const bills = await listBills(app.database.db, params.name)
    return bills.ok ? ok({ bills: bills.value.map(billOnWire) }) : bills
  },

  getProviderBill: async (app, { params }) => {
    const read = await readBill(app.database.db, params.name, params.id)
    if (!read.ok) return read
    return ok({ bill: billOnWire(read.value.bill), ...comparisonOnWire(read.value.comparison) })
  },

  deleteProviderBill: async (app, { actor, params }) => {
    const removed = await transact(app.database, (tx) => removeBill(tx, actor, params.name, params.id))
    return removed.ok ? ok({ id: removed.value }) : removed
  },
} satisfies Partial<Handlers>

function periodOf({ from, to }: { from?: string | undefined; to?: string | undefined }): BillPeriod {
  return { from: from ?? null, to: to ?? null }
}

function billOnWire(bill: ProviderBill): ResponseOf<Api['getProviderBill']>['bill'] {
  const { id, label, from_day: from, to_day: to, lines, billed: billedUsd } = bill
  return { id, label, from, to, lines, billedUsd, importedBy: bill.imported_by, importedAt: bill.imported_at }
}

function comparisonOnWire({ billed, recorded, differing, differences }: BillComparison) {
  return {
    billedUsd: billed,
    recordedUsd: recorded,
    differences: differences.map((one) => ({
      machine: one.machine,
      rentalId: one.rentalId,
      volumeId: one.volumeId,
      billedUsd: one.billed,
      recordedUsd: one.recorded,
      differenceUsd: one.difference,
    })),
    differencesTotal: differing,
  }
}
