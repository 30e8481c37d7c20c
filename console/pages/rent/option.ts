/**
 * What can be chosen together. The server lists every shape that it sells; a wish is led to one of them, field by field
 * from the top, so that what was chosen first stays and only what does not fit to it changes.
 */
import { nanoUsdOf, usdFromNumber, zeroUsd, type NanoUsd } from '../../../src/base/money.ts'
import type { Reply } from '../../../src/client/client.ts'
import type { RentalType } from '../../../src/contract/rental.ts'
import { gpuType } from '../../../src/contract/shared.ts'
import { count, number } from '../../../src/view/number.ts'
import { hourlyPrice } from '../../../src/view/money.ts'
import type { RadioChoice } from '../../ui/radio-choice.ts'

export type Option = Reply<'listRentalOptions'>[number]

export interface Wish {
  readonly region?: Option['region'] | undefined
  readonly gpu?: Option['gpuType'] | undefined
  readonly network?: Option['connectionType'] | undefined
  readonly count?: number | undefined
}

/** Machines of one bare-metal rental at most, as they are offered here. */
const MAX_MACHINES = 32

/** One thing that can be ordered. */
interface Shape {
  readonly option: Option
  readonly gpuCount: number
  readonly perHour: NanoUsd
  /** How many of them fit right now. */
  readonly free: number
}

export interface Choices {
  readonly chosen: Shape
  readonly regions: readonly RadioChoice[]
  readonly gpus: readonly RadioChoice[]
  readonly networks: readonly RadioChoice[]
  readonly counts: readonly RadioChoice[]
}

/** undefined: nothing of this kind is sold at all. */
export function choose(options: readonly Option[], kind: RentalType, wish: Wish): Choices | undefined {
  const all = options.filter((option) => option.enabled && option.machineType === kind).flatMap(shapesOf)
  const inRegion = narrow(all, ({ option }) => option.region, wish.region)
  const ofGpu = narrow(inRegion, ({ option }) => option.gpuType, wish.gpu)
  const onNetwork = narrow(ofGpu, ({ option }) => option.connectionType, wish.network)
  const [chosen] = narrow(onNetwork, ({ gpuCount }) => gpuCount, wish.count)
  if (chosen === undefined) return undefined
  const { option } = chosen
  return {
    chosen,
    regions: offer(all, all, (shape) => shape.option.region),
    gpus: offer(all, inRegion, (shape) => shape.option.gpuType, `not in ${option.region}`)
      .map((choice) => ({ ...choice, label: choice.label.toUpperCase() }))
      .sort((a, b) => gpuOrder.indexOf(a.value) - gpuOrder.indexOf(b.value)),
    networks: offer(all, ofGpu, (shape) => shape.option.connectionType, 'not with this GPU').map((choice) => ({
      ...choice,
      label: networkWords[choice.value] ?? choice.label,
    })),
    counts: onNetwork.map((shape) => ({
      value: String(shape.gpuCount),
      ...countWords(shape, kind),
      disabled: shape.free === 0,
    })),
  }
}

/** The wish that leads to what is chosen, whatever else is cheaper or free by now. */
export function wishOf({ option, gpuCount }: Shape): Wish {
  return { region: option.region, gpu: option.gpuType, network: option.connectionType, count: gpuCount }
}

const gpuOrder: readonly string[] = gpuType.options
const networkWords: Readonly<Record<string, string>> = { ethernet: 'Ethernet', infiniband: 'InfiniBand' }

function countWords({ gpuCount, option, perHour, free }: Shape, kind: RentalType): { label: string; detail: string } {
  const left = free === 0 ? 'none free' : `${number(free)} free`
  const price = hourlyPrice(perHour)
  if (kind === 'virtual-machine') return { label: count(gpuCount, 'GPU'), detail: `${price}\n${left}` }
  return { label: count(gpuCount / option.gpuCount, 'machine'), detail: `${price}\n${gpuCount} GPUs, ${left}` }
}

/** Bare metal is sold by the machine, and several of them are one rental. */
function shapesOf(option: Option): Shape[] {
  const whole = usdFromNumber(option.costPerHour) ?? zeroUsd
  const most = option.machineType === 'bare-metal' ? Math.min(MAX_MACHINES, Math.max(1, option.totalAvailable)) : 1
  return Array.from({ length: most }, (_, n) => ({
    option,
    gpuCount: option.gpuCount * (n + 1),
    perHour: nanoUsdOf(whole * BigInt(n + 1)),
    free: Math.floor(option.totalAvailable / (n + 1)),
  }))
}

/** Those with the wished value; without a wish, or with one that does not fit, those of the cheapest that is free. */
function narrow<T>(shapes: readonly Shape[], valueOf: (shape: Shape) => T, wished: T | undefined): Shape[] {
  const isThere = wished !== undefined && shapes.some((shape) => valueOf(shape) === wished)
  const [cheapest] = shapes.toSorted(
    (a, b) => Number(b.free > 0) - Number(a.free > 0) || (a.perHour < b.perHour ? -1 : a.perHour > b.perHour ? 1 : 0),
  )
  if (cheapest === undefined) return []
  const value = isThere ? wished : valueOf(cheapest)
  return shapes.filter((shape) => valueOf(shape) === value)
}

/** Every value that is sold anywhere, with what is free of it here. */
function offer(
  all: readonly Shape[],
  here: readonly Shape[],
  valueOf: (shape: Shape) => string,
  elsewhere = '',
): RadioChoice[] {
  return [...new Set(all.map(valueOf))].map((value) => {
    const fitting = here.filter((shape) => valueOf(shape) === value)
    const free = freeGpus(fitting)
    const detail = fitting.length === 0 ? elsewhere : free === 0 ? 'none free' : `${count(free, 'GPU')} free`
    return { value, label: value, detail, disabled: free === 0 }
  })
}

/** Shapes of one GPU and network share their machines, so that the shape that takes most of them says it. */
function freeGpus(shapes: readonly Shape[]): number {
  const most = new Map<string, number>()
  for (const { option, gpuCount, free } of shapes) {
    const pool = `${option.region} ${option.gpuType} ${option.connectionType}`
    most.set(pool, Math.max(most.get(pool) ?? 0, gpuCount * free))
  }
  return [...most.values()].reduce((sum, gpus) => sum + gpus, 0)
}
