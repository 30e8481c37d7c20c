/**
 * The plans of Latitude.sh: whole machines with physical CPUs, by site. A server names its plan and not its price, so
 * plans are read along with the servers and remembered: a withdrawn plan keeps its price.
 */
import { addMs, MINUTE_MS, type Clock, type Instant } from '../../../base/instant.ts'
import type { NanoUsd } from '../../../base/money.ts'
import type { CloudOffer } from '../cloud.ts'
import type { CloudHttp } from '../http.ts'
import { plans, type Plan } from './api.ts'

const MAX_AGE_MS = 5 * MINUTE_MS

export class Plans {
  readonly #http: CloudHttp
  readonly #clock: Clock
  readonly #known = new Map<string, Plan>()
  #readAt: Instant | undefined

  constructor(http: CloudHttp, clock: Clock) {
    this.#http = http
    this.#clock = clock
  }

  async read(signal: AbortSignal): Promise<Plan[]> {
    const now = this.#clock.now()
    const { data } = await this.#http.read(plans, { path: '/plans', query: { 'filter[gpu]': true }, signal })
    const current = data.map(({ attributes }) => attributes)
    for (const plan of current) this.#known.set(plan.slug, plan)
    this.#readAt = now
    return current
  }

  /** Returns plans by their slug, including withdrawn ones. */
  async known(signal: AbortSignal): Promise<ReadonlyMap<string, Plan>> {
    const isFresh = this.#readAt !== undefined && this.#clock.now() < addMs(this.#readAt, MAX_AGE_MS)
    if (!isFresh) await this.read(signal)
    return this.#known
  }
}

export function offersOf(plan: Plan): CloudOffer[] {
  const { cpu, memory } = plan.specs
  const gpu = gpuOfPlan(plan)
  if (gpu === undefined) return []
  return (plan.regions ?? []).flatMap((region) => {
    const costPerHour = region.pricing?.USD?.hour
    if (costPerHour === undefined || costPerHour === null) return []
    return (region.locations?.in_stock ?? []).map((site) => ({
      type: plan.slug,
      region: site,
      kind: 'bare-metal' as const,
      gpu: gpu.text,
      gpus: gpu.count,
      networkType: 'ethernet' as const,
      // The vendor tells only whether there is stock.
      available: null,
      costPerHour,
      cpuModel: cpu.type,
      cpus: coresOf(plan),
      ramGb: memory.total,
      storageGb: storageGbOf(plan),
    }))
  })
}

/** Returns the price of the plan in the region of a site. undefined: it is not offered there. */
export function priceAt(plan: Plan | undefined, site: string): NanoUsd | undefined {
  const regions = (plan?.regions ?? []).filter(({ pricing }) => typeof pricing?.USD?.hour === 'bigint')
  const localRegion = regions.find(({ locations }) => locations?.in_stock?.includes(site) === true)
  // A sold-out site is in no list of its region; a plan with a single price has that price everywhere.
  const prices = new Set(regions.map(({ pricing }) => pricing?.USD?.hour))
  return (
    localRegion?.pricing?.USD?.hour ?? (prices.size === 1 ? (regions[0]?.pricing?.USD?.hour ?? undefined) : undefined)
  )
}

export function gpuOfPlan({ specs: { gpu } }: Plan): { readonly text: string; readonly count: number } | undefined {
  if (!gpu?.count || !gpu.type) return undefined
  return { text: `${gpu.type}${/pcie/i.test(gpu.interconnect ?? '') ? ' PCIe' : ''}`, count: gpu.count }
}

/** Counts the physical cores of all CPUs. */
export function coresOf({ specs: { cpu } }: Plan): number {
  return cpu.cores * cpu.count
}

/** Sums the drives, whose sizes are texts: `480 GB`, `3.8 TB`. */
export function storageGbOf({ specs: { drives } }: Plan): number {
  return (drives ?? []).reduce((sum, { count, size }) => {
    const [, digits = '0', unit = 'GB'] = /^\s*([\d.]+)\s*(TB|GB)/i.exec(size) ?? []
    return sum + Math.round(count * Number.parseFloat(digits) * (unit.toUpperCase() === 'TB' ? 1000 : 1))
  }, 0)
}
