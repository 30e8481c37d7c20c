/** The part of an order that is stored with its pod, so that the list of pods contains everything the server needs. */
import { z } from 'zod'
import type { ProviderData } from '../../contract/provider-data.ts'
import { gpuFormFactor, networkType } from '../../contract/shared.ts'
import { wholeOf, type RentalSpec } from '../../domain/rental.ts'
import { openPortsOf } from '../../domain/workload.ts'

const orderNote = z.object({
  gpuCount: z.number(),
  gpuIndexes: z.array(z.number()),
  networkType,
  gpuFormFactor: gpuFormFactor.nullable(),
  resources: z.object({ cpuModel: z.string(), cpuCount: z.number(), ramGb: z.number(), storageGb: z.number() }),
  /** TCP ports that lead straight to the pod. */
  ports: z.array(z.number()),
  /** After more restarts in a row, the pod counts as failed. */
  maxRetries: z.number(),
  /** The public port of its SSH server, and the login user. */
  ssh: z.object({ port: z.number(), user: z.string() }).optional(),
})
export type OrderNote = z.output<typeof orderNote>

export function noteOf(spec: RentalSpec): OrderNote {
  return {
    gpuCount: spec.gpuCount,
    gpuIndexes: spec.nodes.flatMap(({ gpuIndexes }) => gpuIndexes),
    networkType: spec.networkType,
    gpuFormFactor: spec.gpuFormFactor,
    resources: wholeOf(spec),
    ports: openPortsOf(spec),
    maxRetries: spec.workload?.restart.maxRetries ?? 0,
  }
}

/** undefined: someone has changed or removed the note. */
export function readNote(text: string | undefined): OrderNote | undefined {
  try {
    return text === undefined ? undefined : orderNote.parse(JSON.parse(text))
  } catch {
    return undefined
  }
}

/** `address` has the relay that leads to the pod's ports, and the pod's own address. */
export function providerDataOf(
  externalId: string,
  note: OrderNote,
  address: { readonly publicIp: string; readonly privateIp: string },
): ProviderData {
  const { cpuModel, cpuCount, ramGb, storageGb } = note.resources
  return {
    providerId: 'kubernetes',
    externalId,
    resources: { cpuModel, vcpuCount: cpuCount, gpuCount: note.gpuCount, ramGb, storageGb },
    networkType: note.networkType,
    ...(note.ssh === undefined ? {} : { sshNetworking: [{ host: address.publicIp, ...note.ssh }] }),
    ...(note.ports.length === 0 ? {} : { nodeNetworking: [address] }),
    ...(note.gpuFormFactor === null ? {} : { gpuFormFactor: note.gpuFormFactor }),
  }
}
