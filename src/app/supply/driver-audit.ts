/**
 * Compares a provider's machines and volumes with the database. `berth audit` prints the result, `reap` destroys
 * orphans.
 */
import type { Instant } from '../../base/instant.ts'
import { addMs } from '../../base/instant.ts'
import { rentalStateTable } from '../../contract/rental-state.ts'
import { idOfTag, tagOf, tagPrefix } from '../../domain/rental.ts'
import { hadNoRoom, type Driver, type DriverMachine, type DriverVolume } from '../../drivers/driver.ts'
import { listUnreleased } from '../../store/rental/rental-engine.ts'
import { findRentalsForAudit, type AuditRow } from '../../store/rental/rental.ts'
import { listWatchedVolumes, readVolumes } from '../../store/volume/volume.ts'
import type { App } from '../app.ts'
import { rentalTag } from '../rental/rental.ts'

export interface Orphan {
  readonly externalId: string
  readonly tag: string
  readonly why:
    | 'rental_released'
    | 'second_machine'
    | 'unknown_rental'
    | 'volume_deleted'
    | 'second_volume'
    | 'unknown_volume'
  /** Safe to destroy automatically. */
  readonly endIt: boolean
}

export interface DriverComparison {
  readonly machines: number
  readonly orphans: Orphan[]
  readonly volumes: number
  readonly orphanVolumes: Orphan[]
  /** Running in the database, and not listed. */
  readonly missing: Array<{ rentalId: number; status: string }>
  /** Usable in the database, and not listed. */
  readonly missingVolumes: Array<{ volumeId: number; state: string }>
}

/** `newSignal` makes the signal of one call: each list has the whole time of a call, and its rows are read in between. */
export async function compareDriver(app: App, driver: Driver, newSignal: () => AbortSignal): Promise<DriverComparison> {
  const { db } = app.database
  const startedAt = app.clock.now()
  const machines = await driver.list(tagPrefix(app.installationId), newSignal())
  const shownTags = new Set(machines.map((machine) => machine.tag))
  const alive = await listUnreleased(db, driver.id)
  const rows = new Map<number, AuditRow>(
    alive.map(({ id, nonce, external_id }) => [
      id,
      { id, nonce, driver: driver.id, released: false, externalId: external_id },
    ]),
  )
  // Machines of rentals that are released, or have moved to another provider.
  const others = machines.flatMap(({ tag }) => idOfTag(app.installationId, 'rental', tag) ?? [])
  const releasedRows = await findRentalsForAudit(
    db,
    others.filter((id) => !rows.has(id)),
  )
  for (const [id, row] of releasedRows) rows.set(id, row)
  const watched = driver.volumes === undefined ? [] : await listWatchedVolumes(db, driver.id)
  const volumes = (await driver.volumes?.list(tagPrefix(app.installationId), newSignal())) ?? []
  const ready = new Set(volumes.flatMap((volume) => (volume.ready === false ? [] : [volume.externalId])))
  return {
    machines: machines.length,
    volumes: volumes.length,
    orphanVolumes: await orphansAmong(app, volumes),
    orphans: machines.flatMap((machine) => orphanOf(app, machine, rows) ?? []),
    missing: alive
      .filter(
        (row) =>
          rentalStateTable[row.status].billing !== 'none' &&
          !shownTags.has(rentalTag(app, row)) &&
          settled(row.create_asked_at, driver, startedAt),
      )
      .map((row) => ({ rentalId: row.id, status: row.status })),
    missingVolumes: watched
      .filter((row) => !ready.has(row.external_id ?? '') && settled(row.started_at, driver, startedAt))
      .map((row) => ({ volumeId: row.id, state: row.state })),
  }
}

function orphanOf(app: App, machine: DriverMachine, rows: ReadonlyMap<number, AuditRow>): Orphan | undefined {
  const id = idOfTag(app.installationId, 'rental', machine.tag)
  const row = id === undefined ? undefined : rows.get(id)
  const base = { externalId: machine.externalId, tag: machine.tag }
  if (row === undefined || rentalTag(app, row) !== machine.tag) return { ...base, why: 'unknown_rental', endIt: false }
  if (machine.state === 'stopping') return undefined
  if (row.released) return { ...base, why: 'rental_released', endIt: true }
  // If there are duplicates, ours is the one in the database, even if it is already gone. An order that found no room at
  // this driver has gone elsewhere, so its machine here must end.
  const isLeft = row.externalId === null && hadNoRoom(machine)
  if (isLeft || (row.externalId !== null && row.externalId !== machine.externalId)) {
    return { ...base, why: 'second_machine', endIt: true }
  }
  return undefined
}

function settled(askedAt: Instant | null, driver: Driver, now: Instant): boolean {
  return askedAt === null || addMs(askedAt, driver.listLagMs) <= now
}

/** Finds volumes that should not exist: of deleted or failed rows, or duplicates with the same tag. */
async function orphansAmong(app: App, volumes: readonly DriverVolume[]): Promise<Orphan[]> {
  const ids = volumes.flatMap((one) => idOfTag(app.installationId, 'volume', one.tag) ?? [])
  const rows = await readVolumes(app.database.db, ids)
  return volumes.flatMap(({ externalId, tag }): Orphan[] => {
    const id = idOfTag(app.installationId, 'volume', tag)
    if (id === undefined) return []
    const row = rows.get(id)
    if (row === undefined || tagOf(app.installationId, 'volume', row) !== tag) {
      return [{ externalId, tag, why: 'unknown_volume', endIt: false }]
    }
    if (row.state === 'deleted' || row.state === 'failed')
      return [{ externalId, tag, why: 'volume_deleted', endIt: true }]
    if (row.external_id !== null && row.external_id !== externalId)
      return [{ externalId, tag, why: 'second_volume', endIt: true }]
    return []
  })
}
