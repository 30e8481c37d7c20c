/** The order of a machine of any kind, and the wait until it runs. */
import { randomUUID } from 'node:crypto'
import { MINUTE_MS } from '../../base/instant.ts'
import { formatUsd, type NanoUsd } from '../../base/money.ts'
import type { CallInput, Client } from '../../client/client.ts'
import { pause } from '../../client/pause.ts'
import type { AfterInterruption } from '../../contract/interruption.ts'
import { isLiving } from '../../domain/rental.ts'
import type { TermQuote } from '../../domain/term.ts'
import { displayName, machineOf, type OwnMachine } from '../../view/own-machine.ts'
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
  readonly interruptible?: true
  readonly afterInterruption?: AfterInterruption
  /** Seconds. */
  readonly maxWait?: number
}

export interface Order extends OrderOptions {
  /** The program that runs on it. */
  readonly workload: WorkloadFields
  readonly offer: Offer
  readonly gpuCount: number
  /** The price that was shown. If it has been raised since, the order is rejected. */
  readonly pricePerHour: NanoUsd
  /** undefined: on demand. */
  readonly term: TermQuote | undefined
  readonly terminateAfterTerm?: true
  readonly endsAt: string | undefined
}

/** Returns the id of the rental. A lost connection never orders twice. */
export async function placeOrder(client: Client, order: Order): Promise<string> {
  return String((await client.call('createRental', { body: bodyOf(order), idempotencyKey: randomUUID() })).id)
}

/** The request that places the order. */
export function bodyOf(order: Order): CallInput<'createRental'>['body'] {
  return { ...fieldsOf(order), ...optionalFields(order) } as CallInput<'createRental'>['body']
}

const kinds = { container: 'container', vm: 'virtual-machine', metal: 'bare-metal' } as const

/** The server checks that the options fit the kind. */
function fieldsOf({ offer, gpuCount, pricePerHour, workload }: Order) {
  const place =
    offer.machine === undefined
      ? { gpuType: offer.gpu.split(' ')[0]?.toLowerCase(), region: offer.region, networkType: offer.network }
      : { machineId: offer.machine.node }
  return { kind: kinds[offer.kind], ...place, gpuCount, maxCostPerHourUsd: formatUsd(pricePerHour), ...workload }
}

function optionalFields({ label, endsAt, spendingLimit, image, volume, term, terminateAfterTerm, ...order }: Order) {
  const { interruptible, afterInterruption, maxWait } = order
  return {
    ...(interruptible === undefined ? {} : { interruptible }),
    ...(afterInterruption === undefined ? {} : { afterInterruption }),
    ...(maxWait === undefined ? {} : { maxWaitSeconds: maxWait }),
    ...(label === undefined ? {} : { label }),
    ...(endsAt === undefined ? {} : { autoTerminateAt: endsAt }),
    ...(spendingLimit === undefined ? {} : { spendingLimitUsd: spendingLimit }),
    ...(image === undefined ? {} : { image: { name: image } }),
    ...(volume === undefined ? {} : { volumes: [{ volumeId: volume }] }),
    ...(term === undefined
      ? {}
      : {
          termPeriodDays: term.days,
          discountPercentage: term.percentage,
          convertToOnDemandOnExpiry: terminateAfterTerm !== true,
        }),
  }
}

interface Waiting {
  readonly wait: boolean
  /** Called on each change. */
  readonly say: (machine: OwnMachine) => void
}

export async function waitUntilRunning(client: Client, id: string, { wait, say }: Waiting): Promise<MachineDetail> {
  const limit = AbortSignal.timeout(MAX_START_MS)
  for (let lastWords = ''; ; await pause(POLL_MS, limit)) {
    const detail = await readDetail(client, { id })
    const machine = machineOf(detail)
    const words = `${machine.status} ${machine.message ?? ''}`
    if (wait && words !== lastWords) say(machine)
    lastWords = words
    if (machine.status === 'Failed') throw startFailed(detail)
    // A machine that runs has its addresses; not every engine has SSH.
    if (!wait || machine.status === 'Running') return detail
    if (limit.aborted || !isLiving(machine.status)) {
      throw new CliError(exitCodes.failed, `${displayName(machine)} is not running: it is ${machine.status}.`, [
        'To check on it: berth ls',
      ])
    }
  }
}

function startFailed(detail: MachineDetail): CliError {
  const { name, statusMessage, statusReason: reason } = detail
  const cause = statusMessage ?? reason ?? 'the server gave no reason'
  return new CliError(
    exitCodes.failed,
    `${displayName(detail)} has failed: ${cause.replace(/\.$/, '')}.`,
    ['It costs nothing. To see what happened: berth events', `To remove it from the list: berth terminate ${name}`],
    { reason, name },
  )
}
