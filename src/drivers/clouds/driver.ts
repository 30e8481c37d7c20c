/**
 * The driver of a cloud, built on the vendor's port (cloud.ts). It serves all accounts at that vendor, which are added
 * and removed while the server runs. When an account does not answer, only its own offers are withdrawn, and its
 * rentals are listed from the database as unreachable, never as gone. The list is an error only if no account answers.
 *
 * Ids name the account: a machine is `<account>/<the vendor's id>`, an offer `<driver>:<account>:<region>:<type>`.
 */
import { usd } from '../../base/money.ts'
import type { RentalSpec } from '../../domain/rental.ts'
import type { CreateOutcome, Driver, DriverMachine, InventoryOffer } from '../driver.ts'
import { Accounts, textOf, type CloudDriverOptions, type OpenedAccount } from './accounts.ts'
import {
  noPower,
  refused,
  type Cloud,
  type CloudMachine,
  type CloudOrder,
  type CloudOutcome,
  type CloudRefusal,
  type CloudVendor,
} from './cloud.ts'
import { CloudError } from './http.ts'
import { mergeOffers, placeOfMachine, reportOffer, sellableOf, type OfferPlace } from './offer.ts'
import { startupScriptOf, userDataOf } from './user-data.ts'
import { cloudVolumes } from './volumes.ts'
import type { CloudAccount, CloudWorld, KnownOrder } from './world.ts'

/** Usually an offer, a key, a script and the machine, and one look-up. */
const REQUESTS_PER_ORDER = 5

export type CloudDriver = Driver &
  Required<Pick<Driver, 'providers' | 'companions'>> & { readonly close: () => Promise<void> }

export function cloudDriver(vendor: CloudVendor, options: CloudDriverOptions): CloudDriver {
  const accounts = new Accounts(vendor, options)
  const { world } = options
  return {
    id: vendor.id,
    traits: {
      simulated: false,
      elastic: true,
      ssh: true,
      logs: false,
      terminal: false,
      metrics: false,
      blindToUse: true,
      ports: 'direct',
      power: vendor.power ?? noPower,
    },
    listLagMs: vendor.listLagMs,
    callTimeoutMs: vendor.callTimeoutMs,
    ...(vendor.startLimitMs === undefined ? {} : { startLimitMs: vendor.startLimitMs }),
    close: () => accounts.close(),
    ...(vendor.volumes === undefined ? {} : { volumes: cloudVolumes(vendor, vendor.volumes, accounts, world) }),
    providers: providersOf(vendor, accounts),
    companions: {
      list: async (tagPrefix, signal) => {
        const answers = await accounts.ask(async ({ account, cloud }) => {
          const companions = await cloud.companions(tagPrefix, signal)
          return companions.map(({ id, ...companion }) => ({ ...companion, externalId: `${account.name}/${id}` }))
        })
        return answers.flatMap(({ value }) => value)
      },
      remove: async ({ externalId, ...companion }, signal) => {
        const { cloud, id } = await accounts.ownerOf(externalId)
        await cloud.removeCompanion({ ...companion, id }, signal)
      },
    },

    async check(signal) {
      signal.throwIfAborted()
      await accounts.ask(({ cloud }) => cloud.list('berth-', signal))
    },
    async inventory(signal) {
      signal.throwIfAborted()
      const answers = await accounts.ask((opened) => offersOf(vendor, opened, world, signal))
      return answers.flatMap(({ value }) => value)
    },
    create: (tag, spec, signal) => createMachine(vendor, accounts, world, { tag, spec }, signal),
    async destroy(externalId, signal) {
      signal.throwIfAborted()
      // An id without an account was never ours, so there is nothing to destroy.
      if (!externalId.includes('/')) return
      const { cloud, id } = await accounts.ownerOf(externalId)
      await cloud.destroy(id, signal)
    },
    list: (tagPrefix, signal) => listMachines(vendor, accounts, options, tagPrefix, signal),
  }
}

function providersOf(vendor: CloudVendor, accounts: Accounts): CloudDriver['providers'] {
  return {
    billing: vendor.billing,
    pausedUntil: (name) => accounts.pausedUntil(name),
    check: async (name, signal) => (await accounts.find(name))?.cloud.check(signal),
    offers: async (name, signal) => {
      const opened = await accounts.find(name)
      if (opened === undefined) return undefined
      const offers = mergeOffers(await opened.cloud.offers(signal))
      return offers.map((offer) => reportOffer(vendor, opened.account, offer))
    },
    resources: async (name, tagPrefix, signal) => {
      const cloud = (await accounts.find(name))?.cloud
      if (cloud === undefined) return undefined
      const machines = await cloud.list(tagPrefix, signal)
      const volumes = (await cloud.volumes?.list(tagPrefix, signal)) ?? []
      const companions = await cloud.companions(tagPrefix, signal)
      return [
        ...machines.map(({ id, tag, state }) => ({ what: 'machine', id, tag, state })),
        ...volumes.map(({ externalId: id, tag }) => ({ what: 'volume', id, tag })),
        ...companions.map(({ id, tag, what }) => ({ what, id, tag })),
      ]
    },
  }
}

async function createMachine(
  vendor: CloudVendor,
  accounts: Accounts,
  world: CloudWorld,
  { tag, spec }: { readonly tag: string; readonly spec: RentalSpec },
  signal: AbortSignal,
): Promise<CreateOutcome> {
  signal.throwIfAborted()
  const place = placeOfMachine(vendor.id, spec.nodes[0]?.machineId ?? '')
  const opened = place === undefined ? undefined : await accounts.find(place.account)
  if (place === undefined || opened === undefined)
    return refused('no_capacity', `There is no account for ${spec.clusterName} any more.`)
  if (opened.account.closed !== null) return refused('no_capacity', `The account ${place.account} takes no new orders.`)
  if (opened.orders >= maxOrders(vendor))
    return { kind: 'postponed', message: `Other orders at the account ${place.account} come first.` }
  opened.orders += 1
  try {
    const order = await prepareOrder(vendor, world, opened, place, { tag, spec }, signal)
    const outcome = order.kind === 'refused' ? order : await create(vendor, opened.cloud, order.order, signal)
    if (outcome.kind === 'refused') return outcome
    return { kind: 'created', externalId: `${place.account}/${outcome.id}` }
  } finally {
    opened.orders -= 1
  }
}

/** Machines of accounts that do not answer are listed as unreachable. */
async function listMachines(
  vendor: CloudVendor,
  accounts: Accounts,
  { world, clock }: CloudDriverOptions,
  tagPrefix: string,
  signal: AbortSignal,
): Promise<DriverMachine[]> {
  signal.throwIfAborted()
  const askedAt = clock.now()
  const answers = await accounts.ask(async (opened) => {
    const machines = await opened.cloud.list(tagPrefix, signal)
    opened.listedAt = askedAt
    return machines.map((machine) => show(vendor, opened.account, machine))
  })
  const answered = new Set(answers.map(({ account }) => account.name))
  const orders = await world.listOrders(tagPrefix)
  const silent = orders.flatMap((order) => unreachable(vendor, accounts, order, answered, tagPrefix) ?? [])
  return [...answers.flatMap(({ value }) => value), ...silent]
}

/**
 * Returns how many orders of an account are placed at once. All of them must get their turns within the time of a call,
 * even if another server places as many. The others are postponed.
 */
function maxOrders({ callTimeoutMs, pace }: CloudVendor): number {
  const orderMs = Math.max(REQUESTS_PER_ORDER * pace.everyMs, ...Object.values(pace.routes ?? {}))
  return orderMs === 0 ? Infinity : Math.max(1, Math.floor(callTimeoutMs / 2 / orderMs))
}

/** Looks the offer up again: it may be sold out or cost more by now. */
async function prepareOrder(
  vendor: CloudVendor,
  world: CloudWorld,
  { cloud }: OpenedAccount,
  { type, region }: OfferPlace,
  { tag, spec }: { readonly tag: string; readonly spec: RentalSpec },
  signal: AbortSignal,
): Promise<CloudRefusal | { readonly kind: 'order'; readonly order: CloudOrder }> {
  const offers = mergeOffers(await cloud.offers(signal))
  const offer = offers.find((one) => one.type === type && one.region === region)
  if (offer === undefined || offer.available === 0)
    return refused('no_capacity', `${vendor.title} has no ${type} in ${region}.`)
  const units = spec.nodes.length
  if (units > 1 && offer.isClustered !== true)
    return refused('no_capacity', `${vendor.title} sells single machines of ${type} only.`)
  const max = spec.maxCostUsdPerGpuHour
  if (max !== undefined && offer.costPerHour * BigInt(units) > usd(max) * BigInt(spec.gpuCount))
    return refused('no_capacity', `${vendor.title} costs more than the order pays.`)
  const program = await world.programOf(tag)
  const userData = userDataOf(tag, spec, program)
  const startupScript = startupScriptOf(tag, spec, program, loginUserOf(vendor, spec))
  return { kind: 'order', order: { tag, offer, units, spec, userData, startupScript } }
}

/**
 * Creates the machine, and after a refusal removes what was created for it. What cannot be removed now is removed
 * later, with the companions of ended orders.
 */
async function create(
  vendor: CloudVendor,
  cloud: Cloud,
  order: CloudOrder,
  signal: AbortSignal,
): Promise<CloudOutcome> {
  const outcome = await cloud.create(order, signal).catch((error: unknown) => {
    const refusal = vendor.refusalOf(error)
    if (refusal === undefined) throw error
    return { ...refusal, detail: textOf(error) }
  })
  if (outcome.kind === 'refused') {
    const companions = await cloud.companions(order.tag, signal).catch(() => [])
    const ours = companions.filter(({ tag }) => tag === order.tag)
    await Promise.allSettled(ours.map((one) => cloud.removeCompanion(one, signal)))
  }
  return outcome
}

async function offersOf(
  vendor: CloudVendor,
  { account, cloud }: OpenedAccount,
  world: CloudWorld,
  signal: AbortSignal,
): Promise<InventoryOffer[]> {
  try {
    const offers = mergeOffers(await cloud.offers(signal))
    await world.report(account, undefined)
    if (account.closed !== null) return []
    return offers.flatMap((offer) => {
      const sellable = sellableOf(vendor, account, offer)
      return sellable.kind === 'sold' ? [sellable.item] : []
    })
  } catch (error) {
    signal.throwIfAborted()
    const needsOperator = error instanceof CloudError && (error.status === 401 || error.status === 403)
    await world.report(account, { kind: needsOperator ? 'broken' : 'stale', message: textOf(error) })
    throw error
  }
}

function show(vendor: CloudVendor, account: CloudAccount, machine: CloudMachine): DriverMachine {
  const { id, costPerHour, data, ...facts } = machine
  return {
    ...facts,
    externalId: `${account.name}/${id}`,
    ...(costPerHour === undefined ? {} : { cost: { account: account.name, perHour: costPerHour, ...vendor.billing } }),
    ...(data === undefined ? {} : { data: { externalId: id, ...data } }),
  }
}

/**
 * Shows an order at an account that does not answer. An order whose create may still be in flight is not listed; if the
 * caller asked for that order alone, this throws, since its outcome is unknown.
 */
function unreachable(
  vendor: CloudVendor,
  accounts: Accounts,
  { tag, machineId, externalId, isEnding }: KnownOrder,
  answeredAccounts: ReadonlySet<string>,
  tagPrefix: string,
): DriverMachine | undefined {
  const name = externalId?.split('/')[0] ?? placeOfMachine(vendor.id, machineId)?.account ?? ''
  if (answeredAccounts.has(name)) return undefined
  if (externalId === null && !isEnding) {
    if (tagPrefix === tag) throw new Error(`The account ${name} does not answer.`)
    return undefined
  }
  const listedAt = accounts.listedAt(name)
  return {
    tag,
    externalId: externalId ?? `${name}/`,
    state: 'unreachable',
    message: `${vendor.title} does not answer for the account ${name}, so the state of the machine is not known.`,
    ...(listedAt === undefined ? {} : { seenAt: listedAt }),
  }
}

function loginUserOf(vendor: CloudVendor, spec: RentalSpec): string {
  return (spec.kind === 'bare-metal' ? vendor.metalLoginUser : undefined) ?? vendor.loginUser
}
