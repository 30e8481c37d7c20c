/**
 * A server whose clock and reconcilers are driven by the test: `advance` moves the clock and runs every reconciler.
 * Results are exact to the millisecond and the nano-dollar.
 */
import { formatInstant } from '../../src/base/instant.ts'
import { nanoUsdOf, sumUsd, usd, type NanoUsd } from '../../src/base/money.ts'
import { allReconcilers } from '../../src/reconcile/all.ts'
import { defaultRetention } from '../../src/domain/retention.ts'
import { deliverWebhooks } from '../../src/reconcile/deliver-webhooks.ts'
import type { Reconciler } from '../../src/reconcile/loop.ts'
import { manualClock, type ManualClock } from '../sim/clock.ts'
import type { Reply } from './exchange.ts'
import { testServer, type Call, type TestServer, type TestServerOptions } from './server.ts'

export interface Journey extends TestServer {
  readonly clock: ManualClock
  /** The clock in wire format. */
  now(): string
  /** Runs every reconciler in turn, several times, so that each sees the others' work. */
  pass(): Promise<void>
  /** Moves the clock, then runs the reconcilers. */
  advance(ms: number): Promise<void>
  /** The same in steps, like a server that has run all the time. */
  advanceBy(stepMs: number, steps: number): Promise<void>
  /** Creates a rental, starts it at the current clock time and returns it once it runs. */
  rentVirtualMachine(by: Call, order?: object): Promise<Reply['body']>
}

/** One pass to request, one to observe, one for the consequences. */
const ROUNDS = 3
/** It asks every engine for everything, so once for a pass is enough: before the rest. */
const TAKES_INVENTORY = 'inventory'
/** They change no rental and no volume that a customer still has, so once for a pass is enough: after the first rounds. */
const housekeeping = new Set([
  'reap',
  'serving-usage',
  'sweep-expired',
  'runway',
  'warn-terms',
  'watch-engines',
  'queue-mail',
  'send-mail',
  'gateways',
  'ledger-check',
  'retention',
  'measure',
  'summarize-metrics',
  'machine-uptime',
  'deliver-webhooks',
])
/** In steps of hours or days they take half of the time, and find the same at the end. */
const atTheEnd = new Set(['ledger-check', 'retention'])
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
  const pass = async (rounds = ROUNDS, isStep = false): Promise<void> => {
    const errors: unknown[] = []
    for (let round = 1; round <= rounds; round += 1) {
      const due = reconcilers.filter(({ name }) => {
        if (name === TAKES_INVENTORY) return round === 1
        return isStep ? !atTheEnd.has(name) : round === rounds || !housekeeping.has(name)
      })
      // As on a server: a failing reconciler does not block the others.
      for (const one of due) await runOut(one).catch((error: unknown) => errors.push(error))
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
    pass: () => pass(),
    advance,
    advanceBy: async (stepMs, steps) => {
      for (let step = 1; step < steps; step += 1) {
        clock.advance(stepMs)
        // The next step sees what this one leaves.
        await pass(1, true)
      }
      await advance(stepMs)
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

/** Maximum delay of the simulated engine's list, after which a new machine is listed. */
export const LIST_LAG_MS = 1_000

/** Returns the body of a call that must succeed. */
export async function succeed(call: Call, ...request: Parameters<Call>): Promise<Reply['body']> {
  const reply = await call(...request)
  if (reply.status === 200) return reply.body
  throw new Error(`${request[0]} ${request[1]} answered ${reply.status}: ${JSON.stringify(reply.body)}`)
}

/** Checks the whole ledger and compares every engine with the database; returns the problems found. */
export async function checkLedgerAndEngines({ operator }: Pick<TestServer, 'operator'>): Promise<unknown[]> {
  const ledger = await succeed(operator, 'GET', '/v2/operator/ledger/verify')
  const audit = await succeed(operator, 'GET', '/v2/operator/engines/audit')
  if (ledger.ok === true && audit.ok === true) return []
  return [...ledger.findings, ...audit.engines]
}

/** Types of all events of one subject (`rental:17`), in order. */
export async function eventTypesOf(call: Call, subject: string): Promise<string[]> {
  const { events } = await succeed(call, 'GET', `/v2/events?limit=1000&subject=${subject}`)
  return (events as Array<{ type: string }>).map((event) => event.type).toReversed()
}

/** Total charges of a rental or volume on the statement. */
export async function chargedFor(call: Call, thing: { rentalId: number } | { volumeId: number }): Promise<NanoUsd> {
  const { lines } = await succeed(call, 'GET', '/v2/customer/statement?limit=1000')
  const [[key, id] = []] = Object.entries(thing)
  const charges = (lines as StatementLine[]).filter((line) => line.kind === 'charge' && line[key ?? ''] === id)
  return nanoUsdOf(0n - sumUsd(charges.map((line) => usd(line.amountUsd))))
}

/**
 * The cost of a rental that its customer has ended, by the documented rules and its events alone: from its start to the
 * request, or to its last report if it was Unknown then, without the time in which it was down. On a busy machine a host
 * can count as silent at any moment, so the request alone does not tell.
 */
export async function dueFor(
  call: Call,
  rental: { readonly id: number; readonly startedAt: string },
  pricePerHour: NanoUsd,
): Promise<NanoUsd> {
  const { events } = await succeed(call, 'GET', `/v2/events?limit=1000&subject=rental:${rental.id}`)
  const pieces: NanoUsd[] = []
  let start = rental.startedAt
  let price = pricePerHour
  let lastSeenAt: string | undefined
  for (const { type, data } of (events as RentalEvent[]).toReversed()) {
    if (type === 'rental.unknown') lastSeenAt = data.lastSeenAt
    if (type === 'rental.recovered') lastSeenAt = undefined
    if (type === 'rental.recovered' && data.freeFrom !== undefined && data.freeUntil !== undefined) {
      pieces.push(costBetween(start, data.freeFrom, price))
      start = data.freeUntil
    }
    const hasNewPrice = type === 'rental.gpu_fault' || type === 'rental.gpu_recovered'
    if (hasNewPrice && data.at !== undefined && data.costPerHourUsd !== undefined) {
      pieces.push(costBetween(start, data.at, price))
      start = data.at
      price = usd(data.costPerHourUsd)
    }
    if (type === 'rental.terminating' && data.at !== undefined)
      return sumUsd([...pieces, costBetween(start, lastSeenAt ?? data.at, price)])
  }
  throw new Error(`rental ${rental.id} has not been ended`)
}

/** The documented cost of a period, computed independently of our code. */
export function costBetween(from: string, to: string, pricePerHour: NanoUsd): NanoUsd {
  return nanoUsdOf((pricePerHour * BigInt(Date.parse(to) - Date.parse(from))) / 3_600_000n)
}

interface RentalEvent {
  readonly type: string
  readonly data: Partial<Record<'at' | 'lastSeenAt' | 'freeFrom' | 'freeUntil' | 'costPerHourUsd', string>>
}

type StatementLine = { readonly kind: string; readonly amountUsd: string } & Readonly<Record<string, unknown>>
