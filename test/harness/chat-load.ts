/**
 * Many clients that chat in a loop, each with the next request as soon as the last one has ended. Whoever is refused for
 * want of money waits until somebody else's request has ended and may have left some: so the load spends an account to
 * the last request that fits, and then knows that it is dry.
 */
import { askChat, type ChatAsk, type ChatTarget, type ChatTold } from './chat-client.ts'
import { waitFor } from './wait.ts'

export interface ChatLoadOptions {
  readonly clients: number
  /** Where the next request goes. undefined: nowhere at the moment, to be asked again. */
  readonly target: (n: number) => ChatTarget | undefined
  readonly mix: readonly ChatAsk[]
  /** Refusals with nothing else under way after which the account counts as dry; Infinity: never. */
  readonly dryAfter?: number
  /** Told of each request that has ended. */
  readonly onTold?: (told: ChatTold, target: ChatTarget) => void
}

export interface ChatLoad {
  readonly told: readonly ChatTold[]
  /** Answered with 200 and to the end. */
  readonly answered: number
  readonly isOver: boolean
  /** Everybody finishes the request that is under way. */
  stop(): Promise<void>
  /** When nobody can pay for a request any more, or it was stopped. */
  readonly ended: Promise<void>
}

/** Streams and plain answers on both paths, long and short; every sixth one is left in the middle. */
export const usualMix: readonly ChatAsk[] = [
  { stream: false, maxTokens: 100, careful: false },
  { stream: true, maxTokens: 100, careful: false },
  { stream: false, maxTokens: 9, careful: true },
  { stream: true, maxTokens: 60, careful: false, leaveAfterWords: 4 },
  { stream: true, maxTokens: 7, careful: true },
  { stream: false, maxTokens: 60, careful: false },
]

/** A load that is never dry would run for ever; this is more than any load here sends. */
const MAX_REQUESTS = 200_000
const BREATH_MS = 20

export function startChatLoad(options: ChatLoadOptions): ChatLoad {
  return new Clients(options)
}

class Clients implements ChatLoad {
  readonly told: ChatTold[] = []
  readonly ended: Promise<void>
  answered = 0
  isOver = false
  readonly #options: ChatLoadOptions
  readonly #waiting: Array<() => void> = []
  #sent = 0
  #underWay = 0
  #lonelyRefusals = 0

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
      const told = await askChat(target, ask, `Request ${n} of the load: say some words about it`)
      this.#underWay -= 1
      this.told.push(told)
      this.#options.onTold?.(told, target)
      if (told.status === 402) await this.#refused()
      else if (told.status === 200) this.#served(told)
      else await this.#takeBreath()
    }
  }

  /** The server is away, or says so: clients that ask again at once would only keep the machine busy. */
  async #takeBreath(): Promise<void> {
    const until = performance.now() + BREATH_MS
    await waitFor('a breath', () => performance.now() >= until)
  }

  async #target(n: number): Promise<ChatTarget | undefined> {
    return (
      this.#options.target(n) ??
      (await waitFor('a server to be there', () => this.isOver || this.#options.target(n)).then((found) =>
        found === true ? undefined : found,
      ))
    )
  }

  #served(told: ChatTold): void {
    if (told.isComplete) this.answered += 1
    this.#lonelyRefusals = 0
    this.#waiting.shift()?.()
  }

  /** With others under way there is somebody to wait for; with none, it is tried some times more. */
  async #refused(): Promise<void> {
    if (this.#underWay > 0) {
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
      return
    }
    this.#lonelyRefusals += 1
    if (this.#lonelyRefusals >= (this.#options.dryAfter ?? Infinity)) this.#end()
  }

  #end(): void {
    this.isOver = true
    for (const wake of this.#waiting.splice(0)) wake()
  }
}
