/**
 * Decides which replicas of a managed deployment start, drain and end. A pure function of the facts, so every case
 * can be tested without a machine. Rules: a new version is ready before the old one drains; a failed version leaves the
 * last ready one serving; draining stops the routing first and waits for the requests; failures back off.
 */
import { addMs, HOUR_MS, MINUTE_MS, SECOND_MS, type Instant } from '../base/instant.ts'
import { limits } from '../base/limits.ts'
import { zeroUsd, type NanoUsd } from '../base/money.ts'
import type { DeploymentStatus, ReplicaState } from '../contract/managed-deployment.ts'
import type { RentalState } from '../contract/rental-state.ts'
import { isMeantToRun } from './rental.ts'
import type { ServedAdapter } from './recipe.ts'
import type { ReplicaProtocol } from './recipe-engine-type.ts'

/** How gateways talk to a replica. */
export interface ReplicaEndpoint {
  readonly port: number
  readonly protocol: ReplicaProtocol
  readonly concurrency: number
  /** The name of the model in the engine. */
  readonly upstreamModel: string
  readonly readsMetrics: boolean
  /** LoRA adapters that it has loaded. */
  readonly adapters?: readonly ServedAdapter[]
}

/** A gateway's report about a replica. */
interface ReplicaLoad {
  readonly inFlight: number
  /** The gateway sends it nothing new. */
  readonly isUnrouted: boolean
  /** The requests of this gateway that the replica should have before another is rented. */
  readonly target?: number
  /** The engine produces nothing although requests wait in it, and did not answer a check. */
  readonly isStuck?: true
}

export type ReplicaLoads = Readonly<Record<string, ReplicaLoad>>

export interface ReplicaFacts {
  readonly id: string
  readonly version: number
  readonly state: Exclude<ReplicaState, 'ended'>
  readonly createdAt: Instant
  /** null: it has not answered yet. */
  readonly readyAt: Instant | null
  readonly drainingAt: Instant | null
  readonly rental: { readonly status: RentalState; readonly since: Instant }
  /** Requests in flight at all gateways. */
  readonly inFlight: number
  /** Every gateway has confirmed that it sends nothing new. */
  readonly isUnrouted: boolean
  /** Whether a gateway has found the engine stuck. */
  readonly isStuck?: boolean
}

export interface ServingFacts {
  readonly replicas: readonly ReplicaFacts[]
  readonly desired: number
  readonly version: number
  /** null: no version was ready yet. */
  readonly readyVersion: number | null
  /** The rollout of the newest version was stopped. */
  readonly isVersionFailed: boolean
  readonly inPlace: boolean
  readonly isDeleted: boolean
  /** Starts that failed in a row, and the last of them. */
  readonly failures: number
  readonly failedAt: Instant | null
  /** The last order that found no machine, and whether that was for lack of GPUs. null: none since the last success. */
  readonly blocked: { readonly at: Instant; readonly noCapacity: boolean } | null
  readonly startMs: number
  readonly drainMs: number
}

export type ReplicaEnd =
  | 'drained'
  | 'drain_timed_out'
  | 'not_needed'
  | 'replaced'
  | 'deleted'
  | 'rental_ended'
  | 'contact_lost'
  | 'start_timed_out'
  | 'stuck'

export type ServingAction =
  | { readonly kind: 'start'; readonly version: number }
  | { readonly kind: 'drain'; readonly replicaId: string; readonly why: ReplicaEnd }
  /** `isFailure`: the replica never answered, which counts against its version. */
  | { readonly kind: 'end'; readonly replicaId: string; readonly why: ReplicaEnd; readonly isFailure: boolean }

/** Gateways write their load while they have requests; an older row belongs to a gateway that is gone. */
export const LOAD_MS = 5 * SECOND_MS
/** A host that reconnects within this time keeps its replica. */
const CONTACT_MS = 20 * SECOND_MS
const FIRST_BACK_OFF_MS = 10 * SECOND_MS
const MAX_BACK_OFF_MS = 5 * MINUTE_MS
/** A replica that has served for this long did not fail to start. */
export const PROVEN_MS = MINUTE_MS
/** The delay after an order that found no machine. */
const RETRY_ORDER_MS = 5 * SECOND_MS
/** The crash loop of a deployment that never worked ends after about 20 minutes. */
const MAX_START_FAILURES = 8
/** A rollout gives up earlier: the old version serves meanwhile. */
const MAX_ROLLOUT_FAILURES = 3
/** New replicas per pass, so that a typo in `max` does not order a thousand at once. */
const MAX_STARTS = 16

/** After this many failures in a row the operator is notified, unless the version is given up first. */
export const TOLD_FAILURES = 3
/** The same news about a deployment is sent again only after this time. */
const TELL_AGAIN_MS = HOUR_MS

/** When each kind of news was last sent. */
export type Told = Readonly<Record<string, Instant>>

export function isNews(lastTold: Told, kind: string, now: Instant): boolean {
  const at = lastTold[kind]
  return at === undefined || addMs(at, TELL_AGAIN_MS) <= now
}

/** 10 s, 20 s, 40 s … up to 5 minutes. */
export function backOffMs(failures: number): number {
  return failures === 0 ? 0 : Math.min(MAX_BACK_OFF_MS, FIRST_BACK_OFF_MS * 2 ** Math.min(failures - 1, 10))
}

/** Whether so many failures end the rollout of the version. */
export function isGivenUp(failures: number, hasReadyVersion: boolean): boolean {
  return failures >= (hasReadyVersion ? MAX_ROLLOUT_FAILURES : MAX_START_FAILURES)
}

export function planServing(facts: ServingFacts, now: Instant): ServingAction[] {
  const lost = facts.replicas.flatMap((one) => lostAction(one, facts, now) ?? [])
  const isLost = new Set(lost.map((action) => ('replicaId' in action ? action.replicaId : '')))
  const living = facts.replicas.filter(({ id }) => !isLost.has(id))
  const drained = living.flatMap((one) => drainedAction(one, facts.drainMs, now) ?? [])
  const serving = living.filter(({ state }) => state !== 'draining')
  if (facts.isDeleted) return [...lost, ...drained, ...serving.map((one) => remove(one, 'deleted'))]
  return [...lost, ...drained, ...balance(facts, serving, now)]
}

/** Ends a replica whose rental has ended, or that does not come up. */
function lostAction(one: ReplicaFacts, { startMs }: ServingFacts, now: Instant): ServingAction | undefined {
  const { status, since } = one.rental
  // Otherwise a replica that ends right after its first answer would be replaced without end.
  const isFailure = one.readyAt === null || addMs(one.readyAt, PROVEN_MS) > now
  const end = (why: ReplicaEnd): ServingAction => ({ kind: 'end', replicaId: one.id, why, isFailure })
  if (!isMeantToRun(status)) return end('rental_ended')
  if (status === 'Unknown' && addMs(since, CONTACT_MS) <= now) return lostContact(one)
  if (one.state === 'starting' && addMs(one.createdAt, startMs) <= now) return end('start_timed_out')
  if (one.state === 'ready' && one.isStuck === true) return end('stuck')
  return undefined
}

/** Lost contact is the fault of the host, not of the version. */
function lostContact({ id }: ReplicaFacts): ServingAction {
  return { kind: 'end', replicaId: id, why: 'contact_lost', isFailure: false }
}

function drainedAction(one: ReplicaFacts, drainMs: number, now: Instant): ServingAction | undefined {
  if (one.state !== 'draining' || one.drainingAt === null) return undefined
  const end = (why: ReplicaEnd): ServingAction => ({ kind: 'end', replicaId: one.id, why, isFailure: false })
  if (one.isUnrouted && one.inFlight === 0) return end('drained')
  return addMs(one.drainingAt, drainMs) <= now ? end('drain_timed_out') : undefined
}

/** Nothing was ever sent to a replica that is starting, so it ends at once. */
function remove({ id, state }: ReplicaFacts, why: ReplicaEnd): ServingAction {
  return state === 'starting'
    ? { kind: 'end', replicaId: id, why, isFailure: false }
    : { kind: 'drain', replicaId: id, why }
}

function balance(facts: ServingFacts, serving: readonly ReplicaFacts[], now: Instant): ServingAction[] {
  const { desired } = facts
  const version = facts.isVersionFailed ? facts.readyVersion : facts.version
  const current = serving.filter((one) => one.version === version)
  const others = serving.filter((one) => one.version !== version)
  const old = others.filter(({ state }) => state === 'ready')
  // Replicas of another version that never answered are of no use to anyone.
  const useless = others.filter(({ state }) => state === 'starting').map((one) => remove(one, 'replaced'))
  const ready = current.filter(({ state }) => state === 'ready').length
  const surplusOld = leastBusy(old).slice(0, Math.max(0, old.length - Math.max(0, desired - ready)))
  const surplus = [...newestStarting(current), ...leastBusy(current.filter(({ state }) => state === 'ready'))]
    .slice(0, Math.max(0, current.length - desired))
    .map((one) => remove(one, 'not_needed'))
  const makeRoom = roomFor(facts, { ready, current, old, surplusOld })
  const starts = version === null ? [] : startsOf(facts, version, { current, old }, now)
  return [...useless, ...surplus, ...surplusOld.map((one) => remove(one, 'replaced')), ...makeRoom, ...starts]
}

/** Without a spare GPU, an in-place rollout ends one old replica at a time. */
function roomFor(
  { blocked, inPlace, replicas, desired }: ServingFacts,
  now: {
    ready: number
    current: readonly ReplicaFacts[]
    old: readonly ReplicaFacts[]
    surplusOld: readonly unknown[]
  },
): ServingAction[] {
  const isStuck = blocked?.noCapacity === true && now.current.length < desired && now.old.length > 0
  const isBusy =
    now.surplusOld.length > 0 || now.current.length > now.ready || replicas.some((one) => one.state === 'draining')
  if (!inPlace || !isStuck || isBusy) return []
  return leastBusy(now.old)
    .slice(0, 1)
    .map((one) => remove(one, 'replaced'))
}

function startsOf(
  facts: ServingFacts,
  version: number,
  { current, old }: { current: readonly ReplicaFacts[]; old: readonly ReplicaFacts[] },
  now: Instant,
): ServingAction[] {
  const { desired, failures, failedAt, blocked, readyVersion } = facts
  const missing = desired - current.length
  const isGoingOn = !facts.isVersionFailed && version === facts.version
  if (missing <= 0 || (isGoingOn && isGivenUp(failures, readyVersion !== null && readyVersion !== version))) return []
  // A version that was ready once and then failed too often has nothing to fall back to.
  if (facts.isVersionFailed && version === facts.version) return []
  if (failedAt !== null && addMs(failedAt, backOffMs(failures)) > now) return []
  if (blocked !== null && addMs(blocked.at, RETRY_ORDER_MS) > now) return []
  // A rollout adds one replica at a time, and so does a version that has failed before.
  const isCareful = old.length > 0 || failures > 0
  const starting = current.filter(({ state }) => state === 'starting').length
  const count = isCareful ? Math.max(0, 1 - starting) : Math.min(missing, MAX_STARTS)
  return Array.from({ length: Math.min(count, missing) }, () => ({ kind: 'start', version }))
}

function leastBusy(replicas: readonly ReplicaFacts[]): ReplicaFacts[] {
  return replicas.toSorted((a, b) => a.inFlight - b.inFlight || b.createdAt - a.createdAt || (a.id < b.id ? -1 : 1))
}

function newestStarting(replicas: readonly ReplicaFacts[]): ReplicaFacts[] {
  return replicas.filter(({ state }) => state === 'starting').toSorted((a, b) => b.createdAt - a.createdAt)
}

export interface StatusFacts {
  readonly isDeleted: boolean
  readonly ready: number
  readonly starting: number
  readonly desired: number
  /** Why the newest version was given up. */
  readonly failed: string | null
  /** Why the last order failed. */
  readonly blocked: string | null
  /** The result of the last readiness check of a replica. */
  readonly startingDetail: string | null
}

/** The state of a deployment in one word, and what it waits for or why it failed. */
export function deploymentStatusOf(facts: StatusFacts): { status: DeploymentStatus; message: string | null } {
  if (facts.isDeleted) return { status: 'deleting', message: null }
  // The old version serves while the new one has failed or finds no machine.
  const message = facts.failed ?? facts.blocked
  if (facts.ready > 0) return { status: 'ready', message }
  if (facts.failed !== null) return { status: 'failed', message }
  if (facts.starting > 0) return { status: 'starting', message: facts.startingDetail ?? facts.blocked }
  return facts.desired > 0 ? { status: 'waiting', message } : { status: 'idle', message: null }
}

/** How many replicas an hourly budget covers, at the highest current price. */
export function affordableReplicas(budget: NanoUsd | null, prices: readonly NanoUsd[]): number {
  const dearest = prices.reduce((highest, price) => (price > highest ? price : highest), zeroUsd)
  if (budget === null || dearest === 0n) return Infinity
  let count = 0
  for (
    let remaining: bigint = budget;
    remaining >= dearest && count < limits.replicasPerDeployment;
    remaining -= dearest
  )
    count += 1
  return count
}
