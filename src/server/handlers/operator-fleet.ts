/** Prices, machines, rentals and engines over HTTP, for operators. */
import { formatInstant, formatInstantOrNull, type Instant } from '../../base/instant.ts'
import { MAX_INT32 } from '../../base/limits.ts'
import { formatUsd, usd } from '../../base/money.ts'
import { ok } from '../../contract/result.ts'
import type { Region } from '../../contract/region.ts'
import { compareEngine } from '../../app/supply/engine-audit.ts'
import { changePriceBook, readPriceBook, type PriceBook } from '../../app/money/price-book.ts'
import { resealPage, type ResealCursor } from '../../app/account/reseal.ts'
import { changeFleetMachine } from '../../app/supply/supply.ts'
import type { Driver } from '../../drivers/driver.ts'
import type { App } from '../../app/app.ts'
import { transact } from '../../store/platform/database.ts'
import { readAccountNames } from '../../store/account/account.ts'
import { listFleet, type Machine } from '../../store/machine/machine.ts'
import { listAllRentals } from '../../store/rental/rental.ts'
import { listAllVolumes, readAttachments } from '../../store/volume/volume.ts'
import { badCursor, decodeCursor, decodeIdCursor, pageOf, rowsToAsk } from '../http/cursor.ts'
import type { Handlers } from '../http/handler.ts'
import { suppliedMachine } from './supply.ts'

const MAX_ERROR_CHARS = 500

export const operatorFleetHandlers = {
  getPriceBook: async (app) => ok(priceBookRecord(await readPriceBook(app.database.db))),

  changePriceBook: async (app, { actor, body }) => {
    const changed = await transact(app.database, (tx) =>
      changePriceBook(tx, actor, {
        gpus: (body.gpus ?? []).map((row) => ({
          machine_type: row.machineType,
          region: row.region,
          gpu_type: row.gpuType,
          network_type: row.networkType,
          gpu_count: row.gpuCount,
          nano_per_gpu_hour: usd(row.perGpuHourUsd),
          enabled: row.enabled,
        })),
        storage: (body.storage ?? []).map((row) => ({
          region: row.region,
          nano_per_gb_hour: usd(row.perGbHourUsd),
          enabled: row.enabled,
        })),
        reserveOptions: (body.reserveOptions ?? []).map((row) => ({ ...row, accountId: row.accountId ?? null })),
        reason: body.reason,
      }),
    )
    return changed.ok ? ok(priceBookRecord(changed.value)) : changed
  },

  listFleet: async (app, { query }) => {
    const after = query.cursor === undefined ? undefined : decodeCursor(query.cursor)
    if (query.cursor !== undefined && after === undefined) return badCursor()
    const { q, offering, status } = query
    const found = await listFleet(app.database.db, {
      q,
      offering,
      status,
      ...(after === undefined ? {} : { after }),
      limit: rowsToAsk(query.limit),
    })
    const page = pageOf(found, query.limit, (machine) => machine.id)
    const nameOf = await readAccountNames(
      app.database.db,
      page.rows.map((machine) => machine.supplier_id),
    )
    return ok({
      machines: page.rows.map((machine) => fleetMachine(machine, nameOf)),
      nextCursor: page.nextCursor,
    })
  },

  changeMachine: async (app, { actor, params, body }) => {
    const { pricePerGpuHourUsd, ...rest } = body
    const price = pricePerGpuHourUsd === undefined ? undefined : usd(pricePerGpuHourUsd)
    const changed = await transact(app.database, (tx) => changeFleetMachine(tx, actor, params.id, { ...rest, price }))
    if (!changed.ok) return changed
    return ok(fleetMachine(changed.value, await readAccountNames(app.database.db, [changed.value.supplier_id])))
  },

  listAllRentals: async (app, { query }) => {
    const before = query.cursor === undefined ? undefined : decodeIdCursor(query.cursor)
    if (query.cursor !== undefined && (before === undefined || before > BigInt(MAX_INT32))) return badCursor()
    const found = await listAllRentals(app.database.db, {
      q: query.q,
      ...(query.accountId === undefined ? {} : { accountId: query.accountId }),
      ...(query.status === undefined ? {} : { status: query.status }),
      ...(query.stuck === undefined ? {} : { stuck: query.stuck }),
      ...(before === undefined ? {} : { before: Number.parseInt(before.toString(), 10) }),
      limit: rowsToAsk(query.limit),
    })
    const page = pageOf(found, query.limit, (rental) => rental.id)
    const nameOf = await readAccountNames(
      app.database.db,
      page.rows.map((rental) => rental.account_id),
    )
    return ok({
      rentals: page.rows.map((rental) => ({
        id: rental.id,
        accountId: rental.account_id,
        accountName: nameOf(rental.account_id),
        kind: rental.kind,
        name: rental.name,
        driver: rental.driver,
        region: rental.region,
        gpuCount: rental.gpu_count,
        status: rental.status,
        statusReason: rental.status_reason,
        statusSince: formatInstant(rental.status_since),
        stuckSince: formatInstantOrNull(rental.stuck_at),
        externalId: rental.external_id,
        attempts: rental.attempts,
        ...lastErrorOf(rental),
      })),
      nextCursor: page.nextCursor,
    })
  },

  listAllVolumes: async (app, { query }) => {
    const before = query.cursor === undefined ? undefined : decodeIdCursor(query.cursor)
    if (query.cursor !== undefined && (before === undefined || before > BigInt(MAX_INT32))) return badCursor()
    const found = await listAllVolumes(app.database.db, {
      ...(query.accountId === undefined ? {} : { accountId: query.accountId }),
      ...(query.state === undefined ? {} : { state: query.state }),
      ...(query.failing === undefined ? {} : { failing: query.failing }),
      ...(before === undefined ? {} : { before: Number.parseInt(before.toString(), 10) }),
      limit: rowsToAsk(query.limit),
    })
    const page = pageOf(found, query.limit, (volume) => volume.id)
    const attachments = await readAttachments(
      app.database.db,
      page.rows.map(({ id }) => id),
    )
    const nameOf = await readAccountNames(
      app.database.db,
      page.rows.map((volume) => volume.account_id),
    )
    return ok({
      volumes: page.rows.map((volume) => ({
        id: volume.id,
        accountId: volume.account_id,
        accountName: nameOf(volume.account_id),
        label: volume.label,
        driver: volume.driver,
        region: volume.region,
        sizeGb: volume.size_gb,
        state: volume.state,
        stateReason: volume.state_reason,
        stateSince: formatInstant(volume.state_since),
        externalId: volume.external_id,
        attempts: volume.attempts,
        ...lastErrorOf(volume),
        attachments: attachments
          .filter((one) => one.volume_id === volume.id)
          .map((one) => ({ rentalId: one.rental_id, state: one.state, ...lastErrorOf(one) })),
      })),
      nextCursor: page.nextCursor,
    })
  },

  resealSecrets: async (app, { actor, body }) => {
    const cursor = body.cursor === undefined ? undefined : readResealCursor(body.cursor)
    if (body.cursor !== undefined && cursor === undefined) return badCursor()
    const page = await resealPage(app, actor, { cursor, limit: body.limit })
    if (!page.ok) return page
    const { next, ...counts } = page.value
    const nextCursor = next === undefined ? null : Buffer.from(JSON.stringify(next)).toString('base64url')
    return ok({ ...counts, unreadable: [...counts.unreadable], nextCursor })
  },

  auditEngines: async (app) => {
    const engines = await Promise.all([...app.drivers.values()].map((driver) => auditEngine(app, driver)))
    return ok({ ok: engines.every((engine) => engine.reachable && engine.findings.length === 0), engines })
  },
} satisfies Partial<Handlers>

function readResealCursor(text: string): ResealCursor | undefined {
  try {
    const read: unknown = JSON.parse(Buffer.from(text, 'base64url').toString())
    const isCursor = Array.isArray(read) && read.length > 0 && read.every((one) => typeof one === 'string')
    return isCursor ? (read as unknown as ResealCursor) : undefined
  } catch {
    return undefined
  }
}

function lastErrorOf(row: { last_error: string | null; last_error_at: Instant | null }) {
  return { lastError: row.last_error, lastErrorAt: formatInstantOrNull(row.last_error_at) }
}

async function auditEngine(app: App, driver: Driver) {
  try {
    const { machines, volumes, orphans, orphanVolumes, missing, missingVolumes } = await compareEngine(
      app,
      driver,
      () => AbortSignal.timeout(driver.callTimeoutMs),
    )
    return {
      driver: driver.id,
      reachable: true,
      error: null,
      machines,
      volumes,
      findings: [
        ...[...orphans, ...orphanVolumes].map((orphan) => ({
          check: orphan.why,
          subject: orphan.tag,
          detail: `${orphan.externalId} at the engine`,
        })),
        ...missing.map((row) => ({
          check: 'not_shown',
          subject: `rental:${row.rentalId}`,
          detail: `${row.status} in the database`,
        })),
        ...missingVolumes.map((row) => ({
          check: 'not_shown',
          subject: `volume:${row.volumeId}`,
          detail: `${row.state} in the database`,
        })),
      ],
    }
  } catch (error) {
    app.warn?.(error, `the audit could not reach the engine ${driver.id}`)
    return {
      driver: driver.id,
      reachable: false,
      error: `The engine did not answer: ${error instanceof Error ? error.message : String(error)}`.slice(
        0,
        MAX_ERROR_CHARS,
      ),
      machines: 0,
      volumes: 0,
      findings: [],
    }
  }
}

function fleetMachine(machine: Machine, nameOf: (accountId: string) => string) {
  const { driver, supplier_id: supplierId } = machine
  const supplierName = supplierId === null ? null : nameOf(supplierId)
  return { ...suppliedMachine(machine), driver, supplierId, supplierName }
}

function priceBookRecord(book: PriceBook) {
  return {
    gpus: book.gpus.map((row) => ({
      machineType: row.machine_type,
      region: row.region as Region,
      gpuType: row.gpu_type,
      networkType: row.network_type,
      gpuCount: row.gpu_count,
      perGpuHourUsd: formatUsd(row.nano_per_gpu_hour),
      enabled: row.enabled,
    })),
    storage: book.storage.map((row) => ({
      region: row.region as Exclude<Region, 'private-cloud'>,
      perGbHourUsd: formatUsd(row.nano_per_gb_hour),
      enabled: row.enabled,
    })),
    reserveOptions: book.reserveOptions.map((row) => ({ ...row })),
  }
}
