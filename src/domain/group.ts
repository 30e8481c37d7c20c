/** Groups: which machines a group gets, what becomes of it when a node fails, and the addresses of its network. */
import { addMs, MINUTE_MS, SECOND_MS, type Instant } from '../base/instant.ts'
import { sumUsd, type NanoUsd } from '../base/money.ts'
import type { GroupState, OnNodeLoss } from '../contract/group.ts'
import type { RentalState } from '../contract/rental-state.ts'
import type { OrderFields } from './order.ts'
import type { GroupPlace } from './rental.ts'

/** A node is lost when it has been silent for this long. */
const NODE_LOST_MS = 60 * SECOND_MS
/** A group that fails more often than this has another fault than its machines. */
export const MAX_GROUP_RESTARTS = 10
/** Time for machines to become free for a restart. */
const RESTART_WAIT_MS = 10 * MINUTE_MS
export const RESTART_RETRY_MS = 5 * SECOND_MS

/** The order for each node, with its template applied. A restart places the same order again. */
export interface GroupSpec {
  readonly order: OrderFields
  readonly templateId: string | null
  readonly minVramGb: number
  readonly gpuModel?: string | undefined
  readonly clusterName?: string | undefined
  readonly region?: string | undefined
}

/** A machine with all of its GPUs free. */
export interface FreeMachine {
  readonly id: string
  readonly driver: string
  readonly clusterName: string
  readonly region: string
  readonly supplierId: string | null
  readonly gpuModel: string
  /** The name of the network that connects the host with others. Machines of different networks cannot form a group. */
  readonly network: string
  /** null: its provider connects its machines by itself. */
  readonly address: string | null
  readonly mtu: number | null
  readonly price: NanoUsd
}

/**
 * The machines of the cheapest cluster that has enough, by rank. Machines of two suppliers never form a group: each
 * could listen to the other's network.
 */
export function chooseMachines(machines: readonly FreeMachine[], nodes: number): FreeMachine[] | undefined {
  const clusters = new Map<string, FreeMachine[]>()
  for (const machine of machines) {
    const { driver, clusterName, region, supplierId, gpuModel, network } = machine
    const key = JSON.stringify([driver, clusterName, region, supplierId, gpuModel, network])
    clusters.set(key, [...(clusters.get(key) ?? []), machine])
  }
  const candidates = [...clusters.values()]
    .filter((cluster) => cluster.length >= nodes)
    .map((cluster) => cluster.toSorted(comparePrices).slice(0, nodes))
  const [best] = candidates.sort((a, b) => compare(totalOf(a), totalOf(b)) || compare(a[0]?.id ?? '', b[0]?.id ?? ''))
  // Machines are locked in the order of ids, everywhere.
  return best?.sort((a, b) => compare(a.id, b.id))
}

function totalOf(machines: readonly FreeMachine[]): NanoUsd {
  return sumUsd(machines.map(({ price }) => price))
}

function comparePrices(a: FreeMachine, b: FreeMachine): number {
  return compare(a.price, b.price) || compare(a.id, b.id)
}

function compare(a: bigint | string, b: bigint | string): number {
  return a === b ? 0 : a < b ? -1 : 1
}

export interface GroupNode {
  readonly rank: number
  readonly status: RentalState
  readonly statusReason: string | null
  /** The last report of a node whose state is Unknown. */
  readonly seenAt: Instant | null
}

export interface GroupFacts {
  readonly state: GroupState
  readonly stateSince: Instant
  readonly onNodeLoss: OnNodeLoss
  readonly restarts: number
  readonly retryAt: Instant | null
}

export type GroupStep =
  | { readonly kind: 'wait' | 'place' | 'ended' }
  | { readonly kind: 'end' | 'restart'; readonly reason: string; readonly rank: number | null }

/** Decides the next step of a group: wait, end, restart, place new nodes, or finish. */
export function groupStep(group: GroupFacts, nodes: readonly GroupNode[], now: Instant): GroupStep {
  switch (group.state) {
    case 'starting':
    case 'running':
      return stepOfNodes(group, nodes, now)
    case 'restarting':
      if (addMs(group.stateSince, RESTART_WAIT_MS) <= now) return { kind: 'end', reason: 'no_capacity', rank: null }
      return { kind: group.retryAt === null || group.retryAt <= now ? 'place' : 'wait' }
    case 'ending':
      return { kind: nodes.every(({ status }) => status === 'Terminated') ? 'ended' : 'wait' }
    case 'ended':
      return { kind: 'wait' }
  }
}

function stepOfNodes(group: GroupFacts, nodes: readonly GroupNode[], now: Instant): GroupStep {
  if (nodes.every(isCompleted)) return { kind: 'end', reason: 'completed', rank: null }
  const ended = nodes.find((node) => isOver(node) && !isCompleted(node))
  // A customer, or the balance, has ended this node: the other nodes end too, whatever the order says about faults.
  if (ended !== undefined && ended.status !== 'Failed')
    return { kind: 'end', reason: ended.statusReason ?? 'ended', rank: ended.rank }
  const lost = nodes.find(({ status, seenAt }) => status === 'Unknown' && addMs(seenAt ?? now, NODE_LOST_MS) <= now)
  const cause = ended ?? lost
  if (cause === undefined) return { kind: 'wait' }
  const reason = ended === undefined ? 'node_lost' : (ended.statusReason ?? 'ended')
  // A group whose first start fails will most likely fail again.
  const hasRun = group.state === 'running' || group.restarts > 0
  const restarts = group.onNodeLoss === 'restart' && hasRun && group.restarts < MAX_GROUP_RESTARTS
  return { kind: restarts ? 'restart' : 'end', reason, rank: cause.rank }
}

function isOver({ status }: GroupNode): boolean {
  return status === 'Failed' || status === 'Terminating' || status === 'Terminated'
}

/** Whether the command has ended with exit code 0. Other nodes may need a moment longer. */
function isCompleted(node: GroupNode): boolean {
  return isOver(node) && node.statusReason === 'completed'
}

/** The headers of VXLAN, IP and Ethernet. */
const VXLAN_BYTES = 50

/** How the hosts of a group reach each other. undefined: the provider connects them. */
export function networkOf(machines: readonly FreeMachine[]): GroupPlace['network'] {
  const hosts = machines.flatMap(({ address }) => address ?? [])
  if (hosts.length < machines.length) return undefined
  return { hosts, mtu: Math.min(...machines.map(({ mtu }) => mtu ?? 0)) - VXLAN_BYTES }
}

/** The facts that an agent needs to connect a node. undefined: it needs none. */
export function groupOrderOf({ number, rank, nodes, network }: GroupPlace, isOpen: boolean) {
  if (network === undefined) return undefined
  const addresses = Array.from({ length: nodes }, (_, other) => addressOf({ number, rank: other }))
  return { rank, number, mtu: network.mtu, addresses, hosts: [...network.hosts], isOpen }
}

export function hostnameOf(rank: number): string {
  return `node-${rank}`
}

const NETWORKS = 32_768

/** The addresses of a group's network in 10.128.0.0/9, a /24 per group. Groups share no network, so two may have the same. */
export function addressOf({ number, rank }: Pick<GroupPlace, 'number' | 'rank'>): string {
  const net = number % NETWORKS
  return `10.${128 + Math.floor(net / 256)}.${net % 256}.${rank + 1}`
}

/** The name of a node's rental. It contains the attempt, because names are never used again. */
export function nodeName(group: string, rank: number, attempt: number): string {
  return attempt === 0 ? `${group}-${rank}` : `${group}-${rank}-r${attempt}`
}
