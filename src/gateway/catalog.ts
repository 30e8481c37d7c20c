/**
 * Models and their deployments as the gateway sees them: plain values, replaced as a whole after each change. A request
 * keeps the values it started with.
 */
import type { Instant } from '../base/instant.ts'
import type { ModelKind, ModelPrices } from '../domain/inference.ts'

/** `embedded`: an engine process of this server, which uses our own form of every operation. */
export type Protocol = 'chat' | 'tei' | 'images' | 'txt2img' | 'speech' | 'embedded'

export type Address =
  | { readonly kind: 'unix'; readonly path: string }
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number; readonly tls: boolean }
  | LinkAddress

/** A port of a rented machine, reached through the connection of its host. */
export interface LinkAddress {
  readonly kind: 'link'
  readonly hostId: string
  readonly workloadId: string
  readonly port: number
}

export interface Deployment {
  readonly id: string
  readonly protocol: Protocol
  readonly address: Address
  /** The Host header. */
  readonly hostHeader: string
  /** Prefix of every operation's path, without a trailing slash: `` or `/openai`. */
  readonly basePath: string
  readonly upstreamModel: string
  /** The value of the Authorization header, with the secret. Never logged. */
  readonly authorization: string | undefined
  readonly weight: number
  /** The most concurrent requests. The limit in use is learned, and never above it. */
  readonly concurrency: number
  /** The part of the learned limit that this process has, where several share it. undefined: all of it. */
  readonly share?: number | undefined
  readonly connectMs: number
  readonly firstByteMs: number
  readonly betweenBytesMs: number
  readonly totalMs: number
  readonly readsMetrics: boolean
  readonly drained: boolean
  /** Members that every request gets, such as the LoRA adapter of the model. */
  readonly members?: Readonly<Record<string, unknown>> | undefined
}

export interface ServedModel {
  readonly name: string
  readonly kind: ModelKind
  /** null: unknown. */
  readonly contextTokens: number | null
  readonly maxOutputTokens: number | null
  readonly prices: ModelPrices
  /** Lines of batches pay these. Absent: the same. */
  readonly batchPrices?: ModelPrices | undefined
  readonly supportsTools: boolean
  readonly supportsImageInput: boolean
  readonly createdAt: Instant
  readonly deployments: readonly Deployment[]
  /** The accounts that may use it. To others it does not exist. undefined: everyone. */
  readonly visibleTo?: readonly string[] | undefined
  /** The base model of an adapter, whose replicas serve both. undefined: the model is not an adapter. */
  readonly adapterOf?: string | undefined
  /** Requests may wait this long for a replica to start. undefined: the model has no replicas that start on demand. */
  readonly startsOnDemand?: { readonly waitMs: number } | undefined
  /** Why the model cannot answer yet, as a sentence for customers. undefined: it can. */
  readonly notReady:
    | {
        readonly message: string
        readonly retryAfterMs: number
        /** `starting` takes seconds: requests wait for it. `idle`: the first one starts it. */
        readonly phase: 'idle' | 'pulling' | 'starting' | 'failed'
      }
    | undefined
}

export type Catalog = ReadonlyMap<string, ServedModel>

export function isVisible({ visibleTo }: Pick<ServedModel, 'visibleTo'>, accountId: string): boolean {
  return visibleTo === undefined || visibleTo.includes(accountId)
}
