/**
 * Edits of the price book. A draft holds only changed rows, so that saving does not overwrite another operator's changes
 * to the rest.
 */
import type { CallInput, Reply } from '../../../src/client/client.ts'
import { parseUsd } from '../../../src/base/money.ts'
import { priceUsd, storagePriceUsd } from '../../../src/contract/shared.ts'
import { gpusLabel, networkLabels } from '../../../src/view/gpu.ts'
import { editableUsd, exactMoney } from '../../../src/view/money.ts'
import { rentalKindLabels } from '../../../src/view/rental.ts'

export type PriceBook = Reply<'getPriceBook'>
export type GpuPrice = PriceBook['gpus'][number]
export type StoragePrice = PriceBook['storage'][number]
export type Term = PriceBook['reserveOptions'][number]

/** A price as typed. */
interface PriceDraft {
  readonly price: string
  readonly enabled: boolean
}

export interface Draft {
  readonly gpus: Readonly<Record<string, PriceDraft>>
  readonly storage: Readonly<Record<string, PriceDraft>>
  /** Discounts in percent. */
  readonly terms: Readonly<Record<string, string>>
}

export interface DraftProps {
  readonly book: PriceBook
  readonly draft: Draft
  readonly onDraft: (draft: Draft) => void
}

export const emptyDraft: Draft = { gpus: {}, storage: {}, terms: {} }

export function gpuKey(row: GpuPrice): string {
  return [row.machineType, row.region, row.gpuType, row.networkType, row.gpuCount].join(' ')
}

export function termKey(term: Pick<Term, 'accountId' | 'termPeriodDays'>): string {
  return `${term.accountId ?? 'everyone'} ${term.termPeriodDays}`
}

export function draftOf(row: { enabled: boolean }, usd: string, draft: PriceDraft | undefined): PriceDraft {
  return draft ?? { price: editableUsd(usd), enabled: row.enabled }
}

export function faultOfGpuPrice(text: string): string | undefined {
  return priceUsd.safeParse(text).success ? undefined : 'Enter a price from 0 to 1000, such as 2.49.'
}

export function faultOfStoragePrice(text: string): string | undefined {
  return storagePriceUsd.safeParse(text).success ? undefined : 'Enter a price above 0 and up to 1, such as 0.0001.'
}

export function faultOfDiscount(text: string): string | undefined {
  return /^\d{1,2}(\.\d{1,2})?$/.test(text) ? undefined : 'Enter a percentage below 100, such as 12.5.'
}

export interface Change {
  readonly key: string
  readonly what: string
  readonly before: string
  readonly after: string
}

type Body = Omit<CallInput<'changePriceBook'>['body'], 'reason'>

interface Changes {
  readonly list: readonly Change[]
  /** Faults that prevent saving. */
  readonly faults: readonly string[]
  readonly body: Body
}

export function changesOf(book: PriceBook, draft: Draft): Changes {
  const gpus = book.gpus.flatMap((row) => {
    const typed = draft.gpus[gpuKey(row)]
    if (typed === undefined || isSame(row.perGpuHourUsd, row.enabled, typed)) return []
    return [{ row, typed, what: rowLabel(row), fault: faultOfGpuPrice(typed.price), before: row.perGpuHourUsd }]
  })
  const storage = book.storage.flatMap((row) => {
    const typed = draft.storage[row.region]
    if (typed === undefined || isSame(row.perGbHourUsd, row.enabled, typed)) return []
    const what = `Storage in ${row.region}`
    return [{ row, typed, what, fault: faultOfStoragePrice(typed.price), before: row.perGbHourUsd }]
  })
  const terms = termChanges(book, draft)
  return {
    list: [
      ...[...gpus, ...storage].map(({ row, typed, what, before }) => ({
        key: what,
        what,
        before: priceLabel(before, row.enabled),
        after: priceLabel(typed.price, typed.enabled),
      })),
      ...terms.map(({ what, before, after }) => ({
        key: what,
        what,
        before: before === undefined ? 'new' : `${before}%`,
        after: `${after}%`,
      })),
    ],
    faults: [...gpus, ...storage, ...terms].flatMap(({ what, fault }) =>
      fault === undefined ? [] : [`${what}: ${fault}`],
    ),
    body: {
      ...(gpus.length === 0
        ? {}
        : { gpus: gpus.map(({ row, typed }) => ({ ...row, perGpuHourUsd: typed.price, enabled: typed.enabled })) }),
      ...(storage.length === 0
        ? {}
        : {
            storage: storage.map(({ row, typed }) => ({ ...row, perGbHourUsd: typed.price, enabled: typed.enabled })),
          }),
      ...(terms.length === 0
        ? {}
        : {
            reserveOptions: terms.map(({ term, after }) => ({ ...term, discountPercentage: Number.parseFloat(after) })),
          }),
    },
  }
}

/** Changes of existing terms, and new terms, which exist only in the draft. */
function termChanges(book: PriceBook, draft: Draft) {
  const bookTerms = new Map(book.reserveOptions.map((term) => [termKey(term), term]))
  return Object.entries(draft.terms).flatMap(([key, after]) => {
    const term = bookTerms.get(key)
    if (term !== undefined && Number.parseFloat(after) === term.discountPercentage) return []
    const [accountId = '', days = ''] = key.split(' ')
    const identity = {
      accountId: accountId === 'everyone' ? null : accountId,
      termPeriodDays: Number.parseInt(days, 10),
    }
    const what = `${days}-day term${identity.accountId === null ? '' : ` for ${identity.accountId}`}`
    return [{ term: identity, what, before: term?.discountPercentage, after, fault: faultOfDiscount(after) }]
  })
}

/** Whether two texts are the same amount and both are on or off sale. */
export function isSame(usd: string, enabled: boolean, typed: PriceDraft): boolean {
  const price = parseUsd(typed.price)
  return price !== undefined && price === parseUsd(usd) && enabled === typed.enabled
}

function priceLabel(usd: string, enabled: boolean): string {
  return `${parseUsd(usd) === undefined ? usd : exactMoney(usd)}${enabled ? '' : ', not for sale'}`
}

function rowLabel(row: GpuPrice): string {
  const gpus = gpusLabel(row.gpuCount, row.gpuType.toUpperCase())
  return `${rentalKindLabels[row.machineType]}, ${gpus}, ${networkLabels[row.networkType]}, ${row.region}`
}
