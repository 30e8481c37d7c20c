/** Hosts over HTTP: joining, owners, the operator, images and placement. */
import { installCommand } from '../../base/install-command.ts'
import { formatInstant, formatInstantOrNull, type Instant } from '../../base/instant.ts'
import { ok } from '../../contract/result.ts'
import type { App } from '../../app/app.ts'
import { addBaseImage, MAX_BASE_IMAGES, removeBaseImage } from '../../app/supply/base-image.ts'
import {
  addMetalHost,
  changeHost,
  changeSuppliedHost,
  createJoinToken,
  joinHost,
  revokeJoinToken,
  supplierOf,
} from '../../app/supply/host.ts'
import { createOnce } from '../../app/idempotency.ts'
import { explainPlacement } from '../../app/order/placement-report.ts'
import type { OfferHistory } from '../../domain/offer-history.ts'
import { whyLater, type PlacementMachine } from '../../domain/placement.ts'
import { formatUsd } from '../../base/money.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { isSilent } from '../../domain/host.ts'
import { listBaseImages, type BaseImage } from '../../store/host/base-image.ts'
import { transact } from '../../store/platform/database.ts'
import { readAccountNames } from '../../store/account/account.ts'
import { listHostRecords, type HostRecord } from '../../store/host/host-admin.ts'
import { listJoinTokens, type JoinToken } from '../../store/host/join-token.ts'
import { badCursor, decodeCursor, pageOf, rowsToAsk } from '../http/cursor.ts'
import type { Handlers } from '../http/handler.ts'
import { readMetalEntry } from '../hosts/metal-inventory.ts'
import { sealMetal } from '../hosts/metal-world.ts'

export const hostHandlers = {
  joinHost: async (app, { body }) => {
    const joined = await transact(app.database, (tx) => joinHost(tx, body))
    return joined.ok ? ok({ hostId: joined.value, installation: app.installationId }) : joined
  },

  listJoinTokens: async (app, { actor, query }) => {
    const after = query.cursor === undefined ? undefined : decodeCursor(query.cursor)
    if (query.cursor !== undefined && after === undefined) return badCursor()
    const found = await listJoinTokens(app.database.db, {
      accountId: actor.accountId,
      ...(after === undefined ? {} : { after }),
      limit: rowsToAsk(query.limit),
    })
    const page = pageOf(found, query.limit, (token) => token.id)
    return ok({ tokens: page.rows.map(tokenRecord), nextCursor: page.nextCursor })
  },

  createJoinToken: (app, { actor, body, operation, idempotencyKey, baseUrl }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: body }, async (tx) => {
      const made = await createJoinToken(tx, actor, body)
      if (!made.ok) return made
      const { token, text } = made.value
      const command =
        baseUrl === undefined ? `berth agent join --token ${text}` : installCommand(baseUrl, { token: text })
      return ok({ ...tokenRecord(token), token: text, command })
    }),

  revokeJoinToken: async (app, { actor, params }) => {
    const revoked = await transact(app.database, (tx) => revokeJoinToken(tx, actor, params.id))
    return revoked.ok ? ok({ message: 'Join token revoked' }) : revoked
  },

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
      const added = await addMetalHost(tx, actor.keyId, {
        id,
        offer,
        address,
        access: sealMetal(app, access, declared),
      })
      return added.ok ? ok(operatedHost(added.value, app.clock.now())) : added
    }),

  changeHost: async (app, { actor, params, body }) => {
    const changed = await transact(app.database, (tx) => changeHost(tx, actor, params.id, body))
    return changed.ok ? ok(operatedHost(changed.value, app.clock.now())) : changed
  },

  listBaseImages: async (app) =>
    ok({ images: (await listBaseImages(app.database.db, MAX_BASE_IMAGES)).map(imageRecord) }),

  addBaseImage: (app, { actor, body, operation, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: body }, async (tx) => {
      const { loginUser: login_user, isDefault: is_default, ...image } = body
      const added = await addBaseImage(tx, actor, { ...image, login_user, is_default })
      return added.ok ? ok(imageRecord(added.value)) : added
    }),

  deleteBaseImage: async (app, { actor, params }) => {
    const removed = await transact(app.database, (tx) => removeBaseImage(tx, actor, params.id))
    return removed.ok ? ok({ message: 'Image removed; new machines no longer use it' }) : removed
  },

  explainPlacement: async (app, { body }) => {
    const { candidates, rejected, ...report } = await explainPlacement(app, body)
    return ok({
      ...report,
      candidates: candidates.map((machine, at) => candidateOnWire(machine, at === 0 ? undefined : candidates[0])),
      rejected: rejected.map(({ machine, reason, detail }) => ({
        machineId: machine.machineId,
        driver: machine.driver,
        reason,
        detail,
      })),
    })
  },
} satisfies Partial<Handlers>

type Candidate = ResponseOf<Api['explainPlacement']>['candidates'][number]

function candidateOnWire(machine: PlacementMachine, first: PlacementMachine | undefined): Candidate {
  const { machineId, driver, clusterName, gpusFree, gpusTotal, cost, preference, history } = machine
  return {
    machineId,
    driver,
    clusterName,
    gpusFree,
    gpusTotal,
    order: first === undefined ? 'first' : whyLater(first, machine),
    costPerGpuHourUsd: cost === null ? null : formatUsd(cost),
    preference,
    history: history === null ? null : historyOnWire(history),
  }
}

function historyOnWire({ made, noCapacity, failed, startMs, lowest, highest }: OfferHistory): Candidate['history'] {
  return {
    made,
    noCapacity,
    failed,
    startSeconds: startMs === null ? null : Math.round(startMs / 1_000),
    lowest,
    highest,
  }
}

/** undefined: not a cursor of this list. */
async function readHosts(
  app: App,
  which: Pick<Parameters<typeof listHostRecords>[1], 'supplierId' | 'q' | 'state' | 'driver'>,
  query: { limit: number; cursor?: string | undefined },
) {
  const after = query.cursor === undefined ? undefined : decodeCursor(query.cursor)
  if (query.cursor !== undefined && after === undefined) return undefined
  const found = await listHostRecords(app.database.db, {
    ...which,
    ...(after === undefined ? {} : { after }),
    limit: rowsToAsk(query.limit),
  })
  return pageOf(found, query.limit, (host) => host.id)
}

function tokenRecord(token: JoinToken) {
  return {
    id: token.id,
    createdAt: formatInstant(token.created_at),
    expiresAt: formatInstant(token.expires_at),
    usesLeft: token.uses_left,
    supplierId: token.supplier_id,
  }
}

export function suppliedHost(host: HostRecord, now: Instant) {
  const { offer, metrics, metrics_at: measuredAt } = host
  return {
    id: host.id,
    driver: host.driver,
    state: host.awaits_cleaning ? ('cleaning_pending' as const) : host.state,
    stateReason: host.state_reason,
    joinedAt: formatInstant(host.created_at),
    seenAt: formatInstantOrNull(host.seen_at),
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
            at: formatInstant(measuredAt),
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

function imageRecord(image: BaseImage) {
  return {
    name: image.name,
    arch: image.arch,
    source: image.source,
    sha256: image.sha256,
    loginUser: image.login_user,
    isDefault: image.is_default,
    createdAt: formatInstant(image.created_at),
  }
}
