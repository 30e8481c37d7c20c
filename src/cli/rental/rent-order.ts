/** An order for each kind of machine, and the wait until it runs. */
import { isLiving } from '../../domain/rental.ts'
import { randomUUID } from 'node:crypto'
import { MINUTE_MS } from '../../base/instant.ts'
import { formatUsd, type NanoUsd } from '../../base/money.ts'
import type { CallInput, Client } from '../../client/client.ts'
import { pause } from '../../client/pause.ts'
import type { TermQuote } from '../../domain/term.ts'
import { displayName, machineOfAny, type OwnMachine } from '../../view/own-machine.ts'
import type { Offer } from './offer.ts'
import { readDetail, type MachineDetail } from './own-machine.ts'
import type { WorkloadFields } from '../../view/ordered.ts'
import { CliError, exitCodes } from '../kit/shell.ts'

/** The server gives up after 30 minutes; its answer is known here a little later. */
const MAX_START_MS = 32 * MINUTE_MS
const POLL_MS = 500

export interface OrderOptions {
  readonly image?: string
  readonly volume?: number
  readonly label?: string | undefined
  /** USD. */
  readonly spendingLimit?: string
}

export interface Order extends OrderOptions {
  /** What runs on it. */
  readonly workload: WorkloadFields
  readonly offer: Offer
  readonly gpuCount: number
  /** As it was shown. If it has been raised since, the order is rejected. */
  readonly pricePerHour: NanoUsd
  /** undefined: on demand. */
  readonly term: TermQuote | undefined
  readonly terminateAfterTerm?: true
  readonly endsAt: string | undefined
}

/** Returns the id of a rental, or the name of an instance. A lost connection never orders twice. */
export async function placeOrder(client: Client, order: Order): Promise<string> {
  const { offer, gpuCount, label, endsAt, spendingLimit } = order
  const maxCost = formatUsd(order.pricePerHour)
  const idempotencyKey = randomUUID()
  if (offer.machine !== undefined) {
    const body = {
      cluster_name: offer.machine.cluster,
      node_name: offer.machine.node,
      gpu_count: gpuCount,
      max_cost_per_hour_usd: maxCost,
      ...order.workload,
      ...(order.image === undefined ? {} : { image: { name: order.image } }),
      ...(label === undefined ? {} : { label }),
      ...(endsAt === undefined ? {} : { auto_terminate_at: endsAt }),
      ...(spendingLimit === undefined ? {} : { spending_limit_usd: spendingLimit }),
    }
    return (await client.call('createInstance', { body, idempotencyKey })).instance_id
  }
  const common = {
    gpuCount,
    gpuType: offer.gpu.split(' ')[0]?.toLowerCase(),
    region: offer.region,
    networkType: offer.network,
    maxCostPerHourUsd: maxCost,
    ...order.workload,
    ...termOptions(order),
    ...(label === undefined ? {} : { label }),
    ...(endsAt === undefined ? {} : { autoTerminateAt: endsAt }),
    ...(spendingLimit === undefined ? {} : { spendingLimitUsd: spendingLimit }),
  }
  if (offer.kind === 'vm') {
    const body = common as CallInput<'createVirtualMachineRental'>['body']
    return String((await client.call('createVirtualMachineRental', { body, idempotencyKey })).id)
  }
  const storage = order.volume === undefined ? {} : { storageVolume: { isNew: false, id: order.volume } }
  const body = { ...common, ...storage } as CallInput<'createBareMetalRental'>['body']
  return String((await client.call('createBareMetalRental', { body, idempotencyKey })).id)
}

function termOptions({ term, terminateAfterTerm }: Order) {
  if (term === undefined) return {}
  return {
    termType: 'reserved' as const,
    termPeriodDays: term.days,
    discountPercentage: term.percentage,
    convertToOnDemandOnExpiry: terminateAfterTerm !== true,
  }
}

interface Waiting {
  readonly wait: boolean
  /** Called on each change. */
  readonly say: (machine: OwnMachine) => void
}

interface Seen {
  readonly machine: OwnMachine
  /** As the server sends it. */
  readonly raw: unknown
}

export async function waitUntilRunning(client: Client, id: string, { wait, say }: Waiting): Promise<Seen> {
  const limit = AbortSignal.timeout(MAX_START_MS)
  for (let said = ''; ; await pause(POLL_MS, limit)) {
    const seen = await see(client, id)
    const { machine } = seen
    const words = `${machine.status} ${machine.message ?? ''}`
    if (wait && words !== said) say(machine)
    said = words
    if (machine.status === 'Failed') throw startFailed(machine, await readDetail(client, machine))
    // A machine that runs has its addresses; not every engine has SSH.
    if (!wait || machine.status === 'Running') return seen
    if (limit.aborted || !isLiving(machine.status)) {
      throw new CliError(exitCodes.failed, `${displayName(machine)} is not running: it is ${machine.status}.`, [
        'To check on it: berth ls',
      ])
    }
  }
}

async function see(client: Client, id: string): Promise<Seen> {
  const raw = await client.call('getAnyRental', { params: { id } })
  return { machine: machineOfAny(raw), raw }
}

function startFailed(machine: OwnMachine, { statusMessage, statusReason: reason }: MachineDetail): CliError {
  const cause = statusMessage ?? reason ?? 'the server gave no reason'
  return new CliError(
    exitCodes.failed,
    `${displayName(machine)} has failed: ${cause.replace(/\.$/, '')}.`,
    [
      'It costs nothing. To see what happened: berth events',
      `To remove it from the list: berth terminate ${machine.name}`,
    ],
    { reason, name: machine.name },
  )
}
