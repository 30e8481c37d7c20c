/**
 * Many clients that chat in a loop, each sending its next request when the previous one has ended. A client refused for
 * lack of money waits until another request has ended and may have released some: so the load spends an account down to
 * the last affordable request, and then knows that it is empty.
 */
import { askChat, type ChatResult } from './chat-client.ts'
import type { ChatAsk, ChatTarget } from './chat-protocol.ts'
import { waitFor } from './wait.ts'

export interface ChatLoadOptions {
  readonly clients: number
  /** Target of the next request. undefined: none right now, ask again. */
  readonly target: (n: number) => ChatTarget | undefined
  readonly mix: readonly ChatAsk[]
  /** Refusals with nothing in flight after which the account counts as empty; Infinity: never. */
  readonly dryAfter?: number
  /** Called for each request that has ended. */
  readonly onResult?: (result: ChatResult, target: ChatTarget) => void
}

export interface ChatLoad {
  readonly results: readonly ChatResult[]
  /** Answered with 200 and in full. */
  readonly answered: number
  readonly isOver: boolean
  /** Every client finishes its request in flight. */
  stop(): Promise<void>
  /** Resolves when no client can pay for another request, or the load was stopped. */
  readonly ended: Promise<void>
}

/** Streams and plain answers on both paths, long and short; every sixth is cut mid-stream. */
export const usualMix: readonly ChatAsk[] = [
  { stream: false, maxTokens: 100, fullPath: false },
  { stream: true, maxTokens: 100, fullPath: false },
  { stream: false, maxTokens: 9, fullPath: true },
  { stream: true, maxTokens: 60, fullPath: false, leaveAfterWords: 4 },
  { stream: true, maxTokens: 7, fullPath: true },
  { stream: false, maxTokens: 60, fullPath: false },
]

/** The same beside messages and responses. Its length shares no factor with a number of servers. */
export const protocolMix: readonly ChatAsk[] = [
  ...usualMix,
  ...(['messages', 'responses'] as const).flatMap((protocol): ChatAsk[] => [
    { protocol, stream: false, maxTokens: 100, fullPath: true },
    { protocol, stream: true, maxTokens: 100, fullPath: true },
    { protocol, stream: true, maxTokens: 60, fullPath: true, leaveAfterWords: 4 },
  ]),
  { protocol: 'responses', stream: true, maxTokens: 7, fullPath: true, isUnstored: true },
]

/** Keeps a load that never runs dry from running forever; more than any load here sends. */
const MAX_REQUESTS = 200_000
const PAUSE_MS = 20

export function startChatLoad(options: ChatLoadOptions): ChatLoad {
  return new Clients(options)
}

class Clients implements ChatLoad {
  readonly results: ChatResult[] = []
  readonly ended: Promise<void>
  answered = 0
  isOver = false
  readonly #options: ChatLoadOptions
  readonly #waiting: Array<() => void> = []
  #sent = 0
  #underWay = 0
  #idleRefusals = 0

  constructor(options: ChatLoadOptions) {
    this.#options = options
    this.ended = this.#run(options.clients)
  }

  async stop(): Promise<void> {
    this.#end()
    await this.ended
  }

  async #run(clients: number): Promise<void> {
    await Promise.all(Array.from({ length: clients }, () => this.#client()))
  }

  async #client(): Promise<void> {
    while (!this.isOver) {
      const n = this.#sent
      this.#sent += 1
      if (n > MAX_REQUESTS) throw new Error(`the load finds no end after ${n} requests`)
      const target = await this.#target(n)
      const ask = this.#options.mix[n % this.#options.mix.length]
      if (target === undefined || ask === undefined) return
      this.#underWay += 1
      const result = await askChat(target, ask, `Request ${n} of the load: say some words about it`)
      this.#underWay -= 1
      this.results.push(result)
      this.#options.onResult?.(result, target)
      if (result.status === 402) await this.#refused()
      else if (result.status === 200) this.#served(result)
      else await this.#pause()
    }
  }

  /** The server is down or overloaded: immediate retries would only keep the machine busy. */
  async #pause(): Promise<void> {
    const until = performance.now() + PAUSE_MS
    await waitFor('a pause', () => performance.now() >= until)
  }

  async #target(n: number): Promise<ChatTarget | undefined> {
    return (
      this.#options.target(n) ??
      (await waitFor('a server to be available', () => this.isOver || this.#options.target(n)).then((found) =>
        found === true ? undefined : found,
      ))
    )
  }

  #served(result: ChatResult): void {
    if (result.isComplete) this.answered += 1
    this.#idleRefusals = 0
    this.#waiting.shift()?.()
  }

  /** With requests in flight it waits for one to end; with none, it retries a few times. */
  async #refused(): Promise<void> {
    if (this.#underWay > 0) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
      return
    }
    this.#idleRefusals += 1
    if (this.#idleRefusals >= (this.#options.dryAfter ?? Infinity)) this.#end()
  }

  #end(): void {
    this.isOver = true
    for (const wake of this.#waiting.splice(0)) wake()
  }
}
