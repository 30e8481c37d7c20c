/**
 * A server whose time and whose reconcilers go on only when a test says so: `advance` moves the clock and lets every
 * reconciler look at what is due. What follows is exact to the millisecond and the nano-dollar.
 */
import { formatInstant } from '../../src/base/instant.ts'
import { nanoUsdOf, sumUsd, usd, type NanoUsd } from '../../src/base/money.ts'
import { allReconcilers } from '../../src/reconcile/all.ts'
import { defaultRetention } from '../../src/domain/retention.ts'
import { deliverWebhooks } from '../../src/reconcile/deliver-webhooks.ts'
import type { Reconciler } from '../../src/reconcile/loop.ts'
import { manualClock, type ManualClock } from '../../src/sim/clock.ts'
import { testServer, type Call, type Reply, type TestServer, type TestServerOptions } from './server.ts'

export interface Journey extends TestServer {
  readonly clock: ManualClock
  /** The clock, as the wire writes it. */
  now(): string
  /** Every reconciler in turn, a few times over, so that what one does is seen by the others. */
  pass(): Promise<void>
  /** Moves the clock, then passes. */
  advance(ms: number): Promise<void>
  /** The same in steps, as a server that has run all the time would have seen it. */
  advanceBy(stepMs: number, steps: number): Promise<void>
  /** Creates and starts: answers the rental as it runs, from the very moment that the clock shows. */
  rentVirtualMachine(by: Call, order?: object): Promise<Reply['body']>
}

/** An asking, its being shown, and what follows from that. */
const ROUNDS = 3
const MAX_EXTRA_RUNS = 100

export async function startJourney(options: Omit<TestServerOptions, 'clock' | 'runLoops'> = {}): Promise<Journey> {
  const clock = manualClock()
  const server = await testServer({ ...options, clock, runLoops: false })
  const webhooks = deliverWebhooks(server.app)
  const reconcilers = allReconcilers(
    server.app,
    webhooks,
    { massLoss: () => {}, reaped: () => {}, dropped: () => {}, ledgerFindings: () => {} },
    defaultRetention,
  )
  const pass = async (): Promise<void> => {
    const errors: unknown[] = []
    for (let round = 0; round < ROUNDS; round += 1) {
      // As on a server: one that fails does not hold up the others.
      for (const one of reconcilers) await runOut(one).catch((error: unknown) => errors.push(error))
    }
    if (errors.length > 0) throw errors[0]
  }
  const advance = async (ms: number): Promise<void> => {
    clock.advance(ms)
    await pass()
  }
  return {
    ...server,
    clock,
    now: () => formatInstant(clock.now()),
    pass,
    advance,
    advanceBy: async (stepMs, steps) => {
      for (let step = 0; step < steps; step += 1) await advance(stepMs)
    },
    rentVirtualMachine: async (by, order = {}) => {
      const body = { gpuCount: 1, region: 'mock-region', ...order }
      const { id } = await succeed(by, 'POST', '/v2/alpha/on-demand/virtual-machine-rentals', body)
      await pass()
      await advance(LIST_LAG_MS)
      return succeed(by, 'GET', `/v2/alpha/on-demand/rentals/${id}`)
    },
    close: async () => {
      await webhooks.close()
      await server.close()
    },
  }
}

async function runOut(reconciler: Reconciler): Promise<void> {
  const { signal } = new AbortController()
  for (let n = 0; n < MAX_EXTRA_RUNS; n += 1) if (!(await reconciler.run(signal))) return
  throw new Error(`${reconciler.name} finds no end`)
}

/** The longest that the simulated engine's list lags behind: after it, what was made is shown. */
export const LIST_LAG_MS = 1_000

/** The answer to a call that has to succeed. */
export async function succeed(call: Call, ...request: Parameters<Call>): Promise<Reply['body']> {
  const reply = await call(...request)
  if (reply.status === 200) return reply.body
  throw new Error(`${request[0]} ${request[1]} answered ${reply.status}: ${JSON.stringify(reply.body)}`)
}

/** The whole of the books recounted, and every engine compared with them: what is at fault, so nothing. */
export async function recountBooks({ operator }: Pick<TestServer, 'operator'>): Promise<unknown[]> {
  const ledger = await succeed(operator, 'GET', '/v2/operator/ledger/verify')
  const audit = await succeed(operator, 'GET', '/v2/operator/engines/audit')
  if (ledger.ok === true && audit.ok === true) return []
  return [...ledger.findings, ...audit.engines]
}

/** The types of all events of one thing (`rental:17`), in the order in which they happened. */
export async function eventTypesOf(call: Call, subject: string): Promise<string[]> {
  const { events } = await succeed(call, 'GET', `/v2/events?limit=1000&subject=${subject}`)
  return (events as Array<{ type: string }>).map((event) => event.type).toReversed()
}

/** What a rental or volume was charged in all, by the statement. */
export async function chargedFor(call: Call, thing: { rentalId: number } | { volumeId: number }): Promise<NanoUsd> {
  const { lines } = await succeed(call, 'GET', '/v2/customer/statement?limit=1000')
  const [[key, id] = []] = Object.entries(thing)
  const charges = (lines as StatementLine[]).filter((line) => line.kind === 'charge' && line[key ?? ''] === id)
  return nanoUsdOf(0n - sumUsd(charges.map((line) => usd(line.amountUsd))))
}

type StatementLine = { readonly kind: string; readonly amountUsd: string } & Readonly<Record<string, unknown>>
