/**
 * The price book with what has been typed over it. A draft holds only rows that were touched, so that saving names only
 * those and another operator's change to the rest stays.
 */
import type { CallInput, Reply } from '../../../src/client/client.ts'
import { parseUsd } from '../../../src/base/money.ts'
import { priceUsdText, storagePriceUsdText } from '../../../src/contract/shared.ts'
import { editableUsd, money } from '../../../src/view/money.ts'

export type PriceBook = Reply<'getPriceBook'>
export type GpuPrice = PriceBook['gpus'][number]
export type StoragePrice = PriceBook['storage'][number]
export type Term = PriceBook['reserveOptions'][number]

/** As it is typed. */
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
  return priceUsdText.safeParse(text).success ? undefined : 'Write a price from 0 to 1000, such as 2.49.'
}

export function faultOfStoragePrice(text: string): string | undefined {
  return storagePriceUsdText.safeParse(text).success ? undefined : 'Write a price above 0 and up to 1, such as 0.0001.'
}

export function faultOfDiscount(text: string): string | undefined {
  return /^\d{1,2}(\.\d{1,2})?$/.test(text) ? undefined : 'Write a percentage below 100, such as 12.5.'
}

/** One row that will be another one. */
export interface Change {
  readonly key: string
  readonly what: string
  readonly before: string
  readonly after: string
}

type Body = Omit<CallInput<'changePriceBook'>['body'], 'reason'>

interface Changes {
  readonly list: readonly Change[]
  /** What cannot be saved as it is typed. */
  readonly faults: readonly string[]
  readonly body: Body
}

export function changesOf(book: PriceBook, draft: Draft): Changes {
  const gpus = book.gpus.flatMap((row) => {
    const typed = draft.gpus[gpuKey(row)]
    if (typed === undefined || isSame(row.perGpuHourUsd, row.enabled, typed)) return []
    return [{ row, typed, what: gpuWords(row), fault: faultOfGpuPrice(typed.price), before: row.perGpuHourUsd }]
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
        before: priceWords(before, row.enabled),
        after: priceWords(typed.price, typed.enabled),
      })),
      ...terms.map(({ what, before, after }) => ({
        key: what,
        what,
        before: before === undefined ? 'new' : `${before} %`,
        after: `${after} %`,
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

/** Of terms that are there, and of new ones, which stand in the draft only. */
function termChanges(book: PriceBook, draft: Draft) {
  const known = new Map(book.reserveOptions.map((term) => [termKey(term), term]))
  return Object.entries(draft.terms).flatMap(([key, after]) => {
    const term = known.get(key)
    if (term !== undefined && Number.parseFloat(after) === term.discountPercentage) return []
    const [accountId = '', days = ''] = key.split(' ')
    const identity = {
      accountId: accountId === 'everyone' ? null : accountId,
      termPeriodDays: Number.parseInt(days, 10),
    }
    const what = `Term of ${days} days${identity.accountId === null ? '' : ` for ${identity.accountId}`}`
    return [{ term: identity, what, before: term?.discountPercentage, after, fault: faultOfDiscount(after) }]
  })
}

/** Nothing is changed, however it is written. */
export function isSame(usd: string, enabled: boolean, typed: PriceDraft): boolean {
  const price = parseUsd(typed.price)
  return price !== undefined && price === parseUsd(usd) && enabled === typed.enabled
}

function priceWords(usd: string, enabled: boolean): string {
  return `${parseUsd(usd) === undefined ? usd : money(usd)}${enabled ? '' : ', not sold'}`
}

const machineWords: Readonly<Record<GpuPrice['machineType'], string>> = {
  'virtual-machine': 'Virtual machine',
  'bare-metal': 'Bare metal',
}

const networkWords: Readonly<Record<GpuPrice['networkType'], string>> = {
  ethernet: 'Ethernet',
  infiniband: 'InfiniBand',
}

export function machineWord(type: GpuPrice['machineType']): string {
  return machineWords[type]
}

export function networkWord(type: GpuPrice['networkType']): string {
  return networkWords[type]
}

function gpuWords(row: GpuPrice): string {
  const gpus = `${row.gpuCount} × ${row.gpuType.toUpperCase()}`
  return `${machineWord(row.machineType)}, ${gpus}, ${networkWord(row.networkType)}, ${row.region}`
}
