/** What operators see and do about prices, machines, rentals and engines, on the wire. */
import { formatInstant, formatInstantOrNull } from '../../base/instant.ts'
import { MAX_INT32 } from '../../base/limits.ts'
import { formatUsd, usd } from '../../base/money.ts'
import { ok } from '../../base/result.ts'
import type { Region } from '../../contract/region.ts'
import { compareEngine } from '../../app/engine-audit.ts'
import { changePriceBook, readPriceBook, type PriceBook } from '../../app/price-book.ts'
import { changeFleetMachine } from '../../app/supply.ts'
import type { Driver } from '../../engines/driver.ts'
import type { App } from '../../app/app.ts'
import { transact } from '../../store/database.ts'
import { listFleet, type Machine } from '../../store/machine.ts'
import { listAllRentals } from '../../store/rental.ts'
import { badCursor, decodeCursor, decodeIdCursor, pageOf, rowsToAsk } from '../cursor.ts'
import type { Handlers } from '../handler.ts'
import { suppliedMachine } from './supply.ts'

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
    const found = await listFleet(app.database.db, {
      ...(after === undefined ? {} : { after }),
      limit: rowsToAsk(query.limit),
    })
    const page = pageOf(found, query.limit, (machine) => machine.id)
    return ok({ machines: page.rows.map(fleetMachine), nextCursor: page.nextCursor })
  },

  changeMachine: async (app, { actor, params, body }) => {
    const { pricePerGpuHourUsd, ...rest } = body
    const price = pricePerGpuHourUsd === undefined ? undefined : usd(pricePerGpuHourUsd)
    const changed = await transact(app.database, (tx) => changeFleetMachine(tx, actor, params.id, { ...rest, price }))
    return changed.ok ? ok(fleetMachine(changed.value)) : changed
  },

  listAllRentals: async (app, { query }) => {
    const before = query.cursor === undefined ? undefined : decodeIdCursor(query.cursor)
    if (query.cursor !== undefined && (before === undefined || before > BigInt(MAX_INT32))) return badCursor()
    const found = await listAllRentals(app.database.db, {
      ...(query.accountId === undefined ? {} : { accountId: query.accountId }),
      ...(query.status === undefined ? {} : { status: query.status }),
      ...(query.stuck === undefined ? {} : { stuck: query.stuck }),
      ...(before === undefined ? {} : { before: Number.parseInt(before.toString(), 10) }),
      limit: rowsToAsk(query.limit),
    })
    const page = pageOf(found, query.limit, (rental) => rental.id)
    return ok({
      rentals: page.rows.map((rental) => ({
        id: rental.id,
        accountId: rental.account_id,
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
      })),
      nextCursor: page.nextCursor,
    })
  },

  auditEngines: async (app) => {
    const engines = await Promise.all([...app.drivers.values()].map((driver) => auditEngine(app, driver)))
    return ok({ ok: engines.every((engine) => engine.reachable && engine.findings.length === 0), engines })
  },
} satisfies Partial<Handlers>

async function auditEngine(app: App, driver: Driver) {
  try {
    const { machines, volumes, orphans, orphanVolumes, missing } = await compareEngine(
      app,
      driver,
      AbortSignal.timeout(driver.callTimeoutMs),
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
          detail: `${row.status} in the books`,
        })),
      ],
    }
  } catch {
    return {
      driver: driver.id,
      reachable: false,
      error: 'the engine did not answer',
      machines: 0,
      volumes: 0,
      findings: [],
    }
  }
}

function fleetMachine(machine: Machine) {
  return { ...suppliedMachine(machine), driver: machine.driver, supplierId: machine.supplier_id }
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
