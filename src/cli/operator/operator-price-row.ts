/** Rows of the price book: how they are named on the command line, and how similar ones are merged into one line. */
import { exactMoney } from '../../view/money.ts'
import { count } from '../../view/number.ts'
import type { Reply } from '../../client/client.ts'
import { region, type Region } from '../../contract/region.ts'
import type { RentalType } from '../../contract/rental.ts'
import { gpuType, networkType, type GpuType, type NetworkType } from '../../contract/shared.ts'
import { CliError, exitCodes } from '../kit/shell.ts'

export type GpuPrice = Reply<'getPriceBook'>['gpus'][number]

/** The parts of a row that were named. Absent parts match anything. */
export interface PriceFilter {
  readonly machineType?: RentalType
  readonly region?: Region
  readonly gpuType?: GpuType
  readonly networkType?: NetworkType
  readonly gpuCount?: number
}

const MAX_GPUS = 64
const MAX_REGIONS_NAMED = 2

const kinds: Readonly<Record<string, RentalType>> = {
  vm: 'virtual-machine',
  metal: 'bare-metal',
  'virtual-machine': 'virtual-machine',
  'bare-metal': 'bare-metal',
}

/** No word can mean two of the five parts, so they can be in any order. */
export function readFilter(texts: readonly string[]): PriceFilter {
  let filter: PriceFilter = {}
  for (const text of texts.flatMap((one) => one.split('/'))) {
    const part = partOf(text.toLowerCase())
    if (part === undefined) throw unknownWord(text)
    const twice = Object.keys(part).find((name) => Object.hasOwn(filter, name))
    if (twice !== undefined) {
      throw new CliError(exitCodes.usage, `${texts.join(' ')} names ${partNames[twice] ?? twice} twice.`, [
        'Name each part once.',
      ])
    }
    filter = { ...filter, ...part }
  }
  return filter
}

const partNames: Readonly<Record<string, string>> = {
  machineType: 'a kind',
  region: 'a region',
  gpuType: 'a GPU',
  networkType: 'a network',
  gpuCount: 'the number of GPUs',
}

function partOf(word: string): PriceFilter | undefined {
  if (word === 'all') return {}
  const machineType = kinds[word]
  if (machineType !== undefined) return { machineType }
  const gpu = gpuType.safeParse(word)
  if (gpu.success) return { gpuType: gpu.data }
  const network = networkType.safeParse(word)
  if (network.success) return { networkType: network.data }
  const place = region.safeParse(word)
  if (place.success) return { region: place.data }
  const gpuCount = /^\d{1,2}$/.test(word) ? Number.parseInt(word, 10) : 0
  return gpuCount >= 1 && gpuCount <= MAX_GPUS ? { gpuCount } : undefined
}

function unknownWord(text: string): CliError {
  return new CliError(exitCodes.usage, `"${text}" matches no row of the price book.`, [
    `Kinds: vm, metal. GPUs: ${gpuType.options.join(', ')}. Networks: ${networkType.options.join(', ')}.`,
    `GPUs per machine: 1 to ${MAX_GPUS}. Regions: see berth operator prices ls --wide`,
  ])
}

export function isMatch(row: GpuPrice, filter: PriceFilter): boolean {
  return (Object.keys(filter) as Array<keyof PriceFilter>).every((name) => filter[name] === row[name])
}

/** Whether all five parts are named: then the filter is one row, which may not exist yet. */
export function isWholeRow(filter: PriceFilter): filter is Required<PriceFilter> {
  return Object.keys(partNames).every((name) => Object.hasOwn(filter, name))
}

export function kindLabel(machineType: RentalType): string {
  return machineType === 'virtual-machine' ? 'vm' : 'metal'
}

export function priceLabel(usd: string, enabled: boolean): string {
  return `${exactMoney(usd)}${enabled ? '' : ', off sale'}`
}

export function regionLabel(regions: readonly string[]): string {
  return regions.length <= MAX_REGIONS_NAMED ? regions.join(', ') : count(regions.length, 'region')
}

interface Line {
  readonly row: GpuPrice
  /** Only rows with the same text are merged. */
  readonly tail: string
}

interface Merged {
  readonly sizes: readonly number[]
  readonly regions: readonly string[]
}

/**
 * Merges rows by size within a region, then regions with the same sizes, so that a line holds for every pair of both.
 */
export function mergeRows<L extends Line>(lines: readonly L[]): Array<L & Merged> {
  const nameOf = ({ row, tail }: Line): string => [row.machineType, row.gpuType, row.networkType, tail].join(' ')
  const bySize = groupBy(lines, (line) => `${line.row.region} ${nameOf(line)}`).map((group) => ({
    ...group[0],
    sizes: group.map(({ row }) => row.gpuCount),
  }))
  return groupBy(bySize, (line) => `${line.sizes.join(' ')} ${nameOf(line)}`).map((group) => ({
    ...group[0],
    regions: group.map(({ row }) => row.region),
  }))
}

/** Groups are in the order of their first rows. */
export function groupBy<T>(rows: readonly T[], nameOf: (row: T) => string): Array<[T, ...T[]]> {
  const groups = new Map<string, [T, ...T[]]>()
  for (const row of rows) {
    const group = groups.get(nameOf(row))
    if (group === undefined) groups.set(nameOf(row), [row])
    else group.push(row)
  }
  return [...groups.values()]
}
