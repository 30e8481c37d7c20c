/**
 * The crash run of a cloud driver. A child process runs the reconcilers and the driver against a database that stays up and
 * a simulator in this process; it is killed (SIGKILL) at random moments, also between the steps of a create, while orders
 * come and go and the cloud fails in its own ways. Afterwards nothing may be left at the cloud, nothing may exist twice,
 * and the ledger must add up.
 *
 * The clock of all parts runs fast. A kill costs one start of the child (half a second of CPU), so a usual run has few.
 */
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { randomInt } from 'node:crypto'
import type { ProviderId } from '../../src/contract/provider-data.ts'
import { systemClock, type Clock } from '../../src/base/instant.ts'
import { formatUsd, nanoUsdOf } from '../../src/base/money.ts'
import type { SimFault, SimServer } from '../sim/clouds/server.ts'
import { bundleChild, killChild, startChild } from './child-program.ts'
import { runCrashChild } from './cloud-crash-child.ts'
import { fastClock } from '../harness/fast-clock.ts'
import { testServer, type TestServer } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'

export interface CrashCloud {
  readonly provider: ProviderId
  readonly credentials: Readonly<Record<string, string>>
  readonly server: SimServer
  /** Orders for offers that the simulator has; each is tried in turn. */
  readonly orders: readonly CrashOrder[]
  /** Operations whose answer may be lost, besides being killed. */
  readonly writes: readonly string[]
  leftovers(): string[]
  launches(): ReadonlyMap<string, number>
  /** What the vendor charges, by machine. */
  bills(): ReadonlyArray<{ readonly id: string; readonly nanoUsd: bigint }>
}

/** The body of an order, for a virtual machine unless `offering` says otherwise. */
export type CrashOrder = Readonly<Record<string, unknown>> & { readonly offering?: 'bare-metal' }

export interface CrashReport {
  readonly kills: number
  readonly orders: number
  readonly running: number
  readonly leftovers: readonly string[]
  readonly launchedTwice: readonly string[]
  readonly statuses: Readonly<Record<string, number>>
  readonly ledgerFindings: readonly unknown[]
  readonly costOfGoodsUsd: string
  /** Machines that the vendor charges for, and that cost nothing by our ledger. */
  readonly unrecorded: readonly string[]
  readonly violations: readonly string[]
}

const SECRET_KEY = 'a secret key of the crash run, long enough'
const MAX_LIVE = 4
const SETTLE_MS = 120_000
/** Of the requests, in percent. */
const FAULTS = 6
/** It is killed after this many requests at the latest. */
const MAX_REQUESTS = 40

export async function crashRun(makeCloud: (clock: Clock) => CrashCloud, kills: number): Promise<CrashReport> {
  const epoch = systemClock.now()
  const clock = fastClock(epoch)
  const cloud = makeCloud(clock)
  const baseUrl = await cloud.server.listen()
  const program = await bundleChild('cloud-crash-child.ts', runCrashChild)
  const server = await testServer({
    clock,
    runLoops: false,
    env: { BERTH_DRIVERS: 'host', BERTH_ALLOW_PRIVATE_ADDRESSES: 'true', BERTH_SECRET_KEY: SECRET_KEY },
  })
  let child: ChildProcess | undefined
  try {
    await server.operator('POST', '/v2/operator/providers', {
      name: 'main',
      provider: cloud.provider,
      baseUrl,
      credentials: cloud.credentials,
      markupPercentage: 10,
    })
    const { call } = await server.account({ usd: '100000', sshKey: true })
    const customer = new Customer(call, cloud.orders)
    const args = [server.databaseUrl, server.dataDir, String(epoch), SECRET_KEY]
    const start = async () => (await startChild(program, args)).child
    child = await start()
    await waitFor('the cloud has offers', async () => {
      const { body } = await call('GET', '/v2/alpha/on-demand/rental-options')
      return Array.isArray(body) && body.length > 0
    })
    for (let n = 0; n < kills; n += 1) {
      await customer.act()
      await killDuringWork(child, cloud)
      child = await start()
    }
    cloud.server.chaos = undefined
    // With few kills, all machines may have ended before they cost anything.
    await customer.act()
    await waitFor('a machine that costs something', () => cloud.bills().some(({ nanoUsd }) => nanoUsd > 0n))
    const running = await customer.countRunning()
    await customer.endAll()
    await waitFor(
      'everything is gone',
      async () => (await customer.isOver()) && cloud.leftovers().length === 0,
      SETTLE_MS,
    ).catch(() => undefined)
    return await report(server, cloud, customer, { kills, running })
  } finally {
    if (child !== undefined) await killChild(child)
    await server.close()
    await cloud.server.close()
  }
}

async function report(
  server: TestServer,
  cloud: CrashCloud,
  customer: Customer,
  { kills, running }: { kills: number; running: number },
): Promise<CrashReport> {
  const { body } = await server.operator('GET', '/v2/operator/ledger/verify')
  return {
    kills,
    orders: customer.ids.size,
    running,
    leftovers: cloud.leftovers(),
    launchedTwice: [...cloud.launches()].flatMap(([name, count]) => (count > 1 ? [name] : [])),
    statuses: await customer.statuses(),
    ledgerFindings: body.findings as unknown[],
    costOfGoodsUsd: body.houseUsd.cost_of_goods as string,
    unrecorded: await findUnrecorded(server, cloud),
    violations: cloud.server.violations,
  }
}

async function findUnrecorded(server: TestServer, cloud: CrashCloud): Promise<string[]> {
  const charged = cloud.bills().filter(({ nanoUsd }) => nanoUsd > 0n)
  const lines = charged.map(({ id, nanoUsd }) => ({ machine: id, amountUsd: formatUsd(nanoUsdOf(nanoUsd)) }))
  const { body } = await server.operator('POST', '/v2/operator/providers/main/compare', { lines })
  const differences = body.differences as Array<{ machine: string; recordedUsd: string | null }>
  return differences.filter(({ recordedUsd }) => recordedUsd === null).map(({ machine }) => machine)
}

/** Orders and ends machines, a few at a time. */
class Customer {
  readonly ids = new Set<number>()
  readonly #call: TestServer['operator']
  readonly #orders: readonly CrashOrder[]
  readonly #metal = new Set<number>()
  /** Not asked for again: in a long run, most are over. */
  readonly #terminated = new Set<number>()

  constructor(call: TestServer['operator'], orders: readonly CrashOrder[]) {
    this.#call = call
    this.#orders = orders
  }

  async act(): Promise<void> {
    const live = (await this.#list()).filter(({ status }) => status === 'Pending' || status === 'Running')
    const toEnd = live.length >= MAX_LIVE ? live.slice(0, 2) : live.filter(() => randomInt(4) === 0)
    for (const { id } of toEnd) await this.#end(id)
    for (let n = live.length - toEnd.length; n < MAX_LIVE && n < live.length - toEnd.length + 2; n += 1) {
      const { offering, ...order } = this.#orders[this.ids.size % this.#orders.length] ?? {}
      const id = await this.#order(pathOf(offering), order)
      this.ids.add(id)
      if (offering !== undefined) this.#metal.add(id)
    }
  }

  /** While the child was dead, offers became too old to be sold: they are back with its first inventory. */
  async #order(path: string, order: CrashOrder): Promise<number> {
    return waitFor(`an offer for ${JSON.stringify(order)}`, async () => {
      const { status, body } = await this.#call('POST', path, order)
      if (status === 200) return body.id as number
      if (body.reason !== 'no_capacity') throw new Error(`refused: ${JSON.stringify(body)}`)
      return undefined
    })
  }

  async countRunning(): Promise<number> {
    return (await this.#list()).filter(({ status }) => status === 'Running').length
  }

  async endAll(): Promise<void> {
    for (const { id, status } of await this.#list()) if (status !== 'Terminated') await this.#end(id)
  }

  async isOver(): Promise<boolean> {
    const rentals = await this.#list()
    // One that failed or became Running meanwhile is ended too.
    for (const { id, status } of rentals) if (status !== 'Terminated' && status !== 'Terminating') await this.#end(id)
    return rentals.every(({ status }) => status === 'Terminated')
  }

  async statuses(): Promise<Record<string, number>> {
    const counts: Record<string, number> = {}
    this.#terminated.clear()
    for (const { status } of await this.#list()) counts[status] = (counts[status] ?? 0) + 1
    return counts
  }

  async #list(): Promise<Array<{ id: number; status: string }>> {
    const ids = [...this.ids].filter((id) => !this.#terminated.has(id))
    const replies = await Promise.all(ids.map((id) => this.#call('GET', `/v2/alpha/on-demand/rentals/${id}`)))
    const rentals = replies.map(({ body }) => ({ id: body.id as number, status: body.status as string }))
    for (const { id, status } of rentals) if (status === 'Terminated') this.#terminated.add(id)
    return rentals
  }

  async #end(id: number): Promise<void> {
    const path = pathOf(this.#metal.has(id) ? 'bare-metal' : undefined)
    await this.#call('POST', `${path}/terminate`, { rentalId: id })
  }
}

function pathOf(offering: CrashOrder['offering']): string {
  return `/v2/alpha/on-demand/${offering ?? 'virtual-machine'}-rentals`
}

/** Writes whose answer is lost, or that never arrive; answers that say "try later". */
function chaosOf(writes: readonly string[]): SimServer['chaos'] {
  return (operation): SimFault | undefined => {
    if (randomInt(100) >= FAULTS) return undefined
    if (writes.includes(operation)) return { kind: randomInt(2) === 0 ? 'late' : 'lost' }
    return { kind: 'answer', answer: { status: randomInt(2) === 0 ? 503 : 429, headers: { 'retry-after': '0' } } }
  }
}

/**
 * Kills the child at one of its next requests: before or after the cloud has done what was asked. Until then some requests
 * fail. A write is the better moment: it leaves something half done.
 */
async function killDuringWork(child: ChildProcess, { server, writes }: CrashCloud): Promise<void> {
  const exited = once(child, 'exit')
  const chaos = chaosOf(writes)
  const wantsWrite = randomInt(3) > 0
  let left = randomInt(1, 10)
  let patience = MAX_REQUESTS
  server.chaos = (operation) => {
    patience -= 1
    if (!wantsWrite || writes.includes(operation) || patience <= 0) left -= 1
    if (left > 0 && patience > 0) return chaos?.(operation)
    server.chaos = undefined
    child.kill('SIGKILL')
    return { kind: randomInt(2) === 0 ? 'lost' : 'late' }
  }
  await exited
}
