/** Groups (v2): containers on several whole machines of one cluster, ordered, started and ended together. */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { endpoint } from './endpoint.ts'
import { imageName, imageTag } from './rental-order.ts'
import { idOrNameParams } from './rental-session.ts'
import { rentalState } from './rental.ts'
import { labelText, nonNegativeUsd, time, timestamp, usdAmount } from './shared.ts'
import { metadata, orderFields, workloadPorts } from './workload.ts'

export const groupState = z
  .enum(['starting', 'running', 'restarting', 'ending', 'ended'])
  .meta({ id: 'GroupState' })
  .describe('`starting`: until every node is ready; nothing is charged. `restarting`: new nodes are ordered')
export type GroupState = z.output<typeof groupState>

export const onNodeLoss = z.enum(['end', 'restart'])
export type OnNodeLoss = z.output<typeof onNodeLoss>

const { templateId, secrets, env, files, command, args, onStart, diskGb, shmGb, restart, registryCredentialId } =
  orderFields

/** The fields of the program that every node runs, the same as in an order of a container. */
const nodeFields = {
  image: z
    .strictObject({ name: imageName, tag: imageTag.optional() })
    .optional()
    .describe("Absent: that of the template, or the supplier's default"),
  templateId,
  secrets,
  env,
  files,
  command,
  args,
  onStart,
  diskGb,
  shmGb,
  restart,
  registryCredentialId,
  ports: workloadPorts.optional().describe('Ports to expose, of each node'),
  label: labelText.optional(),
  autoTerminateAt: time.optional().describe('Terminates the group at this time (ISO 8601)'),
  metadata: metadata.optional(),
}

const groupOrder = z
  .strictObject({
    nodes: z.int().min(limits.groupNodesMin).max(limits.groupNodes).describe('Machines, with one container each'),
    gpusPerNode: z.int().min(1).max(64).describe('Machines with as many GPUs are rented whole'),
    gpuModel: z
      .string()
      .min(1)
      .max(100)
      .optional()
      .describe('Part of the GPU name in any case, spaces and hyphens ignored, such as `rtx4090`; default: any'),
    clusterName: z.string().min(1).max(100).optional().describe('Cluster of the machines; default: the cheapest'),
    region: z.string().min(1).max(100).optional().describe('Region of the machines; default: any'),
    maxCostPerHourUsd: nonNegativeUsd
      .optional()
      .describe('Rejects the order if all nodes together would cost more per hour (USD)'),
    onNodeLoss: onNodeLoss
      .default('end')
      .describe(
        'What happens when a node fails, or has been lost for 60 seconds: the group ends, or starts again on new machines',
      ),
    ...nodeFields,
  })
  .meta({ id: 'CreateGroup' })

const groupNode = z
  .object({
    rank: z.int().describe('Node 0 is the head'),
    hostname: z.string().describe('Its name in the network of the group'),
    address: z.string().describe('Its address in the network of the group'),
    rentalId: z.int(),
    rentalName: z.string().describe('For commands such as `berth ssh`'),
    machineId: z.string(),
    state: rentalState,
    statusReason: z.string().nullable(),
    statusMessage: z.string().nullable().describe('Progress while it starts'),
    costPerHourUsd: usdAmount,
    links: z
      .array(z.object({ rank: z.int(), mbps: z.number() }))
      .describe('Speed to each other node in Mbit/s, measured before the start'),
  })
  .meta({ id: 'GroupNode' })

const group = z
  .object({
    id: z.string(),
    name: z.string().describe('Unique; the rentals of its nodes have it as a prefix'),
    label: z.string().nullable(),
    state: groupState,
    stateReason: z.string().nullable().describe('Why it restarts or ends; stable, for programs'),
    failedRank: z.int().nullable().describe('The node that is the cause'),
    stateSince: timestamp,
    onNodeLoss,
    restarts: z.int(),
    gpusPerNode: z.int(),
    gpuModel: z.string(),
    clusterName: z.string(),
    region: z.string(),
    costPerHourUsd: usdAmount.describe('Of all nodes, while it runs'),
    nodes: z.array(groupNode).describe('By rank. After a restart, the new ones'),
    createdAt: timestamp,
    startedAt: timestamp.nullable().describe('When all nodes first ran; the price of each begins at one instant'),
    endedAt: timestamp.nullable(),
  })
  .meta({ id: 'Group' })

const groups = { family: 'v2', tag: 'Rentals', path: '/v2/groups' } as const
const oneGroup = {
  ...groups,
  path: '/v2/groups/{id}',
  errors: [400, 401, 403, 404, 500],
  params: idOrNameParams,
} as const

export const groupEndpoints = {
  listGroups: endpoint({
    ...groups,
    method: 'GET',
    access: ['compute:read'],
    summary: 'List your groups of containers, newest first',
    errors: [400, 401, 403, 500],
    query: z.strictObject({
      ended: z.enum(['exclude', 'only', 'include']).default('exclude').describe('Whether the list has ended groups'),
      limit: z.coerce.number().int().min(1).max(limits.groupRows).default(limits.groupRows),
      cursor: z.string().max(200).optional().describe('`nextCursor` from the previous page'),
    }),
    response: z.object({ groups: z.array(group), nextCursor: z.string().nullable() }),
  }),
  getGroup: endpoint({
    ...oneGroup,
    method: 'GET',
    access: ['compute:read'],
    summary: 'Get a group with its nodes',
    response: group,
  }),
  createGroup: endpoint({
    needsTerms: true,
    ...groups,
    method: 'POST',
    access: ['compute:write'],
    summary: 'Rent several whole machines with a private network, one container on each',
    description:
      'All nodes are ordered together or none is. Commands and prices begin when every node has its image and reaches every other node; a group that fails before costs nothing.',
    errors: [400, 401, 403, 404, 500],
    body: groupOrder,
    response: group,
    idempotent: true,
  }),
  terminateGroup: endpoint({
    ...oneGroup,
    method: 'DELETE',
    access: ['compute:write'],
    summary: 'Terminate a group with all of its nodes; terminating it again succeeds',
    response: group,
  }),
}
