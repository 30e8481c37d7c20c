/** Opens the accounts at one vendor that the database lists, each once per version. */
import type { Dispatcher } from 'undici'
import type { Clock, Instant } from '../../base/instant.ts'
import { outboundAgent } from '../../base/net/outbound.ts'
import { Breaker } from './breaker.ts'
import type { Cloud, CloudVendor } from './cloud.ts'
import { CloudHttp } from './http.ts'
import { Pacer } from './pacer.ts'
import type { CloudAccount, CloudWorld } from './world.ts'

export interface CloudDriverOptions {
  readonly world: CloudWorld
  readonly clock: Clock
  readonly warn: (error: unknown, what: string) => void
  /** Allows addresses that are not public, for tests and private installations. */
  readonly allowPrivate: boolean
  /** The timeout of one request, counted from when it is sent. */
  readonly requestTimeoutMs?: number
}

const REQUEST_TIMEOUT_MS = 20_000

export interface OpenedAccount {
  readonly account: CloudAccount
  readonly cloud: Cloud
  readonly breaker: Breaker
  /** The number of orders that are being placed now. */
  orders: number
  listedAt?: Instant
}

interface Answer<T> {
  readonly account: CloudAccount
  readonly value: T
}

export class Accounts {
  readonly #vendor: CloudVendor
  readonly #options: CloudDriverOptions
  readonly #agent: Dispatcher
  readonly #opened = new Map<string, OpenedAccount>()

  constructor(vendor: CloudVendor, options: CloudDriverOptions) {
    this.#vendor = vendor
    this.#options = options
    const { requestTimeoutMs: timeoutMs = REQUEST_TIMEOUT_MS, allowPrivate } = options
    this.#agent = outboundAgent({ allowPrivate, timeoutMs })
  }

  async close(): Promise<void> {
    await this.#agent.destroy()
  }

  async find(name: string): Promise<OpenedAccount | undefined> {
    return (await this.all()).find(({ account }) => account.name === name)
  }

  async ownerOf(externalId: string): Promise<{ cloud: Cloud; id: string }> {
    const [name = '', ...rest] = externalId.split('/')
    const opened = await this.find(name)
    if (opened === undefined) throw new Error(`This installation has no account named ${name} any more.`)
    return { cloud: opened.cloud, id: rest.join('/') }
  }

  listedAt(name: string): Instant | undefined {
    return this.#opened.get(name)?.listedAt
  }

  pausedUntil(name: string): Instant | undefined {
    return this.#opened.get(name)?.breaker.openUntil
  }

  /** Returns the answers of the accounts that answer. Throws if none does. */
  async ask<T>(question: (opened: OpenedAccount) => Promise<T>): Promise<Array<Answer<T>>> {
    const all = await this.all()
    const results = await Promise.allSettled(
      all.map(async (opened) => ({ account: opened.account, value: await question(opened) })),
    )
    const answers = results.flatMap((result) => (result.status === 'fulfilled' ? [result.value] : []))
    const failures = results.flatMap((result, n) =>
      result.status === 'rejected' ? [{ error: result.reason as unknown, name: all[n]?.account.name ?? '' }] : [],
    )
    const [first] = failures
    if (answers.length === 0 && first !== undefined) {
      throw new Error(`The account ${first.name} does not answer: ${textOf(first.error)}`, { cause: first.error })
    }
    for (const { error, name } of failures) this.#options.warn(error, `provider account ${name} does not answer`)
    return answers
  }

  async all(): Promise<OpenedAccount[]> {
    const accounts = await this.#options.world.accounts()
    const opened = accounts.map((account) => this.#open(account))
    const names = new Set(accounts.map(({ name }) => name))
    for (const name of this.#opened.keys()) if (!names.has(name)) this.#opened.delete(name)
    return opened
  }

  #open(account: CloudAccount): OpenedAccount {
    const previous = this.#opened.get(account.name)
    if (previous?.account.version === account.version) {
      const current = Object.assign(previous, { account })
      return current
    }
    const { clock, world, requestTimeoutMs: timeoutMs = REQUEST_TIMEOUT_MS } = this.#options
    const breaker = new Breaker(clock)
    const shared = {
      baseUrl: account.baseUrl,
      agent: this.#agent,
      clock,
      pacer: new Pacer(this.#vendor.pace, clock, world.turnsOf(account)),
      breaker,
      timeoutMs,
      secrets: Object.values(account.credentials),
      warn: (error: unknown, what: string) => this.#options.warn(error, `provider account ${account.name}: ${what}`),
    }
    const cloud = this.#vendor.open({
      credentials: account.credentials,
      clock,
      http: ({ authorize }) => new CloudHttp({ ...shared, authorize }),
    })
    const listedAt = previous?.listedAt
    const opened: OpenedAccount = {
      account,
      cloud,
      breaker,
      orders: 0,
      ...(listedAt === undefined ? {} : { listedAt }),
    }
    this.#opened.set(account.name, opened)
    return opened
  }
}

export function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
