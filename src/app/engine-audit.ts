/** Compares what an engine shows with the books. `berth audit` prints it, `reap` acts on part of it. */
import type { Instant } from '../base/instant.ts'
import { addMs } from '../base/instant.ts'
import { rentalIdOfTag, tagPrefix } from '../domain/rental.ts'
import type { Driver, EngineMachine } from '../engines/driver.ts'
import { findRentalsForAudit, listUnreleased, type AuditRow } from '../store/rental.ts'
import type { App } from './app.ts'
import { rentalTag } from './rental.ts'

export interface Orphan {
  readonly externalId: string
  readonly tag: string
  readonly why: 'rental_released' | 'second_machine' | 'unknown_rental'
  /** Ours to end without asking. */
  readonly endIt: boolean
}

export interface EngineComparison {
  readonly machines: number
  readonly orphans: Orphan[]
  /** In the books as running, and not shown. */
  readonly missing: Array<{ rentalId: number; status: string }>
}

export async function compareEngine(app: App, driver: Driver, signal: AbortSignal): Promise<EngineComparison> {
  const { db } = app.database
  const startedAt = app.clock.now()
  const shown = await driver.list(tagPrefix(app.installationId), signal)
  const ids = shown.flatMap((machine) => rentalIdOfTag(app.installationId, machine.tag) ?? [])
  const rows = await findRentalsForAudit(db, ids)
  const shownTags = new Set(shown.map((machine) => machine.tag))
  const alive = await listUnreleased(db, driver.id)
  return {
    machines: shown.length,
    orphans: shown.flatMap((machine) => orphanOf(app, machine, rows) ?? []),
    missing: alive
      .filter(
        (row) =>
          (row.status === 'Running' || row.status === 'Unknown') &&
          !shownTags.has(rentalTag(app, row)) &&
          settled(row.create_asked_at, driver, startedAt),
      )
      .map((row) => ({ rentalId: row.id, status: row.status })),
  }
}

function orphanOf(app: App, machine: EngineMachine, rows: ReadonlyMap<number, AuditRow>): Orphan | undefined {
  const id = rentalIdOfTag(app.installationId, machine.tag)
  if (id === undefined) return undefined
  const row = rows.get(id)
  const base = { externalId: machine.externalId, tag: machine.tag }
  if (row === undefined || rentalTag(app, row) !== machine.tag) return { ...base, why: 'unknown_rental', endIt: false }
  if (machine.state === 'stopping') return undefined
  if (row.released) return { ...base, why: 'rental_released', endIt: true }
  // Which of several is ours is known once one of them is in the books; that one may be gone already.
  if (row.externalId !== null && row.externalId !== machine.externalId) {
    return { ...base, why: 'second_machine', endIt: true }
  }
  return undefined
}

function settled(askedAt: Instant | null, driver: Driver, now: Instant): boolean {
  return askedAt === null || addMs(askedAt, driver.listLagMs) <= now
}
