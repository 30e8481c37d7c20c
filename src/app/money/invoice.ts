/**
 * Monthly invoices, computed from the ledger on request, so that they cannot differ from it. A past month no longer
 * changes; the current one is open.
 */
import {
  formatDay,
  formatInstant,
  parseInstant,
  startOfMonth,
  startOfNextMonth,
  type Instant,
} from '../../base/instant.ts'
import { floorDivide, nanoUsdOf, sumUsd, type NanoUsd } from '../../base/money.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import { readSnapshot } from '../../store/ledger/billing.ts'
import { readBalanceBefore } from '../../store/ledger/cost.ts'
import type { Db } from '../../store/platform/database.ts'
import {
  countMonthRequests,
  listMonthCharges,
  listMonthPayments,
  listMonths,
  readAccountName,
  readBilledRentals,
  readBilledVolumes,
  type BilledRental,
  type BilledVolume,
  type Month,
  type MonthCharge,
  type MonthPayment,
} from '../../store/ledger/invoice.ts'
import type { Actor, App } from '../app.ts'

export interface InvoiceLine {
  readonly description: string
  readonly quantity: string
  /** null: there were several prices, or none per unit. */
  readonly unitPrice: NanoUsd | null
  readonly amount: NanoUsd
}

export interface InvoiceSummary {
  readonly number: string
  /** `2026-11` */
  readonly month: string
  readonly status: 'open' | 'final'
  readonly charges: NanoUsd
}

/** `opening + paid − charges = closing`, to the nano-dollar. */
export interface Invoice extends InvoiceSummary {
  readonly account: { readonly id: string; readonly name: string }
  readonly issuedAt: Instant
  readonly opening: NanoUsd
  readonly lines: readonly InvoiceLine[]
  readonly payments: readonly InvoiceLine[]
  readonly paid: NanoUsd
  readonly closing: NanoUsd
}

/** Newest first: each month in which the balance changed. */
export async function listInvoices(app: App, actor: Actor): Promise<Result<InvoiceSummary[]>> {
  const months = await listMonths(app.database.db, actor.accountId)
  const now = app.clock.now()
  return ok(
    months.map(({ month, charges }) => ({
      number: invoiceNumber(actor.accountId, month),
      month,
      status: month < monthOf(now) ? 'final' : 'open',
      charges,
    })),
  )
}

export async function readInvoice(app: App, actor: Actor, input: { month: string }): Promise<Result<Invoice>> {
  const from = parseInstant(`${input.month}-01T00:00:00Z`)
  // Months before 1970 are refused, since JavaScript reads years of the first century as those of the twentieth.
  if (from === undefined || from < 0) return noInvoice()
  const month: Month = { from, until: startOfNextMonth(from) }
  return readSnapshot(app.database, async (db) => {
    const { accountId } = actor
    const charges = await listMonthCharges(db, accountId, month)
    const payments = (await listMonthPayments(db, accountId, month)).map(paymentLine)
    if (charges.length + payments.length === 0) return noInvoice()
    const lines = await describeCharges(db, accountId, month, charges)
    const opening = await readBalanceBefore(db, accountId, formatDay(month.from))
    const charged = sumUsd(lines.map((line) => line.amount))
    const totalPaid = sumUsd(payments.map((line) => line.amount))
    const now = app.clock.now()
    const open = month.from >= startOfMonth(now)
    return ok({
      number: invoiceNumber(accountId, input.month),
      month: input.month,
      status: open ? 'open' : 'final',
      account: { id: accountId, name: await readAccountName(db, accountId) },
      issuedAt: open ? now : month.until,
      opening,
      lines,
      charges: charged,
      payments,
      paid: totalPaid,
      closing: nanoUsdOf(opening + totalPaid - charged),
    })
  })
}

function noInvoice() {
  return fail('invoice_not_found')
}

/** The end of the account id keeps the numbers of two accounts distinct without revealing how many there are. */
function invoiceNumber(accountId: string, month: string): string {
  return `B-${accountId.replace(/^acc_/, '').slice(-8)}-${month}`
}

function monthOf(at: Instant): string {
  return formatInstant(at).slice(0, 7)
}

async function describeCharges(
  db: Db,
  accountId: string,
  month: Month,
  charges: readonly MonthCharge[],
): Promise<InvoiceLine[]> {
  const idsOf = (key: 'rentalId' | 'volumeId') => [
    ...new Set(charges.map((charge) => charge[key]).filter((id) => id !== null)),
  ]
  const rentals = await readBilledRentals(db, idsOf('rentalId'))
  const volumes = await readBilledVolumes(db, idsOf('volumeId'))
  const requests = await countMonthRequests(db, accountId, month)
  const groups = new Map<string, MonthCharge[]>()
  for (const charge of charges) {
    const { rentalId, volumeId, model, segment } = charge
    const group = JSON.stringify([rentalId, volumeId, model, segment?.whileStopped, segment?.withoutGpus])
    groups.set(group, [...(groups.get(group) ?? []), charge])
  }
  return [...groups.values()].map((parts) => {
    const rental = rentals.get(parts[0]?.rentalId ?? 0)
    const volume = volumes.get(parts[0]?.volumeId ?? 0)
    const model = parts[0]?.model ?? null
    if (rental !== undefined) return rentalLine(rental, parts)
    if (volume !== undefined) return volumeLine(volume, parts)
    return modelLine(model, (model === null ? undefined : requests.get(model)) ?? 0, parts)
  })
}

const kindNames = {
  'virtual-machine': 'Virtual machine',
  'bare-metal': 'Bare-metal machine',
  container: 'Container',
} as const satisfies Record<BilledRental['kind'], string>

function rentalLine(rental: BilledRental, parts: readonly MonthCharge[]): InvoiceLine {
  const label = rental.label === null || rental.label === '' ? '' : ` “${rental.label}”`
  return {
    description: `${prefixOf(parts)}${kindNames[rental.kind]} ${rental.name}${label} (rental ${rental.id}), ${rental.gpuCount} × ${rental.gpuModel}, ${rental.region}`,
    quantity: timed(parts) ? `${formatHours(spanOf(parts))} hours` : counted(parts),
    unitPrice: onePrice(parts),
    amount: amountOf(parts),
  }
}

function prefixOf(parts: readonly MonthCharge[]): string {
  if (!timed(parts)) return 'Early end of the reserved term: '
  const { whileStopped, withoutGpus } = parts[0]?.segment ?? {}
  if (whileStopped === true) return 'Disk while stopped: '
  return withoutGpus === true ? 'Without its GPUs: ' : ''
}

function volumeLine(volume: BilledVolume, parts: readonly MonthCharge[]): InvoiceLine {
  const price = onePrice(parts)
  const sizeGb = BigInt(volume.sizeGb)
  return {
    description: `Storage volume “${volume.label}” (volume ${volume.id}), ${groupThousands(sizeGb)} GB, ${volume.region}`,
    quantity: timed(parts) ? `${formatHours(spanOf(parts) * sizeGb)} GB-hours` : counted(parts),
    unitPrice: price !== null && price % sizeGb === 0n ? nanoUsdOf(price / sizeGb) : null,
    amount: amountOf(parts),
  }
}

function modelLine(model: string | null, requests: number, parts: readonly MonthCharge[]): InvoiceLine {
  return {
    description: model === null ? 'Other usage' : `Inference, ${model}`,
    quantity: requests === 0 ? counted(parts) : plural(requests, 'request'),
    unitPrice: null,
    amount: amountOf(parts),
  }
}

const paymentNames = {
  purchase: 'Payment',
  credit: 'Credit',
  adjustment: 'Adjustment',
  refund: 'Refund',
  payout: 'Payout',
  credit_draw: null,
  credit_repayment: null,
  payment_refund: null,
  dispute: null,
  dispute_return: null,
  debt_repayment: null,
  payout_return: null,
} as const satisfies Record<MonthPayment['kind'], string | null>

function paymentLine(payment: MonthPayment): InvoiceLine {
  const { kind, memo, reason } = payment
  const name = paymentNames[kind]
  // The memo may contain the reason already.
  const lower = memo.toLowerCase()
  const text = name === null ? memo : lower === kind ? name : lower.startsWith(kind) ? memo : `${name}: ${memo}`
  return {
    description: reason === null || reason === memo ? text : `${text} – ${reason}`,
    quantity: formatDay(payment.at),
    unitPrice: null,
    amount: payment.amount,
  }
}

function amountOf(parts: readonly MonthCharge[]): NanoUsd {
  return sumUsd(parts.map((part) => part.amount))
}

function timed(parts: readonly MonthCharge[]): boolean {
  return parts.every((part) => part.segment !== null)
}

function onePrice(parts: readonly MonthCharge[]): NanoUsd | null {
  const prices = new Set(parts.map((part) => part.segment?.pricePerHour ?? null))
  return prices.size === 1 ? (parts[0]?.segment?.pricePerHour ?? null) : null
}

function counted(parts: readonly MonthCharge[]): string {
  return plural(
    parts.reduce((sum, part) => sum + part.postings, 0),
    'charge',
  )
}

/** The charged milliseconds in the month. */
function spanOf(parts: readonly MonthCharge[]): bigint {
  return parts.reduce((sum, { segment }) => {
    if (segment === null) return sum
    return sum + spanAtCost(segment.pricePerHour, segment.after) - spanAtCost(segment.pricePerHour, segment.before)
  }, 0n)
}

/**
 * Returns the shortest time that costs `cost`. From $0.0036/hr, each millisecond costs at least a nano-dollar, so this
 * is exactly the metered time.
 */
function spanAtCost(pricePerHour: NanoUsd, cost: NanoUsd): bigint {
  return pricePerHour === 0n ? 0n : -floorDivide(-(cost * MS_PER_HOUR), pricePerHour)
}

const MS_PER_HOUR = 3_600_000n

/** With four decimals (a third of a second), rounded half up. */
function formatHours(ms: bigint): string {
  const tenThousandths = floorDivide(ms * 10_000n + MS_PER_HOUR / 2n, MS_PER_HOUR)
  return `${groupThousands(tenThousandths / 10_000n)}.${(tenThousandths % 10_000n).toString().padStart(4, '0')}`
}

function plural(count: number, noun: string): string {
  return `${groupThousands(BigInt(count))} ${noun}${count === 1 ? '' : 's'}`
}

function groupThousands(value: bigint): string {
  return value.toString().replace(/\B(?=(\d{3})+$)/g, ',')
}
