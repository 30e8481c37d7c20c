/**
 * Desired and reported state of our hosts, as drivers see it. It is in the database (store/host/host-world.ts), so every
 * server sees the same, whichever one a host is connected to.
 */
import type { Instant } from '../../base/instant.ts'
import type { HostFault, HostOffer, Observation } from '../../contract/agent.ts'
import type { HostAddress, HostState } from '../../domain/host.ts'
import type { RentalSpec, Mount, Share } from '../../domain/rental.ts'
import type { StartOutcome } from '../driver.ts'

export type HostDriverId = 'host' | 'private-cloud'

export interface HostWorld {
  /** Throws when the database does not answer. */
  check(): Promise<void>
  listHosts(driver: HostDriverId): Promise<KnownHost[]>
  /** Idempotent by tag. */
  addWorkload(workload: NewWorkload): Promise<AddOutcome>
  /** Succeeds if it is already gone. */
  requestDestroy(id: string): Promise<void>
  /** Both do nothing to a workload that is going or gone. */
  requestStop(id: string): Promise<void>
  /** Starts it with this share, on the same host or on another one. `refused`: a host takes no tenants now, or does not answer. */
  requestStart(id: string, share: Share): Promise<StartOutcome>
  /** Removes the disks that workloads have left behind, once they run on other hosts. */
  dropCopies(): Promise<void>
  /** Counts up to `count`. */
  requestReboot(id: string, count: number): Promise<void>
  /** The host tells its programs that it ends then. */
  announceEnd(id: string, at: Instant): Promise<void>
  listWorkloads(driver: HostDriverId, tagPrefix: string): Promise<KnownWorkload[]>
  findWorkload(id: string): Promise<KnownWorkload | undefined>

  addVolume(volume: NewVolume): Promise<{ id: string; vip: string }>
  /** The file server has created its data. */
  markVolumeMade(id: string): Promise<void>
  /** False: the volume is attached. */
  requestVolumeDestroy(id: string): Promise<boolean>
  /** Deletes the row of a volume that the file server no longer has. */
  forgetVolume(id: string): Promise<void>
  listVolumes(driver: HostDriverId, tagPrefix: string): Promise<KnownVolume[]>
  findVolume(id: string): Promise<KnownVolume | undefined>
  /** Records the size that its host should grow it to. */
  growVolume(id: string, sizeGb: number): Promise<void>
  /** Why it is impossible. undefined: recorded. */
  wantDisk(volumeId: string, workloadId: string, mount?: Mount): Promise<string | undefined>
  unwantDisk(volumeId: string, workloadId: string): Promise<void>
}

export interface KnownHost {
  readonly id: string
  readonly supplierId: string | null
  readonly state: HostState
  readonly seenAt: Instant | null
  readonly offer: HostOffer
  /** Why it accepts no tenants. */
  readonly fault: HostFault | null
}

export interface NewWorkload {
  readonly id: string
  readonly driver: HostDriverId
  readonly tag: string
  readonly spec: RentalSpec
  /** Guest ports that get a public port; 0 is SSH. Empty for hosts with public addresses. */
  readonly relayed: readonly number[]
}

export type AddOutcome =
  | { readonly kind: 'added'; readonly id: string }
  /** A host accepts no tenants now; the message says why. */
  | { readonly kind: 'refused'; readonly message: string }

export interface KnownWorkload {
  readonly id: string
  readonly tag: string
  /** null: found on a host, not in the database. */
  readonly spec: RentalSpec | null
  readonly want: 'run' | 'stopped' | 'gone'
  readonly nodes: readonly KnownNode[]
  /** Guest ports and their public ports. */
  readonly relay: ReadonlyArray<{ readonly target: number; readonly port: number }>
}

/** The last message of its hosts; of several, the first with one. */
export async function lastMessageOf(world: HostWorld, workloadId: string): Promise<string | undefined> {
  const workload = await world.findWorkload(workloadId)
  return workload?.nodes.find(({ message }) => message !== null)?.message ?? undefined
}

export interface KnownNode {
  readonly hostId: string
  readonly index: number
  readonly address: HostAddress | null
  readonly seenAt: Instant | null
  /** null: not reported yet. */
  readonly state: Observation['state'] | null
  readonly started: boolean
  readonly failure: string | null
  readonly message: string | null
  /** Set once its program has ended by itself. */
  readonly exitCode: number | null
  /** When that was. null: not known. */
  readonly endedAt: Instant | null
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
  /** Reserve its blocks on creation. */
  readonly isReserved?: boolean
  readonly vip: string
  /** The volume on the same host that it starts as a copy of. */
  readonly copyOf?: string | null
}

export interface KnownVolume {
  readonly id: string
  readonly tag: string
  readonly hostId: string | null
  readonly sizeGb: number
  readonly vip: string
  readonly want: 'there' | 'gone'
  readonly present: boolean
  /** Why its host could not create it. */
  readonly failure: string | null
  /** The size that the host reports. null: the host has not reported the volume. */
  readonly foundGb: number | null
  readonly usedGb: number | null
  /** Workloads that should have it attached. */
  readonly wantedBy: readonly string[]
  /** Workloads whose hosts all report it. */
  readonly attachedTo: readonly string[]
  /** Workloads with a host that still reports it. */
  readonly heldBy: readonly string[]
}
