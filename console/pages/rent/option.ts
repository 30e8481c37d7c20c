/**
 * Which choices go together. The server lists every shape that it offers. A selection is resolved field by field from
 * the top, so that earlier choices stay and only later ones that do not fit change.
 */
import { compareUsd, nanoUsdOf, usdFromNumber, zeroUsd, type NanoUsd } from '../../../src/base/money.ts'
import type { Reply } from '../../../src/client/client.ts'
import type { RentalType } from '../../../src/contract/rental.ts'
import { count, number } from '../../../src/view/number.ts'
import { hourlyPrice } from '../../../src/view/money.ts'
import type { RadioChoice } from '../../ui/radio-choice.ts'

export type Option = Reply<'listRentalOptions'>[number]

export interface Selection {
  readonly region?: Option['region'] | undefined
  readonly gpu?: Option['gpuType'] | undefined
  readonly network?: Option['connectionType'] | undefined
  readonly count?: number | undefined
}

/** The maximum of machines in one bare-metal rental. */
const MAX_MACHINES = 32

/** One combination that can be ordered. */
interface Shape {
  readonly option: Option
  readonly gpuCount: number
  readonly perHour: NanoUsd
  /** The number available now. */
  readonly free: number
}

export interface Choices {
  readonly chosen: Shape
  readonly regions: readonly RadioChoice[]
  readonly gpus: readonly RadioChoice[]
  readonly networks: readonly RadioChoice[]
  readonly counts: readonly RadioChoice[]
}

/** undefined: nothing of this kind is offered. */
export function choose(options: readonly Option[], kind: RentalType, selection: Selection): Choices | undefined {
  const all = options.filter((option) => option.enabled && option.machineType === kind).flatMap(shapesOf)
  // A link may name a region alone: then the GPU is one that is there.
  const there = all.filter(({ option }) => option.region === selection.region)
  const some = selection.gpu === undefined && there.length > 0 ? there : all
  const ofGpu = all.filter(({ option }) => option.gpuType === chosenGpu(some, selection.gpu))
  const inRegion = narrow(ofGpu, ({ option }) => option.region, selection.region)
  const onNetwork = narrow(inRegion, ({ option }) => option.connectionType, selection.network)
  const [chosen] = narrow(onNetwork, ({ gpuCount }) => gpuCount, selection.count)
  if (chosen === undefined) return undefined
  return {
    chosen,
    gpus: offerGpus(all),
    regions: offer(all, ofGpu, (shape) => shape.option.region, 'not with this GPU'),
    networks: offer(all, inRegion, (shape) => shape.option.connectionType, 'not with this GPU here').map((choice) => ({
      ...choice,
      label: networkLabels[choice.value] ?? choice.label,
    })),
    counts: onNetwork.map((shape) => ({
      value: String(shape.gpuCount),
      ...countLabels(shape, kind),
      disabled: shape.free === 0,
    })),
  }
}

/** Returns a selection that keeps this shape even if another becomes cheaper or free. */
export function selectionOf({ option, gpuCount }: Shape): Selection {
  return { region: option.region, gpu: option.gpuType, network: option.connectionType, count: gpuCount }
}

function chosenGpu(shapes: readonly Shape[], preference: Option['gpuType'] | undefined): Option['gpuType'] | undefined {
  return narrow(shapes, ({ option }) => option.gpuType, preference)[0]?.option.gpuType
}

/** The GPUs with their lowest price, cheapest first. */
function offerGpus(all: readonly Shape[]): RadioChoice[] {
  const perGpu = new Map<string, NanoUsd>()
  for (const { option, gpuCount, perHour } of all) {
    const price = nanoUsdOf(perHour / BigInt(gpuCount))
    const lowest = perGpu.get(option.gpuType)
    if (lowest === undefined || price < lowest) perGpu.set(option.gpuType, price)
  }
  const priceOf = (value: string): NanoUsd => perGpu.get(value) ?? zeroUsd
  return offer(all, all, (shape) => shape.option.gpuType)
    .map((choice) => ({
      ...choice,
      label: choice.label.toUpperCase(),
      detail: `from ${hourlyPrice(priceOf(choice.value))}\n${choice.detail}`,
    }))
    .toSorted((a, b) => compareUsd(priceOf(a.value), priceOf(b.value)))
}

const networkLabels: Readonly<Record<string, string>> = { ethernet: 'Ethernet', infiniband: 'InfiniBand' }

function countLabels({ gpuCount, option, perHour, free }: Shape, kind: RentalType): { label: string; detail: string } {
  const availability = free === 0 ? 'none free' : `${number(free)} free`
  const price = hourlyPrice(perHour)
  if (kind === 'virtual-machine') return { label: count(gpuCount, 'GPU'), detail: `${price}\n${availability}` }
  return { label: count(gpuCount / option.gpuCount, 'machine'), detail: `${price}\n${gpuCount} GPUs, ${availability}` }
}

/** Bare metal is rented by whole machines, one or several per rental. */
function shapesOf(option: Option): Shape[] {
  const whole = usdFromNumber(option.costPerHour) ?? zeroUsd
  const maxMachines =
    option.machineType === 'bare-metal' ? Math.min(MAX_MACHINES, Math.max(1, option.totalAvailable)) : 1
  return Array.from({ length: maxMachines }, (_, n) => ({
    option,
    gpuCount: option.gpuCount * (n + 1),
    perHour: nanoUsdOf(whole * BigInt(n + 1)),
    free: Math.floor(option.totalAvailable / (n + 1)),
  }))
}

/**
 * Narrows to shapes with the preferred value; if there are none, to those with the value of the cheapest available
 * shape.
 */
function narrow<T>(shapes: readonly Shape[], valueOf: (shape: Shape) => T, preference: T | undefined): Shape[] {
  const isThere = preference !== undefined && shapes.some((shape) => valueOf(shape) === preference)
  const [cheapest] = shapes.toSorted(
    (a, b) => Number(b.free > 0) - Number(a.free > 0) || (a.perHour < b.perHour ? -1 : a.perHour > b.perHour ? 1 : 0),
  )
  if (cheapest === undefined) return []
  const value = isThere ? preference : valueOf(cheapest)
  return shapes.filter((shape) => valueOf(shape) === value)
}

/** Offers every value, with its availability among the fitting shapes. */
function offer(
  all: readonly Shape[],
  fittingShapes: readonly Shape[],
  valueOf: (shape: Shape) => string,
  elsewhere = '',
): RadioChoice[] {
  return [...new Set(all.map(valueOf))].map((value) => {
    const fitting = fittingShapes.filter((shape) => valueOf(shape) === value)
    const free = freeGpus(fitting)
    const detail = fitting.length === 0 ? elsewhere : free === 0 ? 'none free' : `${count(free, 'GPU')} free`
    return { value, label: value, detail, disabled: free === 0 }
  })
}

/** Shapes of one GPU type and network share machines, so the largest one gives the number of free GPUs. */
function freeGpus(shapes: readonly Shape[]): number {
  const largest = new Map<string, number>()
  for (const { option, gpuCount, free } of shapes) {
    const pool = `${option.region} ${option.gpuType} ${option.connectionType}`
    largest.set(pool, Math.max(largest.get(pool) ?? 0, gpuCount * free))
  }
  return [...largest.values()].reduce((sum, gpus) => sum + gpus, 0)
}
