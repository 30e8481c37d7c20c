/** `berth rent --like NAME`: the choices and settings of another rental. */
import type { Client } from '../client/client.ts'
import type { NetworkType } from '../contract/shared.ts'
import { ApiError } from '../client/error.ts'
import { orderedOf, type WorkloadFields } from '../view/ordered.ts'
import { shortRentalKinds } from '../view/rental.ts'
import type { OfferKind } from './offer.ts'
import { listOwn, noMachine } from './own-machine.ts'

interface Like {
  readonly kind: OfferKind
  readonly count: number
  readonly machine?: string
  readonly gpu?: string
  readonly region?: string
  readonly network?: NetworkType
  readonly image?: string
  readonly label?: string
  readonly workload: WorkloadFields
}

export async function readLike(client: Client, name: string): Promise<Like> {
  const { kind, gpuCount, gpuType, networkType, cudaVersion: _, ...ordered } = orderedOf(await readOrder(client, name))
  return {
    ...ordered,
    kind: shortRentalKinds[kind],
    count: gpuCount,
    ...(gpuType === undefined ? {} : { gpu: gpuType }),
    ...(networkType === undefined ? {} : { network: networkType }),
  }
}

/** By id, name or label. An ended machine has no label any more. */
async function readOrder(client: Client, wanted: string) {
  const labelled = (await listOwn(client)).find(({ label }) => label === wanted)
  try {
    return await client.call('getRentalOrder', { params: { id: labelled?.id ?? wanted } })
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) throw noMachine(wanted)
    throw error
  }
}
