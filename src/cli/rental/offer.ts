/** Offers of the marketplace and of the price book as one type, for `berth gpus ls` and `berth rent`. */
import { InvalidArgumentError } from 'commander'
import { nanoUsdOf, parseUsd, usdFromNumber, zeroUsd, type NanoUsd } from '../../base/money.ts'
import type { Client, Reply } from '../../client/client.ts'
import type { NetworkType, Simulation } from '../../contract/shared.ts'
import { simulationIn } from '../../contract/simulated.ts'
import { shareOfMachine } from '../../domain/machine.ts'
import type { DiskOffer } from '../../domain/term.ts'
import { gpuLabel } from '../../view/gpu.ts'
import { shortRentalKinds } from '../../view/rental.ts'
import { parseNamed, parseWhole } from '../kit/flag.ts'
import type { Options } from '../kit/row-type.ts'

const kinds = ['container', 'vm', 'metal'] as const
export type OfferKind = (typeof kinds)[number]

export interface Offer {
  readonly kind: OfferKind
  /** The GPU's name without its vendor. */
  readonly gpu: string
  /** A container can have from 1 to this many GPUs; other kinds have exactly this many. */
  readonly gpuCount: number
  readonly region: string
  readonly pricePerGpu: NanoUsd
  /** The price of the whole machine; containers are priced per GPU. */
  readonly pricePerHour: NanoUsd | undefined
  /** Free GPUs of a container's machine, or how many machines of this shape can be rented now. */
  readonly free: number
  /** Containers: the machine. */
  readonly machine: { readonly cluster: string; readonly node: string } | undefined
  readonly simulated: Simulation | null
  /** Virtual machines and bare metal; those of containers are read for the chosen machine. */
  readonly disk: DiskOffer | undefined
  /** Virtual machines and bare metal. */
  readonly network: NetworkType | undefined
  /** Conditions of interruptions. Absent: the order has nothing to do with them. */
  readonly interruption?: {
    /** Absent: the machine has no price for interruptible rentals. */
    readonly noticeSeconds: number | undefined
    /** Interruptions of the last 7 days. */
    readonly lately: number
    /** The GPUs that are free without any interruption. */
    readonly gpusFree: number
    /** How long an order waits for those of others. */
    readonly waitSeconds: number | undefined
  }
}

const MAX_GPUS = 4_096
/** Pages of the marketplace, of 10,000 machines each. */
const MAX_PAGES = 20

const parseKind = parseNamed(['container', 'virtual-machine', 'bare-metal'], shortRentalKinds)

export const offerFilters: Options = {
  '--gpu <model>': 'GPU model or part of it, such as h100 or 4090',
  '--region <region>': 'only this region',
  '--count <n>': { help: 'number of GPUs', parse: parseWhole(1, MAX_GPUS) },
  '--max-price <usd>': { help: 'highest price per GPU-hour', parse: parsePrice },
  '--kind <kind>': { help: 'kind of machine', choices: kinds, parse: (text) => shortRentalKinds[parseKind(text)] },
}

/** The cheapest GPU first. */
export async function readOffers(client: Client): Promise<Offer[]> {
  const [machines, options] = await Promise.all([listMachines(client), client.call('listRentalOptions')])
  const offers = [...machines.map(offerOfMachine), ...options.filter(({ enabled }) => enabled).map(offerOfOption)]
  return offers.toSorted(cheapestFirst)
}

export function isFree({ free }: Offer): boolean {
  return free > 0
}

export function priceOf({ pricePerGpu, pricePerHour }: Offer, gpuCount: number): NanoUsd {
  return pricePerHour ?? nanoUsdOf(pricePerGpu * BigInt(gpuCount))
}

async function listMachines(client: Client): Promise<Reply<'listMachines'>['instances']> {
  const machines: Reply<'listMachines'>['instances'] = []
  let cursor: string | undefined
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const query = cursor === undefined ? {} : { cursor }
    const { instances, next_cursor: next } = await client.call('listMachines', { query, body: {} })
    machines.push(...instances)
    if (next === undefined || next === null) break
    cursor = next
  }
  return machines
}

function offerOfMachine(machine: Reply<'listMachines'>['instances'][number]): Offer {
  const free = machine.reserved ? 0 : machine.gpus_total - machine.gpus_reserved
  return {
    kind: 'container',
    gpu: gpuLabel(machine.hardware.gpus[0]?.model),
    gpuCount: free > 0 ? free : machine.gpus_total,
    region: machine.location.region,
    pricePerGpu: usdFromNumber(machine.pricing.price.amount) ?? zeroUsd,
    pricePerHour: undefined,
    free,
    machine: { cluster: machine.cluster_name, node: machine.id },
    simulated: simulationIn(machine.network),
    disk: undefined,
    network: undefined,
  }
}

function offerOfOption(option: Reply<'listRentalOptions'>[number]): Offer {
  const whole = usdFromNumber(option.costPerHour) ?? zeroUsd
  return {
    kind: option.machineType === 'bare-metal' ? 'metal' : 'vm',
    gpu: `${option.gpuType} ${option.gpuFormFactor}`.toUpperCase(),
    gpuCount: option.gpuCount,
    region: option.region,
    pricePerGpu: nanoUsdOf(whole / BigInt(Math.max(1, option.gpuCount))),
    pricePerHour: whole,
    free: option.totalAvailable,
    machine: undefined,
    simulated: option.simulated ?? null,
    disk: { shareGb: option.nodes[0]?.storageGb ?? 0, stoppedDiskPerGbMonth: priceIn(option.stoppedDiskUsdPerGbMonth) },
    network: option.connectionType,
  }
}

/** The disk that an order gets, which the list of all machines does not tell. undefined: it is not for sale anymore. */
export async function readDiskOffer(client: Client, offer: Offer, gpuCount: number): Promise<DiskOffer | undefined> {
  if (offer.machine === undefined) return offer.disk
  const { node } = offer.machine
  const { machines } = await client.call('searchMachines', { query: { text: node } })
  const machine = machines.find(({ id }) => id === node)
  if (machine === undefined) return undefined
  return {
    shareGb: shareOfMachine(machine, gpuCount, machine.gpusTotal).storageGb,
    stoppedDiskPerGbMonth: priceIn(machine.stoppedDiskUsdPerGbMonth),
  }
}

/** undefined: the server is older. */
function priceIn(text: string | null | undefined): NanoUsd | null {
  return text === null || text === undefined ? null : (parseUsd(text) ?? null)
}

/** At the same price, the smaller machine comes first. */
function cheapestFirst(a: Offer, b: Offer): number {
  if (a.pricePerGpu !== b.pricePerGpu) return a.pricePerGpu < b.pricePerGpu ? -1 : 1
  if (a.kind !== b.kind) return kinds.indexOf(a.kind) - kinds.indexOf(b.kind)
  return a.gpuCount - b.gpuCount || placeOf(a).localeCompare(placeOf(b))
}

/** Tells similar offers apart. */
export function placeOf({ machine, network }: Offer): string {
  return machine?.node ?? network ?? ''
}

function parsePrice(text: string): NanoUsd {
  const price = parseUsd(text)
  if (price === undefined || price < 0n) throw new InvalidArgumentError('Must be a price such as 2.49.')
  return price
}
