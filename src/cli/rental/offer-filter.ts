/** The options that narrow down offers, and which of them leaves none. */
import { formatUsdForPeople, zeroUsd, type NanoUsd } from '../../base/money.ts'
import type { NetworkType } from '../../contract/shared.ts'
import { isGpuMatch, networkLabels } from '../../view/gpu.ts'
import { isFree, type Offer, type OfferKind } from './offer.ts'
import { CliError, exitCodes } from '../kit/shell.ts'

export interface OfferFilter {
  readonly gpu?: string
  readonly machine?: string
  readonly kind?: OfferKind
  readonly region?: string
  readonly network?: NetworkType
  readonly count?: number
  readonly maxPrice?: NanoUsd
}

interface Criterion {
  readonly isMet: (offer: Offer, filter: OfferFilter) => boolean
  /** Why none of the offers that meet the criteria before this one meets it. */
  readonly whyNone: (offers: readonly Offer[], filter: OfferFilter) => string
}

const criteria: readonly Criterion[] = [
  {
    isMet: (offer, { gpu }) => gpu === undefined || isGpuMatch(offer.gpu, gpu),
    whyNone: (_, { gpu }) => `No GPU is called ${gpu}.`,
  },
  {
    isMet: (offer, { machine }) => machine === undefined || offer.machine?.node === machine,
    whyNone: (_, { machine, gpu }) =>
      `There is no marketplace machine ${machine}${gpu === undefined ? '' : ` with ${gpu}`}.`,
  },
  {
    isMet: (offer, { kind }) => kind === undefined || offer.kind === kind,
    whyNone: (offers) => `Matching machines are of kind ${alternatives(offers.map(({ kind }) => kind))}.`,
  },
  {
    isMet: (offer, { region }) => region === undefined || offer.region === region,
    whyNone: (offers) => `Matching machines are in ${alternatives(offers.map(({ region }) => region))}.`,
  },
  {
    isMet: (offer, { network }) => network === undefined || offer.network === network,
    whyNone: (_, { network = 'ethernet' }) => `No matching machine has ${networkLabels[network]}.`,
  },
  {
    isMet: ({ kind, gpuCount }, { count }) =>
      count === undefined || (kind === 'container' ? gpuCount >= count : gpuCount === count),
    whyNone: (offers) => sizesOf(offers),
  },
  {
    isMet: ({ pricePerGpu }, { maxPrice }) => maxPrice === undefined || pricePerGpu <= maxPrice,
    whyNone: ([cheapest]) =>
      `The cheapest matching machine costs ${formatUsdForPeople(cheapest?.pricePerGpu ?? zeroUsd)} per GPU-hour.`,
  },
]

export function isMatch(offer: Offer, filter: OfferFilter): boolean {
  return criteria.every(({ isMet }) => isMet(offer, filter))
}

/** `offers`: all, the cheapest first. */
export function noneFree(offers: readonly Offer[], filter: OfferFilter): CliError {
  let remaining = offers
  for (const { isMet, whyNone } of criteria) {
    const met = remaining.filter((offer) => isMet(offer, filter))
    if (met.length === 0 && remaining.length > 0) {
      return new CliError(exitCodes.failed, whyNone(remaining, filter), ['To see what you can rent: berth gpus ls'])
    }
    remaining = met
  }
  const isRented = remaining.length > 0 && !remaining.some(isFree)
  return new CliError(exitCodes.failed, isRented ? 'All matching machines are rented.' : 'Nothing is for rent.', [
    'To include rented ones: berth gpus ls --all',
  ])
}

function sizesOf(offers: readonly Offer[]): string {
  const sizes = (kind: OfferKind): number[] => offers.filter((one) => one.kind === kind).map(({ gpuCount }) => gpuCount)
  const [containers, virtual, metal] = [sizes('container'), sizes('vm'), sizes('metal')]
  return [
    containers.length === 0 ? [] : [`Matching containers have at most ${gpus([Math.max(...containers)])}.`],
    virtual.length === 0 ? [] : [`Matching virtual machines come with ${gpus(virtual)}.`],
    metal.length === 0 ? [] : [`Matching bare metal comes with ${gpus(metal)}.`],
  ]
    .flat()
    .join(' ')
}

function gpus(counts: readonly number[]): string {
  const text = alternatives([...counts].sort((a, b) => a - b).map(String))
  return text === '1' ? '1 GPU' : `${text} GPUs`
}

/** `1, 2 or 4` */
function alternatives(texts: readonly string[]): string {
  const all = [...new Set(texts)]
  return all.length < 2 ? all.join('') : `${all.slice(0, -1).join(', ')} or ${all.at(-1)}`
}
