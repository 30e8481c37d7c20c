/** Bills and usage lists of other clouds: imported once each, and compared with the recorded costs. */
import { randomId, sha256 } from '../../base/id.ts'
import { limits } from '../../base/limits.ts'
import { nanoUsdOf, type NanoUsd } from '../../base/money.ts'
import { fromDecimal } from '../../base/vendor-price.ts'
import { fail, failField, ok, type Result } from '../../contract/result.ts'
import { writeAudit } from '../../store/platform/audit.ts'
import type { Db, Tx } from '../../store/platform/database.ts'
import { findProviderAccount } from '../../store/provider/provider-account.ts'
import {
  compareBill,
  countProviderBills,
  deleteProviderBill,
  findProviderBill,
  insertProviderBill,
  listProviderBills,
  type BillAmounts,
  type BillComparison,
  type BillPeriod,
  type ProviderBill,
} from '../../store/provider/provider-bill.ts'
import type { Actor } from '../app.ts'

export type BillLines = ReadonlyArray<{ readonly machine: string; readonly amountUsd: string }>

export interface ImportedBill {
  readonly bill: ProviderBill
  /** False: an earlier request imported it. */
  readonly isNew: boolean
}

/** Compares without importing. A removed account has costs too. */
export async function compareLines(
  db: Db,
  name: string,
  lines: BillLines,
  period: BillPeriod,
): Promise<Result<BillComparison>> {
  const account = await findProviderAccount(db, name)
  if (account === undefined) return fail('provider_not_found', { name })
  const amounts = addUp(lines)
  if (!amounts.ok) return amounts
  if (isReversed(period)) return failField(['to'], 'bad_range', reversed)
  return ok(await compareBill(db, account.id, { amounts: amounts.value }, period, limits.billDifferences))
}

/** Imports a bill once: the same amounts for the same period count as the same bill, whatever their order and label. */
export async function importBill(
  tx: Tx,
  actor: Actor,
  name: string,
  input: BillPeriod & { readonly label: string; readonly lines: BillLines },
): Promise<Result<ImportedBill>> {
  const account = await findProviderAccount(tx.db, name)
  if (account === undefined) return fail('provider_not_found', { name })
  const amounts = addUp(input.lines)
  if (!amounts.ok) return amounts
  const { from, to, label } = input
  if (isReversed(input)) return failField(['to'], 'bad_range', reversed)
  const digest = digestOf(amounts.value, { from, to })
  const existing = await findProviderBill(tx.db, account.id, { digest })
  if (existing !== undefined) return ok({ bill: existing, isNew: false })
  const max = limits.billsPerProvider
  if ((await countProviderBills(tx.db, account.id)) >= max) return fail('too_many_bills', { name, max })
  const id = randomId('bil')
  const common = { id, accountId: account.id, digest, importedBy: actor.keyId }
  // When two imports run at the same time, the second waits here and then finds the bill of the first.
  const isNew = await insertProviderBill(tx, { ...common, label, from, to, amounts: amounts.value })
  if (isNew) await writeAudit(tx, { actor: actor.keyId, action: 'provider.import_bill', subject: name, detail: { id } })
  const bill = await findProviderBill(tx.db, account.id, { digest })
  return bill === undefined ? fail('bill_not_found', { id }) : ok({ bill, isNew })
}

const reversed = { fault: 'order', maxDays: 0 } as const

function isReversed({ from, to }: BillPeriod): boolean {
  return from !== null && to !== null && from > to
}

export async function listBills(db: Db, name: string): Promise<Result<ProviderBill[]>> {
  const account = await findProviderAccount(db, name)
  if (account === undefined) return fail('provider_not_found', { name })
  return ok(await listProviderBills(db, account.id, limits.billsPerProvider))
}

/** Compares the bill with the current records. */
export async function readBill(
  db: Db,
  name: string,
  id: string,
): Promise<Result<{ bill: ProviderBill; comparison: BillComparison }>> {
  const account = await findProviderAccount(db, name)
  if (account === undefined) return fail('provider_not_found', { name })
  const bill = await findProviderBill(db, account.id, { id })
  if (bill === undefined) return fail('bill_not_found', { id })
  const period = { from: bill.from_day, to: bill.to_day }
  return ok({ bill, comparison: await compareBill(db, account.id, { id }, period, limits.billDifferences) })
}

export async function removeBill(tx: Tx, actor: Actor, name: string, id: string): Promise<Result<string>> {
  const account = await findProviderAccount(tx.db, name)
  if (account === undefined) return fail('provider_not_found', { name })
  if (!(await deleteProviderBill(tx, account.id, id))) return fail('bill_not_found', { id })
  await writeAudit(tx, { actor: actor.keyId, action: 'provider.delete_bill', subject: name, detail: { id } })
  return ok(id)
}

/** Adds up the lines of each machine. Ids may have the path that we use: `metal/0a1b…`. */
function addUp(lines: BillLines): Result<BillAmounts> {
  const amounts = new Map<string, NanoUsd>()
  for (const [index, { machine, amountUsd }] of lines.entries()) {
    const amount = readAmount(amountUsd)
    if (amount === undefined) return failField(['lines', index, 'amountUsd'], 'bad_amount')
    const id = machine.slice(machine.lastIndexOf('/') + 1)
    amounts.set(id, nanoUsdOf((amounts.get(id) ?? 0n) + amount))
  }
  return ok(amounts)
}

function digestOf(amounts: BillAmounts, { from, to }: BillPeriod): string {
  const lines = [...amounts].map(([machine, nano]) => `${machine} ${nano}`).sort()
  return sha256(JSON.stringify([from, to, ...lines])).toString('hex')
}

/** Amounts of credits are below zero. */
function readAmount(text: string): NanoUsd | undefined {
  try {
    return text.startsWith('-') ? nanoUsdOf(0n - fromDecimal(text.slice(1))) : fromDecimal(text)
  } catch {
    return undefined
  }
}
