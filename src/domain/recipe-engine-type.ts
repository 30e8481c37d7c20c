/** The shape of an engine that a recipe starts. */
import type { ModelKind } from './inference.ts'

/** The model that a replica serves. */
export interface ServedModel {
  /** The name that the engine gets in requests. */
  readonly name: string
  readonly kind: ModelKind
  readonly gpuCount: number
  /** Requests without it are rejected. null: the engine asks for none. */
  readonly apiKey: string | null
}

/** How the gateway talks to a replica. `embedded`: in the protocol of the engines that run beside the server. */
export type ReplicaProtocol = 'chat' | 'tei' | 'images' | 'txt2img' | 'speech' | 'embedded'

export interface EngineMetrics {
  readonly running: string
  readonly waiting: string
  /** Share of the key-value cache in use, 0 to 1. null: not reported. */
  readonly cacheUsage: string | null
}

export interface EngineRecipe {
  readonly kinds: readonly ModelKind[]
  readonly protocols: Partial<Readonly<Record<ModelKind, ReplicaProtocol>>>
  /** Absent: the image in the catalog or in the order. */
  readonly image?: { readonly name: string; readonly tag?: string | undefined }
  readonly port: number
  readonly healthPath: string
  /** The maximum of requests at a time. null: no limit; the engine batches what fits. */
  readonly concurrency: number | null
  readonly metrics: EngineMetrics | null
  readonly startSeconds?: number
  /**
   * The environment variables that name folders for compiled code. Absent: the engine compiles nothing that a later
   * start could use.
   */
  readonly compilesInto?: readonly string[]
  /** The possible origins of its model. `any`: the image may contain it. */
  readonly model: 'weights' | 'weights_or_hub' | 'any'
  /** How a request asks for an adapter: as its model, as `lora_path`, or as a scale per adapter. */
  readonly adapters: 'none' | 'by_model' | 'by_path' | 'by_scale'
  /** Translates the model name for engines that give some characters a meaning. */
  readonly nameOf?: (model: string) => string
  readonly memory: MemoryRule
  readonly start: (facts: StartFacts) => StartedEngine
}

/** Bytes = weights × `factor` + `extraGib`, in the memory of the GPUs or of the machine. */
export interface MemoryRule {
  readonly of: 'gpu' | 'machine'
  readonly factor: number
  readonly extraGib: number
  /** The share of the memory that the engine takes. */
  readonly usable: number
}

export interface StartFacts extends ServedModel {
  readonly modelPath: string | null
  readonly port: number
  readonly concurrency: number
  /** null: the order names no limit. */
  readonly statedConcurrency: number | null
  readonly contextTokens: number | null
  readonly parsers: { readonly tools?: string | undefined; readonly reasoning?: string | undefined }
  /** Paths in the container. */
  readonly adapters: ReadonlyArray<{ readonly name: string; readonly path: string }>
  /** Whether the weights are on the host, so that the engine must not contact a hub. */
  readonly isOffline: boolean
}

export interface StartedEngine {
  readonly command: readonly string[] | null
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
}

/** The gateway does not see requests that wait in an engine, so the engine's queue is short. */
export const ENGINE_QUEUE = 8

const hubOffline = { HF_HUB_OFFLINE: '1', TRANSFORMERS_OFFLINE: '1' }

export function hubEnv(isOffline: boolean): Record<string, string> {
  return isOffline ? hubOffline : {}
}

export function flagUnlessNull(name: string, value: string | number | null | undefined): string[] {
  return value === null || value === undefined ? [] : [name, String(value)]
}
