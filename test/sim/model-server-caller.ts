/**
 * The client side of a simulated model server: its catalog entry, and a sink that keeps the answer. The values fit the
 * gateway's types, which this room must not import.
 */
import { instantOf, type Instant } from '../../src/base/instant.ts'
import { zeroUsd, type NanoUsd } from '../../src/base/money.ts'
import type { ModelServer } from './model-server.ts'

export interface SimulatedDeployment {
  readonly id: string
  readonly protocol: 'chat' | 'tei' | 'images' | 'txt2img' | 'speech' | 'embedded'
  readonly address:
    | { readonly kind: 'unix'; readonly path: string }
    | { readonly kind: 'tcp'; readonly host: string; readonly port: number; readonly tls: boolean }
    | { readonly kind: 'link'; readonly hostId: string; readonly workloadId: string; readonly port: number }
  readonly hostHeader: string
  readonly basePath: string
  readonly upstreamModel: string
  readonly authorization: string | undefined
  readonly weight: number
  readonly concurrency: number
  readonly share?: number | undefined
  readonly connectMs: number
  readonly firstByteMs: number
  readonly betweenBytesMs: number
  readonly totalMs: number
  readonly readsMetrics: boolean
  readonly drained: boolean
}

export function deploymentOn(
  server: Pick<ModelServer, 'host' | 'port'>,
  more: Partial<SimulatedDeployment> = {},
): SimulatedDeployment {
  return {
    id: `sim-${server.port}`,
    protocol: 'chat',
    address: { kind: 'tcp', host: server.host, port: server.port, tls: false },
    hostHeader: `${server.host}:${server.port}`,
    basePath: '',
    upstreamModel: 'sim',
    authorization: undefined,
    weight: 1,
    concurrency: 32,
    connectMs: 5_000,
    firstByteMs: 20_000,
    betweenBytesMs: 20_000,
    totalMs: 60_000,
    readsMetrics: false,
    drained: false,
    ...more,
  }
}

export interface SimulatedModel {
  readonly name: string
  readonly kind: 'chat'
  readonly contextTokens: number
  readonly maxOutputTokens: number
  readonly prices: { readonly [unit in 'input' | 'cached' | 'output' | 'pixelStep' | 'character' | 'soundMs']: NanoUsd }
  readonly supportsTools: boolean
  readonly supportsImageInput: boolean
  readonly createdAt: Instant
  readonly deployments: readonly SimulatedDeployment[]
  readonly notReady: undefined
}

export function modelOn(deployments: readonly SimulatedDeployment[], name = 'sim'): SimulatedModel {
  return {
    name,
    kind: 'chat',
    contextTokens: 8_192,
    maxOutputTokens: 4_096,
    prices: {
      input: zeroUsd,
      cached: zeroUsd,
      output: zeroUsd,
      pixelStep: zeroUsd,
      character: zeroUsd,
      soundMs: zeroUsd,
    },
    supportsTools: false,
    supportsImageInput: false,
    createdAt: instantOf(Date.UTC(2026, 0, 1)),
    deployments,
    notReady: undefined,
  }
}

export interface SimulatedCall {
  readonly model: SimulatedModel
  readonly accountId: string
  readonly request: (deployment: SimulatedDeployment) => {
    readonly path: string
    readonly extraHeaders: string
    readonly contentType: string
    readonly body: ReadonlyArray<Uint8Array | string>
  }
  readonly isBatch: boolean
  readonly promptTokens: number
  readonly prefixes: readonly number[]
  readonly prefixTokens: readonly number[]
  readonly session: string | undefined
  readonly accepts?: (deployment: SimulatedDeployment) => boolean
}

export const question = { model: 'sim', messages: [{ role: 'user', content: 'hello' }] }

export function callOn(
  model: SimulatedModel,
  more: Partial<SimulatedCall> = {},
  body: unknown = question,
): SimulatedCall {
  const pieces = [Buffer.from(JSON.stringify(body))]
  return {
    model,
    accountId: 'account-1',
    request: () => ({
      path: '/v1/chat/completions',
      extraHeaders: 'X-Request-Id: r1\r\n',
      contentType: 'application/json',
      body: pieces,
    }),
    isBatch: false,
    promptTokens: 0,
    prefixes: [],
    prefixTokens: [],
    session: undefined,
    ...more,
  }
}

interface Head {
  readonly status: number
  readonly headers: ReadonlyMap<string, string>
  readonly deployment: { readonly id: string }
}

interface Failure {
  readonly kind: string
  readonly detail: string
  readonly deployment: { readonly id: string } | undefined
  readonly retryAfterMs: number | undefined
}

/** Keeps the answer, and fails the test if calls come in the wrong order. */
export class AnswerCollector {
  readonly done: Promise<AnswerCollector>
  answer: Head | undefined
  failure: Failure | undefined
  hasEnded = false
  reads = 0
  readonly #chunks: Buffer[] = []
  readonly #settle: PromiseWithResolvers<AnswerCollector>
  readonly #onData: ((bytes: Buffer) => void) | undefined

  constructor(onData?: (bytes: Buffer) => void) {
    this.#settle = withResolvers()
    this.done = this.#settle.promise
    this.#onData = onData
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#chunks)
  }

  get text(): string {
    return this.bytes.toString()
  }

  get status(): number | undefined {
    return this.answer?.status
  }

  get isOver(): boolean {
    return this.hasEnded || this.failure !== undefined
  }

  head(head: Head): void {
    this.#check(this.answer === undefined, 'a second head')
    this.answer = head
  }

  data(bytes: Buffer): void {
    this.#check(this.answer !== undefined, 'data before the head')
    this.reads += 1
    this.#chunks.push(Buffer.from(bytes))
    this.#onData?.(bytes)
  }

  end(): void {
    this.#check(this.answer !== undefined, 'an end before the head')
    this.hasEnded = true
    this.#settle.resolve(this)
  }

  fail(failure: Failure): void {
    this.#check(true, 'a failure')
    this.failure = failure
    this.#settle.resolve(this)
  }

  #check(isRight: boolean, what: string): void {
    if (isRight && !this.isOver) return
    const error = new Error(`${what} in the wrong order`)
    this.#settle.reject(error)
    throw error
  }
}

interface PromiseWithResolvers<T> {
  readonly promise: Promise<T>
  readonly resolve: (value: T) => void
  readonly reject: (error: Error) => void
}

function withResolvers<T>(): PromiseWithResolvers<T> {
  let resolve: (value: T) => void = () => {}
  let reject: (error: Error) => void = () => {}
  const promise = new Promise<T>((yes, no) => {
    resolve = yes
    reject = no
  })
  return { promise, resolve, reject }
}
