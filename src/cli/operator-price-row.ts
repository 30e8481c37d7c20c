/** Rows of the price book: how people name them, and how many that are alike are told in one line. */
import type { Reply } from '../client/client.ts'
import { region, type Region } from '../contract/region.ts'
import type { RentalType } from '../contract/rental.ts'
import { gpuType, networkType, type GpuType, type NetworkType } from '../contract/shared.ts'
import { count } from '../view/number.ts'
import { money } from '../view/money.ts'
import { CliError, exitCodes } from './shell.ts'

export type GpuPrice = Reply<'getPriceBook'>['gpus'][number]

/** What was named of a row; what was not named is any. */
export interface Words {
  readonly machineType?: RentalType
  readonly region?: Region
  readonly gpuType?: GpuType
  readonly networkType?: NetworkType
  readonly gpuCount?: number
}

const MAX_GPUS = 64
const REGIONS_NAMED = 2

const kinds: Readonly<Record<string, RentalType>> = {
  vm: 'virtual-machine',
  metal: 'bare-metal',
  'virtual-machine': 'virtual-machine',
  'bare-metal': 'bare-metal',
}

/** Each of the five parts has words of its own, so their order says nothing. */
export function readWords(texts: readonly string[]): Words {
  let words: Words = {}
  for (const text of texts.flatMap((one) => one.split('/'))) {
    const part = partOf(text.toLowerCase())
    if (part === undefined) throw unknownWord(text)
    const twice = Object.keys(part).find((name) => Object.hasOwn(words, name))
    if (twice !== undefined) {
      throw new CliError(exitCodes.usage, `${texts.join(' ')} names ${partNames[twice] ?? twice} twice.`, [
        'One at a time: each further one is a change, or a list, of its own.',
      ])
    }
    words = { ...words, ...part }
  }
  return words
}

const partNames: Readonly<Record<string, string>> = {
  machineType: 'a kind',
  region: 'a region',
  gpuType: 'a GPU',
  networkType: 'a network',
  gpuCount: 'the GPUs a machine',
}

function partOf(word: string): Words | undefined {
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
  return new CliError(exitCodes.usage, `"${text}" names no row of the price book.`, [
    `Kinds are vm and metal; GPUs ${gpuType.options.join(', ')}; networks ${networkType.options.join(', ')};`,
    `GPUs a machine from 1 to ${MAX_GPUS}; regions as berth operator prices --wide shows them.`,
  ])
}

export function fitsWords(row: GpuPrice, words: Words): boolean {
  return (Object.keys(words) as Array<keyof Words>).every((name) => words[name] === row[name])
}

/** All five parts: one row, whether it is there or not. */
export function isWholeRow(words: Words): words is Required<Words> {
  return Object.keys(partNames).every((name) => Object.hasOwn(words, name))
}

export function kindWord(machineType: RentalType): string {
  return machineType === 'virtual-machine' ? 'vm' : 'metal'
}

export function soldWords(usd: string, enabled: boolean): string {
  return `${money(usd)}${enabled ? '' : ', not sold'}`
}

export function regionWords(regions: readonly string[]): string {
  return regions.length <= REGIONS_NAMED ? regions.join(', ') : count(regions.length, 'region')
}

interface Line {
  readonly row: GpuPrice
  /** What is told of it; only rows of which the same is told are alike. */
  readonly tail: string
}

interface Merged {
  readonly sizes: readonly number[]
  readonly regions: readonly string[]
}

/** First the sizes in one region, then the regions with the same sizes, so that every line holds for each pair of both. */
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

/** In the order of the first of each. */
export function groupBy<T>(rows: readonly T[], nameOf: (row: T) => string): Array<[T, ...T[]]> {
  const groups = new Map<string, [T, ...T[]]>()
  for (const row of rows) {
    const group = groups.get(nameOf(row))
    if (group === undefined) groups.set(nameOf(row), [row])
    else group.push(row)
  }
  return [...groups.values()]
}
