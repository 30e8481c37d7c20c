/**
 * Estimates whether a model fits before anything is rented, because an engine runs out of memory only after minutes of
 * loading. If the size of the key-value cache is known, the need is the weights, the engine's own memory and one
 * context; otherwise a factor that GPUStack uses, too: 7 billion parameters in 16 bits need 19 GiB.
 */
import { fail, failField, type Failure } from '../contract/result.ts'
import type { RecipeOrder } from '../contract/recipe.ts'
import type { GpuVendor } from '../contract/shared.ts'
import { engines } from './recipe-engine.ts'
import type { MemoryRule } from './recipe-engine-type.ts'

const GIB = 1_073_741_824
/** Activations, graphs and libraries of an engine, on each GPU. */
const ENGINE_GIB = 3
/** The context assumed if the order names none: enough for a chat. The engine uses all remaining memory. */
const LEAST_CONTEXT_TOKENS = 8_192

export interface MemoryNeed {
  readonly of: MemoryRule['of']
  readonly bytes: number
  /** The calculation as text. */
  readonly text: string
  /** The share of the memory that the engine takes. */
  readonly usable: number
}

/** null: the size of the model is unknown. */
export function memoryNeedOf(order: RecipeOrder, gpuCount = 1): MemoryNeed | null {
  const { of, factor, extraGib, usable } = engines[order.name].memory
  const weightsBytes = weightsBytesOf(order)
  if (weightsBytes === null) return null
  if (order.kvBytesPerToken !== undefined) {
    const tokens = order.contextTokens ?? LEAST_CONTEXT_TOKENS
    const bytes = Math.ceil(weightsBytes + ENGINE_GIB * GIB * gpuCount + order.kvBytesPerToken * tokens)
    const sum = `${gib(weightsBytes)} of weights + ${ENGINE_GIB * gpuCount} GiB + ${tokens} tokens of context`
    return { of, bytes, text: `${gib(bytes)} (${sum})`, usable }
  }
  const bytes = Math.ceil(weightsBytes * factor + extraGib * GIB)
  const sum = `${gib(weightsBytes)} of weights${factor === 1 ? '' : ` × ${factor}`} + ${extraGib} GiB`
  return { of, bytes, text: `${gib(bytes)} (${sum})`, usable }
}

function weightsBytesOf({ weights, weightsGib }: RecipeOrder): number | null {
  if (weightsGib !== undefined) return weightsGib * GIB
  return weights?.files.reduce((sum, { bytes }) => sum + bytes, 0) ?? null
}

/** The memory that a replica gets. */
export interface ReplicaMemory {
  readonly gpuCount: number
  readonly gpuRamMib: number
  /** The replica's share of the machine's memory. */
  readonly ramGb: number
}

/** Why the model does not fit. undefined: it fits, or its size is not known. */
export function whyTooLarge(model: string, order: RecipeOrder, memory: ReplicaMemory): Failure | undefined {
  const heads = order.attentionHeads
  if (heads !== undefined && heads % memory.gpuCount !== 0) {
    return failField(['gpus', 'count'], 'heads_not_divisible', { heads, gpuCount: memory.gpuCount })
  }
  const need = memoryNeedOf(order, memory.gpuCount)
  if (need === null || need.bytes <= haveBytes(need, memory)) return undefined
  return fail('model_does_not_fit', { model, need: need.text, have: haveText(need, memory) })
}

/** The minimum memory per GPU that the model fits into. null: unknown, or the model needs no GPU memory. */
export function gpuRamMibFor(order: RecipeOrder, gpuCount: number): number | null {
  const need = memoryNeedOf(order, gpuCount)
  return need === null || need.of === 'machine' ? null : Math.ceil(need.bytes / need.usable / gpuCount / (GIB / 1_024))
}

/** The tokens that the key-value cache of a replica holds. null: not known. */
export function kvTokensOf(order: RecipeOrder, memory: ReplicaMemory): number | null {
  const weightsBytes = weightsBytesOf(order)
  const { of, usable } = engines[order.name].memory
  if (weightsBytes === null || order.kvBytesPerToken === undefined || of === 'machine') return null
  const bytes = haveBytes({ of, usable }, memory) - weightsBytes - ENGINE_GIB * GIB * memory.gpuCount
  return Math.max(0, Math.floor(bytes / order.kvBytesPerToken))
}

/** Why the image cannot use GPUs of this vendor. undefined: it can, or needs no GPU. */
export function whyOtherVendor(
  { name, gpuVendor = 'nvidia' }: RecipeOrder,
  has: GpuVendor = 'nvidia',
): Failure | undefined {
  if (engines[name].memory.of === 'machine' || gpuVendor === has) return undefined
  return fail('gpu_vendor_differs', { recipe: name, needs: gpuVendor, has })
}

/** Why the machine's driver cannot run the image. undefined: it can, or the versions are unknown. */
export function whyDriverTooOld({ name, cuda }: RecipeOrder, driverCuda: string | null): Failure | undefined {
  if (cuda === undefined || driverCuda === null || isAtLeast(driverCuda, cuda)) return undefined
  return fail('driver_too_old', { recipe: name, needs: cuda, has: driverCuda })
}

function isAtLeast(version: string, least: string): boolean {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const [leastMajor = 0, leastMinor = 0] = least.split('.').map(Number)
  return major === leastMajor ? minor >= leastMinor : major > leastMajor
}

function haveBytes(
  { of, usable }: Pick<MemoryNeed, 'of' | 'usable'>,
  { gpuCount, gpuRamMib, ramGb }: ReplicaMemory,
): number {
  return of === 'machine' ? ramGb * 1e9 : gpuCount * gpuRamMib * (GIB / 1_024) * usable
}

function haveText(need: MemoryNeed, memory: ReplicaMemory): string {
  const have = gib(haveBytes(need, memory))
  if (need.of === 'machine') return `${have} of memory`
  const share = need.usable === 1 ? '' : `, of which the engine uses ${need.usable * 100}%`
  return `${have} (${memory.gpuCount} × ${gib(memory.gpuRamMib * (GIB / 1_024))}${share})`
}

function gib(bytes: number): string {
  return `${(bytes / GIB).toFixed(1)} GiB`
}
