/**
 * The volumes of an order: checked and locked before its balances, attached in its transaction. A volume on the disk of a
 * host binds the order to that host.
 */
import { limits, MAX_INT32 } from '../../base/limits.ts'
import type { ProviderId } from '../../contract/provider-data.ts'
import { failField, ok, type Failure, type Result } from '../../contract/result.ts'
import type { VolumeMount } from '../../contract/workload.ts'
import type { RentalKind } from '../../domain/rental.ts'
import { isSharedWith, isUsableIn, overlappingMounts } from '../../domain/volume.ts'
import type { VolumeEngine } from '../../drivers/driver.ts'
import type { Tx } from '../../store/platform/database.ts'
import { findVolumeHosts } from '../../store/host/host-volume.ts'
import { listCopied } from '../../store/volume/volume-growth.ts'
import { listAttachments, lockVolume, type AttachedVolume, type Volume } from '../../store/volume/volume.ts'
import type { Actor, App } from '../app.ts'

/** Where volumes are, and so the machines that can have them. */
export interface VolumePlace {
  readonly driver: ProviderId
  readonly region: string
  /** undefined: on any machine of the engine. */
  readonly host: string | undefined
  /** undefined: in any cluster of the engine. */
  readonly cluster: string | undefined
}

export interface OrderVolumes {
  readonly mounts: readonly VolumeMount[]
  /** undefined: the order has no volumes. */
  readonly place: VolumePlace | undefined
}

type Field = readonly [string, number, string]
const fieldOf = (index: number): Field => ['volumes', index, 'volumeId']

export async function lockOrderVolumes(
  app: App,
  tx: Tx,
  payer: Pick<Actor, 'accountId'>,
  kind: RentalKind,
  mounts: readonly VolumeMount[],
): Promise<Result<OrderVolumes>> {
  if (mounts.length === 0) return ok({ mounts, place: undefined })
  const clash = refuseClash(mounts)
  if (clash !== undefined) return clash
  const ids = mounts.map(({ volumeId }) => volumeId).filter((id) => id <= MAX_INT32)
  const volumes = new Map<number, Volume>()
  for (const id of ids.toSorted((a, b) => a - b)) {
    const volume = await lockVolume(tx, id)
    if (volume !== undefined && volume.account_id === payer.accountId) volumes.set(id, volume)
  }
  const attached = await listAttachments(tx.db, { volumeIds: ids })
  const copied = await listCopied(tx.db, ids)
  const externalIds = [...volumes.values()].flatMap(({ external_id: id }) => id ?? [])
  const hosts = await findVolumeHosts(tx.db, externalIds)
  let place: VolumePlace | undefined
  for (const [index, mount] of mounts.entries()) {
    const field = fieldOf(index)
    const volume = volumes.get(mount.volumeId)
    if (volume === undefined || volume.state === 'deleted') {
      return failField(field, 'volume_not_found', { id: mount.volumeId })
    }
    const engine = app.drivers.get(volume.driver)?.volumes
    const own = attached.filter((one) => one.volumeId === volume.id)
    const refused = refuseVolume(volume, engine, own, { kind, mount, field, isCopied: copied.has(volume.id) })
    if (refused !== undefined) return refused
    const host = engine?.isLocal === true ? hosts.get(volume.external_id ?? '') : undefined
    const cluster = engine?.clusterOf?.(volume.external_id ?? '')
    const there = { driver: volume.driver, region: volume.region, host, cluster }
    const apart = place === undefined ? undefined : refusePlace(place, there, field)
    if (apart !== undefined) return apart
    place ??= there
  }
  return ok({ mounts, place })
}

function refuseClash(mounts: readonly VolumeMount[]): Failure | undefined {
  for (const [index, { volumeId }] of mounts.entries()) {
    if (mounts.findIndex((one) => one.volumeId === volumeId) < index)
      return failField(fieldOf(index), 'duplicate_volume', { id: volumeId })
  }
  const overlap = overlappingMounts(mounts.map(({ path }) => path))
  if (overlap === undefined) return undefined
  return failField(['volumes', overlap.index, 'path'], 'mount_path_in_use', overlap)
}

function refuseVolume(
  { id, state }: Volume,
  engine: VolumeEngine | undefined,
  attached: readonly AttachedVolume[],
  order: { kind: RentalKind; mount: VolumeMount; field: Field; isCopied: boolean },
): Failure | undefined {
  const { kind, mount, field } = order
  if (state !== 'active') return failField(field, 'volume_not_active', { id, state })
  if (engine?.serves.includes(kind) !== true) return failField(field, 'volume_kind', { id, kind })
  if (order.isCopied) return failField(field, 'volume_being_copied', { id })
  const rentalIds = attached.map(({ rentalId }) => rentalId)
  if (engine.isLocal && !isSharedWith(attached, { kind, readOnly: mount.readOnly }))
    return failField(field, 'volume_in_use', { id, rentalIds })
  if (rentalIds.length >= limits.attachmentsPerVolume)
    return failField(field, 'too_many_attachments', { max: limits.attachmentsPerVolume })
  return undefined
}

/** Why volumes there cannot be used at the other place; the failure names the first one. */
export function refusePlace(
  volumes: VolumePlace,
  place: VolumePlace,
  field: readonly [string, number, string] = fieldOf(0),
): Failure | undefined {
  if (volumes.host !== undefined && volumes.host === place.host) return undefined
  if (!isUsableIn(volumes.region, place.region)) return failField(field, 'region_mismatch', { region: volumes.region })
  if (volumes.driver !== place.driver) return failField(field, 'provider_mismatch')
  if (volumes.cluster !== undefined && volumes.cluster !== place.cluster)
    return failField(field, 'cluster_mismatch', { cluster: volumes.cluster })
  return volumes.host === undefined ? undefined : failField(field, 'host_mismatch', { host: volumes.host })
}
