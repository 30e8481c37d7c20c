/** Costs, usage, balance, statement and invoices over HTTP. Amounts become strings only here. */
import { formatInstant, formatInstantOrNull, formatInstantWithOffset, instantOf } from '../../base/instant.ts'
import { centsRoundedDown, formatUsd, nanoUsdToNumber } from '../../base/money.ts'
import { ok, type Result } from '../../contract/result.ts'
import { readBalance, readCostsOfRequests, readPurchases, readStatement, readUsage } from '../../app/money/billing.ts'
import { listInvoices, readInvoice, type Invoice, type InvoiceLine } from '../../app/money/invoice.ts'
import { verifyLedger } from '../../app/money/ledger-verify.ts'
import { nameRentals } from '../../store/rental/rental.ts'
import type { Handlers } from '../http/handler.ts'
import { badCursor, decodeCursor, pageOf, rowsToAsk } from '../http/cursor.ts'
import { renderInvoice, type InvoiceRecord } from './invoice-page.ts'

export const billingHandlers = {
  getRequestCost: async (app, { actor, body }) => {
    const costs = await readCostsOfRequests(app, actor, body)
    return mapOk(costs, (rows) => ({
      requests: rows.map((row) => ({ requestId: row.requestId, costNanoUsd: nanoUsdToNumber(row.cost) })),
    }))
  },

  getUsageSummary: async (app, { actor, query }) => {
    const usage = await readUsage(app, actor, query)
    const ids = usage.ok && query.by === 'rental' ? usage.value.groups.map(({ group }) => Number(group)) : []
    const names = await nameRentals(app.database.db, actor.accountId, ids.filter(Number.isSafeInteger))
    return mapOk(usage, ({ from, to, total, groups, days }) => ({
      from,
      to,
      by: query.by,
      totalUsd: formatUsd(total),
      rows: groups.map(({ group, cost, requests }) => ({
        group,
        costUsd: formatUsd(cost),
        requests,
        rental: names.get(Number(group)) ?? null,
      })),
      ...(days === undefined
        ? {}
        : { days: days.map(({ day, group, cost }) => ({ day, group, costUsd: formatUsd(cost) })) }),
    }))
  },

  getCustomerBalance: async (app, { actor }) =>
    mapOk(await readBalance(app, actor), (value) => ({
      balanceUsd: formatUsd(value.balance),
      availableUsd: formatUsd(value.available),
      heldUsd: formatUsd(value.held),
      hourlySpendUsd: formatUsd(value.hourlySpend),
      emptyAt: formatInstantOrNull(value.emptyAt),
      runway: {
        fundsUsd: formatUsd(value.runway.funds),
        hourlySpendUsd: formatUsd(value.runway.hourlySpend),
      },
      creditLineUsd: formatUsd(value.creditLine),
      creditUsedUsd: formatUsd(value.creditUsed),
      earningsUsd: formatUsd(value.earnings),
    })),

  getStatement: async (app, { actor, query }) => {
    const before = query.cursor === undefined ? undefined : statementPlace(query.cursor)
    if (query.cursor !== undefined && before === undefined) return badCursor()
    const found = await readStatement(app, actor, {
      limit: rowsToAsk(query.limit),
      ...(before === undefined ? {} : { before }),
    })
    const ids = found.ok ? found.value.flatMap(({ rentalId }) => rentalId ?? []) : []
    const names = await nameRentals(app.database.db, actor.accountId, [...new Set(ids)])
    return mapOk(found, (lines) => {
      const page = pageOf(lines, query.limit, (line) => `${line.at}.${line.id}`)
      return {
        lines: page.rows.map(({ amount, balanceAfter, ...line }) => ({
          ...line,
          id: line.id.toString(),
          at: formatInstant(line.at),
          rental: (line.rentalId === null ? undefined : names.get(line.rentalId)) ?? null,
          amountUsd: formatUsd(amount),
          balanceAfterUsd: formatUsd(balanceAfter),
        })),
        nextCursor: page.nextCursor,
      }
    })
  },

  listInvoices: async (app, { actor }) =>
    mapOk(await listInvoices(app, actor), (invoices) => ({
      invoices: invoices.map(({ charges, ...invoice }) => ({ ...invoice, chargesUsd: formatUsd(charges) })),
    })),

  getInvoice: async (app, { actor, params }) => mapOk(await readInvoice(app, actor, params), invoiceRecordOf),

  getInvoicePage: async (app, { actor, params }) =>
    mapOk(await readInvoice(app, actor, params), (invoice) => renderInvoice(invoiceRecordOf(invoice))),

  getCurrentBalance: async (app, { actor }) =>
    mapOk(await readBalance(app, actor), (value) => ({
      credits: centsRoundedDown(value.balance),
      balance_usd: formatUsd(value.balance),
      hourly_spend_usd: formatUsd(value.hourlySpend),
      empty_at: formatInstantOrNull(value.emptyAt),
    })),

  getPurchaseHistory: async (app, { actor }) =>
    mapOk(await readPurchases(app, actor), (purchases) => ({
      purchase_history: purchases.map(({ amount, at, source, memo }) => ({
        amount: centsRoundedDown(amount).toString(),
        timestamp: formatInstantWithOffset(at),
        source,
        memo,
      })),
    })),

  verifyLedger: async (app) =>
    mapOk(await verifyLedger(app), ({ house, ...verdict }) => ({
      ...verdict,
      houseUsd: Object.fromEntries([...house].map(([kind, amount]) => [kind, formatUsd(amount)])),
    })),
} satisfies Partial<Handlers>

function mapOk<From, To>(result: Result<From>, map: (value: From) => To): Result<To> {
  return result.ok ? ok(map(result.value)) : result
}

/** A statement is ordered by time, then posting; its cursor holds both. */
function statementPlace(cursor: string) {
  const match = /^(\d{1,15})\.(\d{1,18})$/.exec(decodeCursor(cursor) ?? '')
  const [, ms, id] = match ?? []
  return ms === undefined || id === undefined ? undefined : { at: instantOf(Number.parseInt(ms, 10)), id: BigInt(id) }
}

function invoiceRecordOf(invoice: Invoice): InvoiceRecord {
  return {
    number: invoice.number,
    month: invoice.month,
    status: invoice.status,
    account: invoice.account,
    issuedAt: formatInstant(invoice.issuedAt),
    openingBalanceUsd: formatUsd(invoice.opening),
    lines: invoice.lines.map(invoiceLineOf),
    chargesUsd: formatUsd(invoice.charges),
    payments: invoice.payments.map(invoiceLineOf),
    paymentsUsd: formatUsd(invoice.paid),
    closingBalanceUsd: formatUsd(invoice.closing),
  }
}

function invoiceLineOf({ description, quantity, unitPrice, amount }: InvoiceLine) {
  return {
    description,
    quantity,
    unitPriceUsd: unitPrice === null ? null : formatUsd(unitPrice),
    amountUsd: formatUsd(amount),
  }
}
