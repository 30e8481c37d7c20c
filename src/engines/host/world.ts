/**
 * What is wanted of our own hosts and what they said, as the drivers see it. It is kept in the database
 * (store/host-world.ts), so every server sees the same, whichever of them a host is connected to.
 */
import type { Instant } from '../../base/instant.ts'
import type { HostFault, HostOffer, Observation } from '../../contract/agent.ts'
import type { HostAddress, HostState } from '../../domain/host.ts'
import type { EngineSpec } from '../../domain/rental.ts'

export type HostDriverId = 'host' | 'private-cloud'

export interface HostWorld {
  /** Throws when the database does not answer. */
  check(): Promise<void>
  listHosts(driver: HostDriverId): Promise<KnownHost[]>
  /** Under a tag that is there already it answers the one that has it. */
  addWorkload(workload: NewWorkload): Promise<AddOutcome>
  /** Succeeds for one that is gone. */
  askGone(id: string): Promise<void>
  listWorkloads(driver: HostDriverId, tagPrefix: string): Promise<KnownWorkload[]>
  findWorkload(id: string): Promise<KnownWorkload | undefined>

  addVolume(volume: NewVolume): Promise<{ id: string; vip: string }>
  /** Its data is there: the file server has made it. */
  markVolumeMade(id: string): Promise<void>
  /** False: it is attached. */
  askVolumeGone(id: string): Promise<boolean>
  /** Forgets a volume of the file server, which has shown it gone. */
  forgetVolume(id: string): Promise<void>
  listVolumes(driver: HostDriverId, tagPrefix: string): Promise<KnownVolume[]>
  findVolume(id: string): Promise<KnownVolume | undefined>
  /** A sentence: why it cannot be. undefined: it is wanted now. */
  wantDisk(volumeId: string, workloadId: string): Promise<string | undefined>
  unwantDisk(volumeId: string, workloadId: string): Promise<void>
}

export interface KnownHost {
  readonly id: string
  readonly supplierId: string | null
  readonly state: HostState
  readonly seenAt: Instant | null
  readonly offer: HostOffer
  /** Why it takes no tenants. */
  readonly fault: HostFault | null
}

export interface NewWorkload {
  readonly id: string
  readonly driver: HostDriverId
  readonly tag: string
  readonly spec: EngineSpec
  /** Ports inside that get a public port each; 0 is SSH. Empty where the hosts have addresses of their own. */
  readonly relayed: readonly number[]
}

export type AddOutcome =
  | { readonly kind: 'added'; readonly id: string }
  /** A host of it takes no tenants now; the sentence says why. */
  | { readonly kind: 'refused'; readonly message: string }

export interface KnownWorkload {
  readonly id: string
  readonly tag: string
  /** null: found on a host and not in the books. */
  readonly spec: EngineSpec | null
  readonly want: 'run' | 'gone'
  readonly nodes: readonly KnownNode[]
  /** Ports inside, and the public ones that lead there. */
  readonly relay: ReadonlyArray<{ readonly target: number; readonly port: number }>
}

/** What the hosts of a machine last said of it; of several, the first that said something. */
export async function saidOf(world: HostWorld, workloadId: string): Promise<string | undefined> {
  const workload = await world.findWorkload(workloadId)
  return workload?.nodes.find(({ message }) => message !== null)?.message ?? undefined
}

export interface KnownNode {
  readonly hostId: string
  readonly index: number
  readonly address: HostAddress | null
  readonly seenAt: Instant | null
  /** null: the host has said nothing of it yet. */
  readonly state: Observation['state'] | null
  readonly started: boolean
  readonly failure: string | null
  readonly message: string | null
  readonly sshUser: string | null
  readonly incarnation: string | null
  readonly disks: readonly string[]
}

export interface NewVolume {
  readonly id: string
  readonly driver: HostDriverId
  readonly tag: string
  /** null: on the file server. */
  readonly hostId: string | null
  readonly label: string
  readonly sizeGb: number
  /** Of a host: its blocks are set aside when it is made. */
  readonly isReserved?: boolean
  readonly vip: string
}

export interface KnownVolume {
  readonly id: string
  readonly tag: string
  readonly hostId: string | null
  readonly sizeGb: number
  readonly vip: string
  readonly want: 'there' | 'gone'
  readonly present: boolean
  /** Why its host could not make it. null: it has said nothing of the kind. */
  readonly failure: string | null
  /** Workloads that should have it. */
  readonly wantedBy: readonly string[]
  /** Workloads whose hosts, all of them, have shown it. */
  readonly attachedTo: readonly string[]
  /** Workloads of which some host still shows it. */
  readonly heldBy: readonly string[]
}
