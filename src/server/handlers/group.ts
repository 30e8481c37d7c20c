/** Groups of containers over HTTP. Every operation on one group answers with the group as it is then. */
import { MAX_INT32 } from '../../base/limits.ts'
import { sumUsd, zeroUsd } from '../../base/money.ts'
import type { Api } from '../../contract/api.ts'
import type { ResponseOf } from '../../contract/endpoint.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import type { App } from '../../app/app.ts'
import { createGroup, terminateOwnGroup } from '../../app/group/group.ts'
import { createOnce } from '../../app/idempotency.ts'
import { rentalTag } from '../../app/rental/rental.ts'
import { addressOf, hostnameOf } from '../../domain/group.ts'
import { isComingUp } from '../../domain/rental.ts'
import { readWorkloadMessages } from '../../store/host/workload.ts'
import { transact } from '../../store/platform/database.ts'
import { findOwnGroup, listGroups, readLinks, readNodes, type Group } from '../../store/rental/group.ts'
import { readTerms, type Rental } from '../../store/rental/rental.ts'
import { badCursor, decodeIdCursor, pageOf, rowsToAsk } from '../http/cursor.ts'
import type { Handlers } from '../http/handler.ts'

const listed = { exclude: 'not-ended', only: 'ended', include: 'all' } as const

type GroupOnWire = ResponseOf<Api['getGroup']>

export const groupHandlers = {
  listGroups: async (app, { actor, query: { ended, limit, cursor } }) => {
    const before = cursor === undefined ? undefined : decodeIdCursor(cursor)
    if (cursor !== undefined && (before === undefined || before > BigInt(MAX_INT32))) return badCursor()
    const groups = await listGroups(app.database.db, {
      accountId: actor.accountId,
      which: listed[ended],
      ...(before === undefined ? {} : { before }),
      limit: rowsToAsk(limit),
    })
    const { rows, nextCursor } = pageOf(groups, limit, ({ number }) => number)
    return ok({ groups: await showGroups(app, rows), nextCursor })
  },

  getGroup: async (app, { actor, params }) => {
    const group = await findOwnGroup(app.database.db, actor.accountId, params.id)
    return group === undefined ? fail('group_not_found') : answerGroup(app, group)
  },

  createGroup: async (app, { actor, body, operation, idempotencyKey }) =>
    createOnce(app, actor, { key: idempotencyKey, operation, request: body }, async (tx) => {
      const { nodes, gpusPerNode, onNodeLoss, maxCostPerHourUsd, gpuModel, clusterName, region, ...fields } = body
      const group = await createGroup(app, tx, actor, {
        nodes,
        gpusPerNode,
        onNodeLoss,
        maxPerHour: maxCostPerHourUsd ?? null,
        gpuModel,
        clusterName,
        region,
        fields,
      })
      // Inside the transaction, so that a repeated request gets the same answer.
      return group.ok ? answerGroup({ ...app, database: { ...app.database, db: tx.db } }, group.value) : group
    }),

  terminateGroup: async (app, { actor, params }) => {
    const group = await transact(app.database, (tx) => terminateOwnGroup(tx, actor, params.id))
    return group.ok ? answerGroup(app, group.value) : group
  },
} satisfies Partial<Handlers>

async function answerGroup(app: App, group: Group): Promise<Result<GroupOnWire>> {
  const [onWire] = await showGroups(app, [group])
  if (onWire === undefined) throw new Error(`group ${group.id} has no nodes`)
  return ok(onWire)
}

async function showGroups(app: App, groups: readonly Group[]): Promise<GroupOnWire[]> {
  const { db } = app.database
  const nodes = await readNodes(
    db,
    groups.map(({ id }) => id),
  )
  const rentals = [...nodes.values()].flat()
  const [terms, links, messages] = await Promise.all([
    readTerms(
      db,
      rentals.map(({ id }) => id),
    ),
    readLinks(
      db,
      rentals.flatMap(({ external_id: id }) => id ?? []),
    ),
    readWorkloadMessages(
      db,
      rentals.filter(({ status }) => isComingUp(status)).map((rental) => rentalTag(app, rental)),
    ),
  ])
  return groups.map((group) => {
    const ownNodes = (nodes.get(group.id) ?? []).map((rental) => ({
      ...showNode(rental),
      statusMessage: messages.get(rentalTag(app, rental)) ?? null,
      links: (links.get(rental.external_id ?? '') ?? []).map(({ rank, mbps }) => ({ rank, mbps })),
      costPerHourUsd: terms.get(rental.id)?.costPerHour ?? zeroUsd,
    }))
    return {
      id: group.id,
      name: group.name,
      label: group.label,
      state: group.state,
      stateReason: group.state_reason,
      failedRank: group.failed_rank,
      stateSince: group.state_since,
      onNodeLoss: group.on_node_loss,
      restarts: group.restarts,
      gpusPerNode: group.gpus_per_node,
      ...showPlace(nodes.get(group.id)?.[0]),
      costPerHourUsd: sumUsd(ownNodes.map(({ costPerHourUsd }) => costPerHourUsd)),
      nodes: ownNodes,
      createdAt: group.created_at,
      startedAt: group.started_at,
      endedAt: group.ended_at,
    }
  })
}

/** All nodes have the same. */
function showPlace(rental: Rental | undefined) {
  if (rental === undefined) throw new Error('a group has no nodes')
  const { gpuModel, clusterName } = rental.spec
  return { gpuModel, clusterName, region: rental.region }
}

function showNode({ id, name, spec, status, status_reason: statusReason }: Rental) {
  const { group } = spec
  if (group === undefined) throw new Error(`rental ${id} is no node of a group`)
  return {
    rank: group.rank,
    hostname: hostnameOf(group.rank),
    address: addressOf(group),
    rentalId: id,
    rentalName: name,
    machineId: spec.nodes[0]?.machineId ?? '',
    state: status,
    statusReason,
  }
}
