/** `berth rent --like NAME`: the choices and settings of another rental. */
import type { Client } from '../client/client.ts'
import type { NetworkType } from '../contract/shared.ts'
import { ApiError } from '../client/error.ts'
import type { OfferKind } from './offer.ts'
import { listOwn, noMachine } from './own-machine.ts'
import type { WorkloadFields } from './rent-option.ts'

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

const kinds = { createInstance: 'container', createVirtualMachineRental: 'vm', createBareMetalRental: 'metal' } as const

export async function readLike(client: Client, name: string): Promise<Like> {
  const { operation, body } = await readOrder(client, name)
  const { cluster_name: _, node_name: machine, gpu_count: gpuCount, image, label, ...rest } = body
  const { gpuType, gpuCount: count, region, networkType: network, cudaVersion: __, ...workload } = rest
  const kind = kinds[operation]
  return {
    kind,
    count: Number(gpuCount ?? count),
    ...(kind === 'container'
      ? { machine: machine as string }
      : { gpu: gpuType as string, region: region as string, network: network as NetworkType }),
    ...(image === undefined ? {} : { image: imageText(image as { name: string; tag?: string }) }),
    ...(label === undefined ? {} : { label: label as string }),
    workload,
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

function imageText({ name, tag }: { name: string; tag?: string }): string {
  return tag === undefined ? name : `${name}:${tag}`
}
