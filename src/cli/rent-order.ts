/** An order as the server takes it, of each kind, and its way until it runs. */
import { randomUUID } from 'node:crypto'
import { MINUTE_MS } from '../base/instant.ts'
import { formatUsd, type NanoUsd } from '../base/money.ts'
import type { CallInput, Client, Reply } from '../client/client.ts'
import { pause } from '../client/pause.ts'
import type { TermQuote } from '../domain/term.ts'
import type { Offer, OfferKind } from './offer.ts'
import {
  callName,
  hasFailed,
  isRunning,
  machineOfInstance,
  machineOfRental,
  readDetail,
  sshText,
  type MachineDetail,
  type OwnMachine,
} from './own-machine.ts'
import { CliError, exitCodes } from './shell.ts'

/** The server gives up after 30 minutes; a little later its answer is known here too. */
const LONGEST_START_MS = 32 * MINUTE_MS
const BETWEEN_LOOKS_MS = 500

export interface OrderOptions {
  readonly image?: string
  readonly port?: readonly number[]
  readonly volume?: number
  readonly label?: string | undefined
  /** USD. */
  readonly limit?: string
}

export interface Order extends OrderOptions {
  readonly offer: Offer
  readonly gpuCount: number
  /** As it was shown. Where it has been raised since, nothing is ordered. */
  readonly pricePerHour: NanoUsd
  /** undefined: on demand. */
  readonly term: TermQuote | undefined
  /** It ends with its term. */
  readonly thenEnd?: true
  readonly endsAt: string | undefined
}

/** Gives the number of a rental, or the name of an instance. A cut line orders nothing twice. */
export async function placeOrder(client: Client, order: Order): Promise<string> {
  const { offer, gpuCount, label, endsAt, limit } = order
  const maxCost = formatUsd(order.pricePerHour)
  const idempotencyKey = randomUUID()
  if (offer.machine !== undefined) {
    const body = {
      cluster_name: offer.machine.cluster,
      node_name: offer.machine.node,
      gpu_count: gpuCount,
      max_cost_per_hour_usd: maxCost,
      ...containerOptions(order),
      ...(label === undefined ? {} : { label }),
      ...(endsAt === undefined ? {} : { auto_terminate_at: endsAt }),
      ...(limit === undefined ? {} : { spending_limit_usd: limit }),
    }
    return (await client.call('createInstance', { body, idempotencyKey })).instance_id
  }
  // The options name no region, GPU or network that an order could not.
  const common = {
    gpuCount,
    gpuType: offer.gpu.split(' ')[0]?.toLowerCase(),
    region: offer.region,
    networkType: offer.network,
    maxCostPerHourUsd: maxCost,
    ...termOptions(order),
    ...(label === undefined ? {} : { label }),
    ...(endsAt === undefined ? {} : { autoTerminateAt: endsAt }),
    ...(limit === undefined ? {} : { spendingLimitUsd: limit }),
  }
  if (offer.kind === 'vm') {
    const ports = order.port === undefined ? {} : { customPorts: [...order.port] }
    const body = { ...common, ...ports } as CallInput<'createVirtualMachineRental'>['body']
    return String((await client.call('createVirtualMachineRental', { body, idempotencyKey })).id)
  }
  const storage = order.volume === undefined ? {} : { storageVolume: { isNew: false, id: order.volume } }
  const body = { ...common, ...storage } as CallInput<'createBareMetalRental'>['body']
  return String((await client.call('createBareMetalRental', { body, idempotencyKey })).id)
}

function termOptions({ term, thenEnd }: Order) {
  if (term === undefined) return {}
  return {
    termType: 'reserved' as const,
    termPeriodDays: term.days,
    discountPercentage: term.percentage,
    convertToOnDemandOnExpiry: thenEnd !== true,
  }
}

function containerOptions({ image, port }: Order): Pick<CallInput<'createInstance'>['body'], 'image' | 'ports'> {
  return {
    ...(image === undefined ? {} : { image: { name: image } }),
    ...(port === undefined ? {} : { ports: [...port] }),
  }
}

interface Waiting {
  readonly wait: boolean
  /** Told each time that it does something else. */
  readonly say: (machine: OwnMachine) => void
}

interface Seen {
  readonly machine: OwnMachine
  /** As the server tells of it. */
  readonly raw: unknown
}

export async function waitUntilRunning(
  client: Client,
  { kind, id }: { kind: OfferKind; id: string },
  { wait, say }: Waiting,
): Promise<Seen> {
  const limit = AbortSignal.timeout(LONGEST_START_MS)
  for (let said = ''; ; await pause(BETWEEN_LOOKS_MS, limit)) {
    const seen = kind === 'container' ? await seeInstance(client, id) : await seeRental(client, id)
    const { machine } = seen
    const words = `${machine.status} ${machine.message ?? ''}`
    if (wait && words !== said) say(machine)
    said = words
    if (hasFailed(machine)) throw startFailed(machine, await readDetail(client, machine))
    if (!wait || (isRunning(machine) && sshText(machine) !== '')) return seen
    if (limit.aborted || isEnding(machine)) {
      throw new CliError(exitCodes.failed, `${callName(machine)} does not run: it is ${machine.status}.`, [
        'berth ls shows how it is.',
      ])
    }
  }
}

async function seeRental(client: Client, id: string): Promise<Seen> {
  const raw = await client.call('getRental', { params: { id: Number.parseInt(id, 10) } })
  return { machine: machineOfRental(raw), raw }
}

async function seeInstance(client: Client, id: string): Promise<Seen> {
  const { instances } = await client.call('listInstances')
  const raw: Reply<'listInstances'>['instances'][number] | undefined = instances.find((one) => one.id === id)
  if (raw === undefined) {
    throw new CliError(exitCodes.failed, `${id} is not there any more.`, ['berth events says what happened.'])
  }
  return { machine: machineOfInstance(raw), raw }
}

function startFailed(machine: OwnMachine, { statusMessage, statusReason: reason }: MachineDetail): CliError {
  const why = statusMessage ?? reason ?? 'the server gives no reason'
  return new CliError(
    exitCodes.failed,
    `${callName(machine)} has failed: ${why.replace(/\.$/, '')}.`,
    [
      'It costs nothing. berth events says what happened.',
      `Take it off the list with: berth terminate ${machine.name}`,
    ],
    { reason, name: machine.name },
  )
}

function isEnding({ status }: OwnMachine): boolean {
  return /^(stopping|terminat)/i.test(status)
}
