/**
 * The volumes of an order. They are checked and locked before the balances, and attached in the transaction of the order.
 * A volume on the disk of a host binds the order to that host.
 */
import { limits, MAX_INT32 } from '../../base/limits.ts'
import type { ProviderId } from '../../contract/provider-data.ts'
import { failField, ok, type Failure, type Result } from '../../contract/result.ts'
import type { VolumeMount } from '../../contract/workload.ts'
import type { RentalKind } from '../../domain/rental.ts'
import { isSharedWith, isUsableIn, overlappingMounts } from '../../domain/volume.ts'
import type { VolumeDriver } from '../../drivers/driver.ts'
import type { Tx } from '../../store/platform/database.ts'
import { findVolumeHosts } from '../../store/host/host-volume.ts'
import { listCopied } from '../../store/volume/volume-growth.ts'
import { listAttachments, lockVolume, type AttachedVolume, type Volume } from '../../store/volume/volume.ts'
import type { Actor, App } from '../app.ts'

/** The location of volumes, which decides the machines that can mount them. */
export interface VolumePlace {
  readonly driver: ProviderId
  readonly region: string
  /** undefined: any machine of the driver can mount them. */
  readonly host: string | undefined
  /** undefined: machines in any cluster of the driver can mount them. */
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
  const attachments = await listAttachments(tx.db, { volumeIds: ids })
  const idsInCopy = await listCopied(tx.db, ids)
  const externalIds = [...volumes.values()].flatMap(({ external_id: id }) => id ?? [])
  const hosts = await findVolumeHosts(tx.db, externalIds)
  let place: VolumePlace | undefined
  for (const [index, mount] of mounts.entries()) {
    const field = fieldOf(index)
    const volume = volumes.get(mount.volumeId)
    if (volume === undefined || volume.state === 'deleted') {
      return failField(field, 'volume_not_found', { id: mount.volumeId })
    }
    const driver = app.drivers.get(volume.driver)?.volumes
    const volumeAttachments = attachments.filter(({ volumeId }) => volumeId === volume.id)
    const failure = refuseVolume(volume, driver, volumeAttachments, {
      kind,
      mount,
      field,
      isCopied: idsInCopy.has(volume.id),
    })
    if (failure !== undefined) return failure
    const host = driver?.isLocal === true ? hosts.get(volume.external_id ?? '') : undefined
    const cluster = driver?.clusterOf?.(volume.external_id ?? '')
    const volumePlace = { driver: volume.driver, region: volume.region, host, cluster }
    const mismatch = place === undefined ? undefined : refusePlace(place, volumePlace, field)
    if (mismatch !== undefined) return mismatch
    place ??= volumePlace
  }
  return ok({ mounts, place })
}

function refuseClash(mounts: readonly VolumeMount[]): Failure | undefined {
  for (const [index, { volumeId }] of mounts.entries()) {
    if (mounts.findIndex((mount) => mount.volumeId === volumeId) < index)
      return failField(fieldOf(index), 'duplicate_volume', { id: volumeId })
  }
  const overlap = overlappingMounts(mounts.map(({ path }) => path))
  if (overlap === undefined) return undefined
  return failField(['volumes', overlap.index, 'path'], 'mount_path_in_use', overlap)
}

function refuseVolume(
  { id, state }: Volume,
  driver: VolumeDriver | undefined,
  attachments: readonly AttachedVolume[],
  order: { kind: RentalKind; mount: VolumeMount; field: Field; isCopied: boolean },
): Failure | undefined {
  const { kind, mount, field } = order
  if (state !== 'active') return failField(field, 'volume_not_active', { id, state })
  if (driver?.serves.includes(kind) !== true) return failField(field, 'volume_kind', { id, kind })
  if (order.isCopied) return failField(field, 'volume_being_copied', { id })
  const rentalIds = attachments.map(({ rentalId }) => rentalId)
  if (driver.isLocal && !isSharedWith(attachments, { kind, readOnly: mount.readOnly }))
    return failField(field, 'volume_in_use', { id, rentalIds })
  if (rentalIds.length >= limits.attachmentsPerVolume)
    return failField(field, 'too_many_attachments', { max: limits.attachmentsPerVolume })
  return undefined
}

/** Fails if a machine at `place` cannot mount these volumes. The failure names the first volume unless `field` is given. */
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
