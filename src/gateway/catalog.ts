/**
 * What a gateway knows of models and where they run: plain values, handed in whole whenever something changes. A
 * request works on the values it began with.
 */
import type { Instant } from '../base/instant.ts'
import type { ModelKind, ModelPrices } from '../domain/inference.ts'

/** `embedded`: an engine process of this server, which speaks our own form of every operation. */
export type Protocol = 'chat' | 'images' | 'txt2img' | 'speech' | 'embedded'

export type Address =
  | { readonly kind: 'unix'; readonly path: string }
  | { readonly kind: 'tcp'; readonly host: string; readonly port: number; readonly tls: boolean }

export interface Deployment {
  readonly id: string
  readonly protocol: Protocol
  readonly address: Address
  /** What stands in the Host header. */
  readonly hostHeader: string
  /** Put before the path of each operation, without a slash at its end: `` or `/openai`. */
  readonly basePath: string
  readonly upstreamModel: string
  /** The value of the Authorization header, with the secret. Never logged. */
  readonly authorization: string | undefined
  readonly weight: number
  readonly concurrency: number
  readonly connectMs: number
  readonly firstByteMs: number
  readonly betweenBytesMs: number
  readonly totalMs: number
  readonly readsMetrics: boolean
  readonly drained: boolean
}

export interface ServedModel {
  readonly name: string
  readonly kind: ModelKind
  /** null: not known. */
  readonly contextTokens: number | null
  readonly maxOutputTokens: number | null
  readonly prices: ModelPrices
  readonly supportsTools: boolean
  readonly supportsImageInput: boolean
  readonly createdAt: Instant
  readonly deployments: readonly Deployment[]
  /** Why it cannot answer yet, as a sentence for the customer. undefined: it can. */
  readonly notReady:
    | {
        readonly message: string
        readonly retryAfterMs: number
        /** What is starting takes some seconds: calls wait for it. */
        readonly phase: 'pulling' | 'starting' | 'failed'
      }
    | undefined
}

export type Catalog = ReadonlyMap<string, ServedModel>
