/** Clusters that machines come from, for operators: whether they answer, which nodes are on sale, what they enforce. */
import { z } from 'zod'
import { endpoint } from './endpoint.ts'

const clusterNode = z.object({
  name: z.string(),
  machineId: z.string().describe('Its machine, as in listings'),
  onSale: z.boolean(),
  reason: z.string().nullable().describe('Why it is not on sale; null: it is'),
  gpusTotal: z.number(),
  gpusUnsold: z.number().describe('GPUs that are broken or in use by others'),
  unsoldReason: z
    .string()
    .nullable()
    .describe('Why its free GPUs are not sold though it is on sale; null: they are, or others use them'),
})

const clusterRecord = z
  .object({
    name: z.string(),
    engine: z.string(),
    region: z.string(),
    reachable: z.boolean(),
    error: z.string().nullable().describe('Why it does not answer; null: it does'),
    version: z.string().nullable(),
    nodes: z.array(clusterNode),
  })
  .meta({ id: 'Cluster' })
export type ClusterRecord = z.output<typeof clusterRecord>

const clusterChecks = [
  'pod_security',
  'quota',
  'network_policy',
  'secrets',
  'storage',
  'weights_cache',
  'pod_metrics',
  'gpu_metrics',
  'virtual_machines',
] as const

const clusterCheck = z.object({
  check: z.enum(clusterChecks),
  result: z
    .enum(['enforced', 'not_enforced', 'not_tried', 'available', 'not_available'])
    .describe(
      '`not_enforced`: the attempt succeeded. `not_tried`: the attempt was not possible. `available` and `not_available`: parts that a cluster may lack',
    ),
  detail: z.string(),
})
export type ClusterCheck = z.output<typeof clusterCheck>

const operator = { family: 'v2', tag: 'Operator', access: ['operator'] } as const

export const clusterEndpoints = {
  listClusters: endpoint({
    ...operator,
    method: 'GET',
    path: '/v2/operator/clusters',
    summary: 'List clusters, whether they answer, and their nodes',
    errors: [401, 403],
    response: z.object({ clusters: z.array(clusterRecord) }),
  }),
  checkCluster: endpoint({
    ...operator,
    method: 'POST',
    path: '/v2/operator/clusters/{name}/check',
    summary: 'Find out by trying what a cluster enforces between tenants',
    errors: [400, 401, 403, 404],
    params: z.object({ name: z.string().min(1).max(100) }),
    body: z.strictObject({
      image: z
        .string()
        .min(1)
        .max(500)
        .optional()
        .describe('Image with `sh` and `nc` for the network check; default: the default image of the cluster'),
    }),
    response: z.object({ ok: z.boolean(), checks: z.array(clusterCheck) }),
  }),
}
