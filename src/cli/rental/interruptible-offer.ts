/** Offers of the marketplace for rentals that can be interrupted, and for orders that wait for the GPUs of such rentals. */
import { SECOND_MS } from '../../base/instant.ts'
import { parseUsd, zeroUsd } from '../../base/money.ts'
import type { Client, Reply } from '../../client/client.ts'
import { limits } from '../../base/limits.ts'
import { gpuLabel } from '../../view/gpu.ts'
import { count } from '../../view/number.ts'
import { span } from '../../view/time.ts'
import type { Offer } from './offer.ts'

/** Machines are read in pages; more than these are not looked through for the cheapest. */
const MAX_PAGES = 50

export interface Interruptibility {
  /** The order can be interrupted, at the lower price. */
  readonly interruptible?: true
  /** Seconds. The order may wait so long for the GPUs of others. */
  readonly maxWait?: number
}

type Machine = Reply<'searchMachines'>['machines'][number]

/** Offers of all machines that have what the order asks for, cheapest first. */
export async function readInterruptionOffers(client: Client, choice: Interruptibility): Promise<Offer[]> {
  const offers: Offer[] = []
  for (let page = 0; page < MAX_PAGES; page += 1) {
    const query = { limit: limits.pageRows, offset: page * limits.pageRows }
    const { machines, matches } = await client.call('searchMachines', { query })
    offers.push(...machines.flatMap((machine) => offerOf(machine, choice) ?? []))
    if ((page + 1) * limits.pageRows >= matches || machines.length === 0) break
  }
  return offers.toSorted((a, b) => (a.pricePerGpu === b.pricePerGpu ? 0 : a.pricePerGpu < b.pricePerGpu ? -1 : 1))
}

function offerOf(machine: Machine, { interruptible, maxWait = 0 }: Interruptibility): Offer | undefined {
  const price = interruptible === true ? machine.interruptible?.pricePerGpuHourUsd : machine.pricePerGpuHourUsd
  if (price === undefined) return undefined
  const { gpusAfterWait: others } = machine
  const after = others !== null && others.waitSeconds <= maxWait ? others.gpus : 0
  const free = machine.gpusFree + after
  return {
    kind: 'container',
    gpu: gpuLabel(machine.gpuModel),
    gpuCount: free > 0 ? free : machine.gpusTotal,
    region: machine.region,
    pricePerGpu: parseUsd(price) ?? zeroUsd,
    pricePerHour: undefined,
    free,
    machine: { cluster: machine.clusterName, node: machine.id },
    simulated: machine.simulated,
    disk: undefined,
    network: undefined,
    interruption: {
      noticeSeconds: machine.interruptible?.noticeSeconds,
      lately: machine.interruptible?.interruptionsLast7Days ?? 0,
      gpusFree: machine.gpusFree,
      waitSeconds: others?.waitSeconds,
    },
  }
}

/** Says what an interruption means for the order, before it is placed. undefined: nothing. */
export function interruptionLine(
  { interruption }: Offer,
  choice: Interruptibility & { readonly after?: string },
): string | undefined {
  if (choice.interruptible !== true || interruption?.noticeSeconds === undefined) return undefined
  const next = choice.after === 'terminate' ? 'then it terminates' : 'then it stops, and starts when GPUs are free'
  return `at any time, ${span(interruption.noticeSeconds * SECOND_MS)} after a notice; ${next}. ${count(interruption.lately, 'interruption')} on this machine in 7 days`
}

/** Says how long the order waits. undefined: enough GPUs are free. */
export function waitLine({ interruption }: Offer, gpuCount: number): string | undefined {
  if (interruption?.waitSeconds === undefined || gpuCount <= interruption.gpusFree) return undefined
  return `about ${span(interruption.waitSeconds * SECOND_MS)}: interruptible rentals are interrupted for it`
}
