/** `berth rent --like NAME`: the choices and settings of another rental. */
import type { Client } from '../../client/client.ts'
import type { NetworkType } from '../../contract/shared.ts'
import { orderedOf, type WorkloadFields } from '../../view/ordered.ts'
import { shortRentalKinds } from '../../view/rental.ts'
import { anyMachine } from './own-machine.ts'
import type { OfferKind } from './offer.ts'

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
  const { id } = await anyMachine.find(client, name)
  const { order } = await client.call('getRentalOrder', { params: { id } })
  const { kind, gpuCount, gpuType, networkType, cudaVersion: _, ...ordered } = orderedOf(order)
  return {
    ...ordered,
    kind: shortRentalKinds[kind],
    count: gpuCount,
    ...(gpuType === undefined ? {} : { gpu: gpuType }),
    ...(networkType === undefined ? {} : { network: networkType }),
  }
}
