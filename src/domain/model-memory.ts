/**
 * Whether a model fits: an estimate before anything is rented, because an engine that runs out of memory does so only
 * after minutes of loading. The factors are those that GPUStack uses: 7 billion parameters in 16 bits need 19 GiB.
 */
import { fail, type Failure } from '../contract/result.ts'
import type { RecipeOrder } from '../contract/recipe.ts'
import { engines, type MemoryRule } from './recipe-engine.ts'

const GIB = 1_073_741_824

export interface MemoryNeed {
  readonly of: MemoryRule['of']
  readonly bytes: number
  /** The calculation, for people. */
  readonly text: string
  /** Share of the memory that the engine takes. */
  readonly usable: number
}

/** null: the size of the model is not known. */
export function memoryNeedOf(order: RecipeOrder): MemoryNeed | null {
  const { of, factor, extraGib, usable } = engines[order.name].memory
  const weightsBytes = weightsBytesOf(order)
  if (weightsBytes === null) return null
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
  /** Its part of the machine's memory. */
  readonly ramGb: number
}

/** Why the model does not fit. undefined: it fits, or its size is not known. */
export function whyTooLarge(model: string, order: RecipeOrder, memory: ReplicaMemory): Failure | undefined {
  const need = memoryNeedOf(order)
  if (need === null || need.bytes <= haveBytes(need, memory)) return undefined
  return fail('model_does_not_fit', { model, need: need.text, have: haveText(need, memory) })
}

/** The least memory per GPU that the model fits into. null: not known, or it needs no GPU memory. */
export function gpuRamMibFor(order: RecipeOrder, gpuCount: number): number | null {
  const need = memoryNeedOf(order)
  return need === null || need.of === 'machine' ? null : Math.ceil(need.bytes / need.usable / gpuCount / (GIB / 1_024))
}

function haveBytes({ of, usable }: MemoryNeed, { gpuCount, gpuRamMib, ramGb }: ReplicaMemory): number {
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
