/**
 * The life of a group: it is ordered, started at one instant, restarted and ended. Each function runs in one
 * transaction.
 */
import { addMs, formatInstant, type Instant } from '../../base/instant.ts'
import { formatUsd, sumUsd, type NanoUsd } from '../../base/money.ts'
import type { EventType } from '../../contract/event-type.ts'
import type { OnNodeLoss } from '../../contract/group.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import { groupStep, hostnameOf, RESTART_RETRY_MS, type GroupNode, type GroupSpec } from '../../domain/group.ts'
import type { OrderFields } from '../../domain/order.ts'
import { mayMove } from '../../domain/rental.ts'
import { undoOnFailure, type Tx } from '../../store/platform/database.ts'
import { recordEvent } from '../../store/notice/event.ts'
import {
  findOwnGroup,
  insertGroup,
  lockGroup,
  openGates,
  readNodes,
  updateGroup,
  type Group,
} from '../../store/rental/group.ts'
import { lockRentals, readTerms, type Rental } from '../../store/rental/rental.ts'
import type { Actor, App } from '../app.ts'
import { expandTemplate } from '../account/template.ts'
import { terminateRental } from '../rental/rental.ts'
import { placeNodes } from './place-group.ts'

export interface GroupOrder extends Pick<GroupSpec, 'gpuModel' | 'clusterName' | 'region'> {
  readonly nodes: number
  readonly gpusPerNode: number
  readonly onNodeLoss: OnNodeLoss
  readonly maxPerHour: NanoUsd | null
  readonly fields: Omit<OrderFields, 'gpuCount'>
}

export async function createGroup(app: App, tx: Tx, actor: Actor, groupOrder: GroupOrder): Promise<Result<Group>> {
  const { nodes, gpusPerNode, onNodeLoss, maxPerHour, gpuModel, clusterName, region } = groupOrder
  const expanded = await expandTemplate(tx.db, actor, { ...groupOrder.fields, gpuCount: gpusPerNode })
  if (!expanded.ok) return expanded
  // A node is never stopped alone, so a template's idle rule for one machine does not apply.
  const { idle: _, ...order } = expanded.value.order
  const group = await insertGroup(tx, {
    accountId: actor.accountId,
    personId: actor.personId,
    keyId: actor.keyId,
    label: order.label ?? null,
    nodes,
    gpusPerNode,
    spec: { ...expanded.value, order, gpuModel, clusterName, region },
    maxPerHour,
    onNodeLoss,
  })
  const placed = await placeNodes(app, tx, actor, group, 0)
  if (!placed.ok) return placed
  const costPerHourUsd = formatUsd(await priceOf(tx, placed.value))
  recordGroupEvent(tx, group, 'group.created', { nodes, gpusPerNode, costPerHourUsd })
  return ok(group)
}

/** Terminating an ended group succeeds. */
export async function terminateOwnGroup(tx: Tx, actor: Actor, idOrName: string): Promise<Result<Group>> {
  const lookup = await findOwnGroup(tx.db, actor.accountId, idOrName)
  const group = lookup === undefined ? undefined : await lockGroup(tx, lookup.id)
  if (group === undefined) return fail('group_not_found')
  if (group.state === 'ending' || group.state === 'ended') return ok(group)
  const nodes = await lockNodes(tx, group)
  return ok(await endGroup(tx, group, nodes, { reason: 'customer_request', rank: null }))
}

/** Takes the next step of a group, as `groupStep` decides. */
export async function advanceGroup(app: App, tx: Tx, id: string): Promise<void> {
  const group = await lockGroup(tx, id)
  if (group === undefined) return
  const now = tx.clock.now()
  const { state, state_since: stateSince, on_node_loss: onNodeLoss, restarts, retry_at: retryAt } = group
  const facts = { state, stateSince, onNodeLoss, restarts, retryAt }
  if (state === 'starting') await openGates(tx, group)
  const look = (nodes: readonly Rental[]) => groupStep(facts, nodes.map(nodeOf), now)
  if (look((await readNodes(tx.db, [id])).get(id) ?? []).kind === 'wait') return
  // A node may have changed before it was locked.
  const nodes = await lockNodes(tx, group)
  const step = look(nodes)
  switch (step.kind) {
    case 'wait':
      return
    case 'end':
      await endGroup(tx, group, nodes, step)
      return
    case 'restart':
      await beginRestart(tx, group, nodes, step)
      return
    case 'place':
      await placeRestart(app, tx, group)
      return
    case 'ended':
      await updateGroup(tx, id, { state: 'ended', endedAt: now })
      recordGroupEvent(tx, group, 'group.ended', { reason: group.state_reason })
  }
}

function nodeOf({ spec, status, status_reason: statusReason, seen_at: seenAt }: Rental): GroupNode {
  return { rank: spec.group?.rank ?? 0, status, statusReason, seenAt }
}

/** Locks all nodes before any is changed: a change locks balances, which come after rentals in the lock order. */
async function lockNodes(tx: Tx, group: Group): Promise<Rental[]> {
  const nodes = (await readNodes(tx.db, [group.id])).get(group.id) ?? []
  const locked = await lockRentals(
    tx,
    nodes.map(({ id }) => id),
  )
  return locked.sort((a, b) => (a.spec.group?.rank ?? 0) - (b.spec.group?.rank ?? 0))
}

interface Cause {
  readonly reason: string
  readonly rank: number | null
}

async function endGroup(tx: Tx, group: Group, nodes: readonly Rental[], { reason, rank }: Cause): Promise<Group> {
  await endNodes(tx, nodes)
  recordGroupEvent(tx, group, 'group.ending', { reason, ...causeField(rank) })
  return updateGroup(tx, group.id, { state: 'ending', reason, failedRank: rank })
}

/** Ends the nodes. A lost node is billed up to its last report, the others up to now. */
async function endNodes(tx: Tx, nodes: readonly Rental[]): Promise<void> {
  const now = tx.clock.now()
  for (const node of nodes) if (mayMove(node.status, 'Terminating')) await terminateRental(tx, node, 'group_ended', now)
}

async function beginRestart(tx: Tx, group: Group, nodes: readonly Rental[], { reason, rank }: Cause): Promise<void> {
  await endNodes(tx, nodes)
  const restarts = group.restarts + 1
  recordGroupEvent(tx, group, 'group.restarting', { reason, restarts, ...causeField(rank) })
  await updateGroup(tx, group.id, { state: 'restarting', reason, failedRank: rank, restarts, retryAt: null })
}

/** Places the nodes of a restart. Their machines may become free only when the earlier nodes are gone. */
async function placeRestart(app: App, tx: Tx, group: Group): Promise<void> {
  const payer = { accountId: group.account_id, personId: group.person_id, keyId: group.api_key_id }
  const placed = await undoOnFailure(tx, () => placeNodes(app, tx, payer, group, group.restarts))
  if (placed.ok) {
    await updateGroup(tx, group.id, { state: 'starting', retryAt: null })
    return
  }
  if (placed.reason === 'no_capacity')
    await updateGroup(tx, group.id, { retryAt: addMs(tx.clock.now(), RESTART_RETRY_MS) })
  else await endGroup(tx, group, [], { reason: placed.reason ?? 'no_capacity', rank: null })
}

/**
 * Starts a group whose machines all run, if its nodes are still waiting: `start` opens the bill of each, at one instant.
 * `running`: the rentals whose machines the provider shows running.
 */
export async function startGroup(
  tx: Tx,
  id: string,
  running: ReadonlySet<number>,
  now: Instant,
  start: (rental: Rental) => Promise<void>,
): Promise<void> {
  const group = await lockGroup(tx, id)
  if (group?.state !== 'starting') return
  const nodes = await lockNodes(tx, group)
  if (nodes.length < group.nodes || !nodes.every((node) => node.status === 'Pending' && running.has(node.id))) return
  for (const node of nodes) await start(node)
  await updateGroup(tx, id, { state: 'running', reason: null, failedRank: null, startedAt: group.started_at ?? now })
  recordGroupEvent(tx, group, 'group.running', { at: formatInstant(now), restarts: group.restarts })
}

async function priceOf(tx: Tx, nodes: readonly Rental[]): Promise<NanoUsd> {
  const terms = await readTerms(
    tx.db,
    nodes.map(({ id }) => id),
  )
  return sumUsd([...terms.values()].map(({ costPerHour }) => costPerHour))
}

function causeField(rank: number | null): { node?: string } {
  return rank === null ? {} : { node: hostnameOf(rank) }
}

function recordGroupEvent(
  tx: Tx,
  { id, account_id: accountId, name, label }: Group,
  type: Extract<EventType, `group.${string}`>,
  data: Readonly<Record<string, unknown>>,
): void {
  const subject = { kind: 'group', id } as const
  recordEvent(tx, { accountId, type, subject, data: { groupId: id, name, label, ...data } })
}
