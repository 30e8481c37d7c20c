/** Hosts over HTTP, for their owners and for operators. */
import type { Instant } from '../../base/instant.ts'
import { ok } from '../../contract/result.ts'
import type { App } from '../../app/app.ts'
import { addMetalHost, changeHost, changeSuppliedHost, supplierOf } from '../../app/supply/host.ts'
import { createOnce } from '../../app/idempotency.ts'
import { isSilent } from '../../domain/host.ts'
import { transact } from '../../store/platform/database.ts'
import { readAccountNames } from '../../store/account/account.ts'
import { listHostRecords, type HostRecord } from '../../store/host/host-admin.ts'
import { badCursor, decodeCursor, pageOf, rowsToAsk } from '../http/cursor.ts'
import type { Handlers } from '../http/handler.ts'
import { readMetalEntry } from '../hosts/metal-inventory.ts'
import { sealMetal } from '../hosts/metal-world.ts'

export const hostHandlers = {
  listSuppliedHosts: async (app, { actor, query }) => {
    const page = await readHosts(app, { supplierId: supplierOf(actor) }, query)
    if (page === undefined) return badCursor()
    const now = app.clock.now()
    return ok({ hosts: page.rows.map((host) => suppliedHost(host, now)), nextCursor: page.nextCursor })
  },

  changeSuppliedHost: async (app, { actor, params, body }) => {
    const changed = await transact(app.database, (tx) => changeSuppliedHost(tx, actor, params.id, body.state))
    return changed.ok ? ok(suppliedHost(changed.value, app.clock.now())) : changed
  },

  listHosts: async (app, { query }) => {
    const page = await readHosts(app, { q: query.q, state: query.state, driver: query.driver }, query)
    if (page === undefined) return badCursor()
    const now = app.clock.now()
    const nameOf = await readAccountNames(
      app.database.db,
      page.rows.map((host) => host.supplier_id),
    )
    return ok({
      hosts: page.rows.map((host) => ({
        ...operatedHost(host, now),
        supplierName: host.supplier_id === null ? null : nameOf(host.supplier_id),
      })),
      nextCursor: page.nextCursor,
    })
  },

  addHost: (app, { actor, body, operation, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: body }, async (tx) => {
      const entry = readMetalEntry(body)
      if (!entry.ok) return entry
      const { id, offer, address, access, declared } = entry.value
      const result = await addMetalHost(tx, actor.keyId, {
        id,
        offer,
        address,
        access: sealMetal(app, access, declared),
      })
      return result.ok ? ok(operatedHost(result.value, app.clock.now())) : result
    }),

  changeHost: async (app, { actor, params, body }) => {
    const changed = await transact(app.database, (tx) => changeHost(tx, actor, params.id, body))
    return changed.ok ? ok(operatedHost(changed.value, app.clock.now())) : changed
  },
} satisfies Partial<Handlers>

/** undefined: the cursor is not of this list. */
async function readHosts(
  app: App,
  which: Pick<Parameters<typeof listHostRecords>[1], 'supplierId' | 'q' | 'state' | 'driver'>,
  query: { limit: number; cursor?: string | undefined },
) {
  const after = query.cursor === undefined ? undefined : decodeCursor(query.cursor)
  if (query.cursor !== undefined && after === undefined) return undefined
  const hosts = await listHostRecords(app.database.db, {
    ...which,
    ...(after === undefined ? {} : { after }),
    limit: rowsToAsk(query.limit),
  })
  return pageOf(hosts, query.limit, (host) => host.id)
}

export function suppliedHost(host: HostRecord, now: Instant) {
  const { offer, metrics, metrics_at: measuredAt } = host
  return {
    id: host.id,
    driver: host.driver,
    state: host.awaits_cleaning ? ('cleaning_pending' as const) : host.state,
    stateReason: host.state_reason,
    joinedAt: host.created_at,
    seenAt: host.seen_at,
    agentVersion: host.agent_version,
    isSilent: isSilent(host.seen_at, now),
    offering: offer.offering,
    region: offer.region,
    clusterName: offer.clusterName,
    gpuModel: offer.gpuModel,
    gpusTotal: offer.gpusTotal,
    gpusSick: offer.gpusSick,
    simulated: offer.simulated,
    notes: host.notes,
    fault: host.fault,
    tenants: host.tenants,
    metrics:
      metrics === null || measuredAt === null
        ? null
        : {
            at: measuredAt,
            gpus: metrics.gpus,
            cpuPercent: metrics.cpuPercent,
            memoryUsedGb: metrics.memoryUsedGb,
            diskFreeGb: metrics.diskFreeGb,
            ...(metrics.weights === undefined ? {} : { weights: metrics.weights }),
          },
  }
}

function operatedHost(host: HostRecord, now: Instant) {
  return { ...suppliedHost(host, now), supplierId: host.supplier_id, address: host.address }
}
