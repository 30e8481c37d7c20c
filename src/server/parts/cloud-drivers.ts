/**
 * Opens the drivers of other clouds. A driver exists while an account for it is in the database, so accounts that an operator
 * adds are used without a restart, on all servers.
 */
import { z } from 'zod'
import { addMs, instantOf, SECOND_MS, toDate, type Instant } from '../../base/instant.ts'
import type { App, ProviderAttempt, ProviderKind, Providers, TriedAccount } from '../../app/app.ts'
import { resolveProgram } from '../../app/account/secret.ts'
import type { ProviderId } from '../../contract/provider-data.ts'
import { idOfTag, isLiving, tagOf } from '../../domain/rental.ts'
import { emptyWorkload, programOf } from '../../domain/workload.ts'
import type { CloudVendor, Credentials } from '../../drivers/clouds/cloud.ts'
import { cloudDriver, type CloudDriver } from '../../drivers/clouds/driver.ts'
import type { Turns } from '../../drivers/clouds/pacer.ts'
import { crusoe } from '../../drivers/clouds/crusoe/cloud.ts'
import { denvr } from '../../drivers/clouds/denvr/cloud.ts'
import { lambda } from '../../drivers/clouds/lambda/cloud.ts'
import { latitude } from '../../drivers/clouds/latitude/cloud.ts'
import { verda } from '../../drivers/clouds/verda/cloud.ts'
import { voltagePark } from '../../drivers/clouds/voltage-park/cloud.ts'
import type { CloudAccount, CloudWorld } from '../../drivers/clouds/world.ts'
import type { Driver } from '../../drivers/driver.ts'
import type { Reconciler } from '../../reconcile/loop.ts'
import { listPodOrders } from '../../store/rental/pod-order.ts'
import {
  listProviderAccounts,
  listProviderDrivers,
  PROVIDER_WAKE,
  saveProviderHealth,
  type ProviderAccountCosts,
} from '../../store/provider/provider-account.ts'
import { pauseTurns, reserveTurn } from '../../store/provider/provider-turn.ts'
import { findRental } from '../../store/rental/rental.ts'
import { listWatchedVolumes } from '../../store/volume/volume.ts'

/** A new driver adds its vendor here. */
const vendors: readonly CloudVendor[] = [crusoe, denvr, lambda, latitude, verda, voltagePark]

const EVERY_MS = 10 * SECOND_MS
/** The name of an account that is only tried; it is in no id. */
const TRIED = 'tried'

export interface CloudParts {
  readonly app: Pick<App, 'database' | 'clock' | 'vault' | 'installationId'>
  readonly allowPrivate: boolean
  readonly warn: (error: unknown, what: string) => void
}

/** Keeps the drivers of clouds in `drivers`. */
export function openClouds(
  parts: CloudParts,
  drivers: Map<ProviderId, Driver>,
): { loop: Reconciler; providers: Providers; close: () => Promise<void> } {
  const opened: CloudDriver[] = []
  const run = async (): Promise<boolean> => {
    const names = await listProviderDrivers(parts.app.database.db)
    for (const vendor of vendors) {
      if (!names.includes(vendor.id) || drivers.has(vendor.id)) continue
      const { clock } = parts.app
      const { allowPrivate, warn } = parts
      const driver = cloudDriver(vendor, { world: cloudWorld(parts.app, vendor.id), clock, warn, allowPrivate })
      opened.push(driver)
      drivers.set(vendor.id, driver)
      parts.app.database.onCommit(new Set(['inventory']))
    }
    return false
  }
  const close = async (): Promise<void> => {
    await Promise.all(opened.map((driver) => driver.close()))
  }
  const kinds = vendors.map(({ id, title, baseUrl, billing, credentials: fields }) => ({
    provider: id as ProviderKind['provider'],
    title,
    baseUrl,
    billing: {
      from: billing.from,
      incrementSeconds: billing.incrementMs / SECOND_MS,
      minimumSeconds: billing.minimumMs / SECOND_MS,
    },
    credentials: fields.map(({ name, help, optional }) => ({ name, help, ...(optional ? { optional } : {}) })),
  }))
  const refresh = async (): Promise<void> => void (await run())
  const attempt: Providers['attempt'] = (provider, account, signal) => tryAccount(parts, provider, account, signal)
  return { loop: { name: PROVIDER_WAKE, everyMs: EVERY_MS, run }, providers: { kinds, refresh, attempt }, close }
}

/** Opens a driver for one account that is in no database, for as long as it is asked. */
async function tryAccount(
  { app: { clock }, allowPrivate, warn }: CloudParts,
  provider: ProviderKind['provider'],
  tried: TriedAccount,
  signal: AbortSignal,
): Promise<ProviderAttempt> {
  const vendor = vendors.find(({ id }) => id === provider)
  if (vendor === undefined) throw new Error(`no driver for ${provider}`)
  const account: CloudAccount = {
    id: TRIED,
    name: TRIED,
    version: 1,
    preference: 0,
    sellsBelowCost: false,
    closed: null,
    ...tried,
  }
  const world: CloudWorld = {
    accounts: async () => [account],
    programOf: async () => undefined,
    listOrders: async () => [],
    listVolumes: async () => [],
    turnsOf: () => ownTurns(clock),
    report: async () => {},
  }
  const driver = cloudDriver(vendor, { world, clock, warn, allowPrivate })
  try {
    const checks = (await driver.providers.check(TRIED, signal)) ?? []
    const isUsable = checks.every(({ result }) => result !== 'failed')
    return { checks, offers: isUsable ? ((await driver.providers.offers(TRIED, signal)) ?? []) : [] }
  } finally {
    await driver.close()
  }
}

/** The turns of requests that no other server sends. */
function ownTurns(clock: CloudParts['app']['clock']): Turns {
  const nextAt = new Map<string, Instant>()
  return {
    reserve: async (route, everyMs) => {
      const turn = instantOf(Math.max(clock.now(), nextAt.get(route) ?? 0))
      nextAt.set(route, addMs(turn, everyMs))
      return turn
    },
    pause: async (route, until) => void nextAt.set(route, instantOf(Math.max(until, nextAt.get(route) ?? 0))),
  }
}

function cloudWorld(app: CloudParts['app'], driver: ProviderId): CloudWorld {
  const { installationId, vault, clock } = app
  const { db } = app.database
  return {
    accounts: async () => {
      const rows = await listProviderAccounts(db, clock.now(), driver)
      return rows.map((row) => accountOf(row, vault.open(row.credentials_sealed)))
    },
    programOf: async (tag) => {
      const id = idOfTag(installationId, 'rental', tag)
      const rental = id === undefined ? undefined : await findRental(db, id)
      if (rental === undefined || tagOf(installationId, 'rental', rental) !== tag) return undefined
      return resolveProgram(app, rental.id, programOf(rental.spec.workload ?? emptyWorkload))
    },
    listOrders: async (prefix) => {
      const orders = (await listPodOrders(db, driver)).map((order) => ({
        tag: tagOf(installationId, 'rental', order),
        externalId: order.externalId,
        machineId: order.machineId,
        isEnding: !isLiving(order.status),
      }))
      return orders.filter(({ tag }) => tag.startsWith(prefix))
    },
    listVolumes: async (prefix) => {
      const volumes = (await listWatchedVolumes(db, driver)).map((volume) => ({
        tag: tagOf(installationId, 'volume', volume),
        externalId: volume.external_id ?? '',
        vip: volume.vip ?? '',
        attachedTo: [],
      }))
      return volumes.filter(({ tag }) => tag.startsWith(prefix))
    },
    turnsOf: ({ id: accountId }) => ({
      reserve: (route, everyMs) => reserveTurn(db, { accountId, route }, everyMs, clock.now()),
      pause: (route, until) => pauseTurns(db, { accountId, route }, until),
    }),
    report: async (account, fault) => {
      const health = fault === undefined ? 'healthy' : fault.kind
      await saveProviderHealth(db, account.id, { health, reason: fault?.message ?? null, at: toDate(clock.now()) })
    },
  }
}

const credentials = z.record(z.string(), z.string())

function accountOf(row: ProviderAccountCosts, opened: string): CloudAccount {
  const parsed: Credentials = credentials.parse(JSON.parse(opened))
  const isCapped = row.monthly_cap_nano !== null && row.month_nano >= row.monthly_cap_nano
  return {
    id: row.id,
    name: row.name,
    version: row.version,
    baseUrl: row.base_url,
    credentials: parsed,
    regions: row.regions,
    preference: row.preference,
    sellsBelowCost: row.sells_below_cost,
    closed: row.suspended_at !== null ? 'suspended' : isCapped ? 'spending_cap' : null,
  }
}
