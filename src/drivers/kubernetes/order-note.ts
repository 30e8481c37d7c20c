/** The part of an order that is kept with its pod, so that the list of pods says all that the server needs. */
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
  /** TCP ports that lead straight to it. */
  ports: z.array(z.number()),
  /** Restarts in a row after which it counts as failed. */
  maxRetries: z.number(),
  /** The public port of its SSH server, and who logs in. */
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

/** undefined: someone has changed or removed it. */
export function readNote(text: string | undefined): OrderNote | undefined {
  try {
    return text === undefined ? undefined : orderNote.parse(JSON.parse(text))
  } catch {
    return undefined
  }
}

/** `address`: of the relay that leads to its ports, and its own. */
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
