/**
 * The operator's clusters, one file in YAML or JSON (`BERTH_KUBERNETES`). All errors are reported at once, with cluster
 * and field. Whether a cluster answers is not checked here: when it is down, only its own machines are withdrawn from
 * sale.
 */
import path from 'node:path'
import { z } from 'zod'
import { parseUsd } from '../../base/money.ts'
import { issueText } from '../../contract/issue-text.ts'
import { networkType } from '../../contract/shared.ts'
import { parseYamlText } from './kubeconfig.ts'

const MAX_CLUSTERS = 50
const MAX_FAULTS = 50

const dnsLabel = z
  .string()
  .regex(/^[a-z0-9]([a-z0-9-]{0,30}[a-z0-9])?$/, 'Must be lowercase letters, digits and hyphens, at most 32')
const labelText = z.string().min(1).max(253)
const price = z.string().refine((text) => (parseUsd(text) ?? -1n) >= 0n, 'Must be an amount in USD such as 2.49')

const clusterConfig = z.strictObject({
  /** The name is part of the ids of its machines, so it must never change. */
  name: dnsLabel,
  /** Absent: the service account of the pod that this server runs in. */
  kubeconfig: z.string().min(1).optional(),
  context: z.string().min(1).optional(),
  region: z.string().min(1).max(100),
  /** The account that earns from the cluster. Absent: the operator. */
  supplier: z.string().min(1).max(100).optional(),
  /** Prices per GPU-hour, by the label `nvidia.com/gpu.product`. Nodes with other GPUs are not sold. */
  prices: z.record(labelText, price).refine((all) => Object.keys(all).length > 0, 'Must have at least one price'),
  networkType: networkType.default('ethernet'),
  /** Only nodes with these labels are sold. */
  nodeSelector: z.record(labelText, z.string().max(63)).default({}),
  gpuResource: labelText.default('nvidia.com/gpu'),
  /** The cluster assigns GPUs by resource claims instead of an extended resource. */
  dra: z
    .strictObject({ deviceClass: labelText, driver: labelText.optional() })
    .transform(({ deviceClass, driver }) => ({ deviceClass, driver: driver ?? deviceClass }))
    .optional(),
  /** The GPUs are declared and do not exist; listings say so. */
  simulatedGpus: z.boolean().default(false),
  runtimeClass: z.string().min(1).max(253).optional(),
  images: z
    .strictObject({
      /** With `Always`, a tenant cannot use a private image that another tenant has pulled to the node. */
      pullPolicy: z.enum(['Always', 'IfNotPresent']).default('Always'),
      /** Used by orders that name no image. */
      default: z.string().min(1).max(500).optional(),
      /** Registries that may have private addresses, written as in image names. */
      allowedRegistries: z.array(z.string().min(1).max(253)).max(100).default([]),
    })
    .prefault({}),
  /** The nodes are sold as virtual machines of KubeVirt instead of containers. */
  virtualMachines: z
    .strictObject({
      /** A container disk: an image that contains the disk of a system with cloud-init and an SSH server. */
      image: z.string().min(1).max(500),
      user: z
        .string()
        .regex(/^[a-z_][a-z0-9_-]{0,31}$/)
        .default('ubuntu'),
    })
    .optional(),
  /** The storage class of volumes. Absent: the cluster has no volumes. */
  storage: z
    .strictObject({
      class: z.string().min(1).max(253),
      accessMode: z.enum(['ReadWriteOnce', 'ReadWriteMany']).default('ReadWriteOnce'),
    })
    .optional(),
  /** Lets the cluster run models. Absent: replicas with weights, and replicas of our own engines, do not run here. */
  serving: z
    .strictObject({
      /**
       * The image that `npm run engine-image` writes, by the name under which the nodes pull it. It also downloads
       * weights.
       */
      engineImage: z.string().min(1).max(500),
      /** The URL of this server as pods reach it. */
      serverUrl: z.url({ protocol: /^https?$/ }).transform((url) => url.replace(/\/+$/, '')),
      /** Private addresses that pods may reach for weights: this server, and an object store. */
      allowedAddresses: z
        .array(z.union([z.cidrv4(), z.cidrv6()]))
        .max(20)
        .default([]),
      /** Weights that nodes keep, on storage of `storage.class`. */
      cache: z
        .strictObject({
          /** 0: each replica downloads its own copy. */
          gbPerNode: z.number().min(0).max(1_000_000).default(500),
          /** Weights are removed after this time without use. */
          days: z.number().min(0).max(3_650).default(7),
        })
        .prefault({}),
    })
    .optional(),
  podSecurity: z.enum(['baseline', 'restricted']).default('baseline'),
  namespacePrefix: dnsLabel.default('berth'),
  /** Each account in this cluster has this quota. */
  quota: z
    .strictObject({
      pods: z.int().min(1).max(10_000).default(100),
      gpus: z.int().min(1).max(100_000).default(256),
    })
    .prefault({}),
  /** Programs have this long to end before they are killed. At 0, Kubernetes would delete pods by force. */
  graceSeconds: z.int().min(1).max(600).default(10),
})
export type ClusterConfig = z.output<typeof clusterConfig>

const configFile = z.strictObject({ clusters: z.array(z.unknown()).min(1).max(MAX_CLUSTERS) })

export type ConfigOutcome =
  | { readonly kind: 'read'; readonly clusters: readonly ClusterConfig[] }
  | { readonly kind: 'faulty'; readonly faults: readonly string[] }

/** `folder` is the folder of the file; paths in the file are relative to it. */
export function parseClusters(text: string, folder: string): ConfigOutcome {
  let input: unknown
  try {
    input = parseYamlText(text)
  } catch (error) {
    return { kind: 'faulty', faults: [`neither YAML nor JSON: ${firstLine(error)}`] }
  }
  const file = configFile.safeParse(input, { error: issueText })
  if (!file.success) {
    return { kind: 'faulty', faults: file.error.issues.map((one) => `${fieldOf(one)}: ${one.message}`) }
  }
  const faults: string[] = []
  const clusters: ClusterConfig[] = []
  for (const [index, one] of file.data.clusters.entries()) {
    const entry = clusterConfig.safeParse(one, { error: issueText })
    if (!entry.success) {
      faults.push(...entry.error.issues.map((issue) => `${nameOf(one, index)}: ${fieldOf(issue)}: ${issue.message}`))
      continue
    }
    const { kubeconfig } = entry.data
    if (clusters.some(({ name }) => name === entry.data.name)) faults.push(`cluster ${entry.data.name}: duplicate name`)
    clusters.push({
      ...entry.data,
      ...(kubeconfig === undefined ? {} : { kubeconfig: path.resolve(folder, kubeconfig) }),
    })
  }
  return faults.length > 0 ? { kind: 'faulty', faults: faults.slice(0, MAX_FAULTS) } : { kind: 'read', clusters }
}

function nameOf(entry: unknown, index: number): string {
  const name = typeof entry === 'object' && entry !== null && 'name' in entry ? entry.name : undefined
  return typeof name === 'string' ? `cluster ${name.slice(0, 100)}` : `cluster number ${index + 1}`
}

function fieldOf(issue: { readonly path: readonly PropertyKey[] }): string {
  return issue.path.length === 0 ? 'the whole' : issue.path.map(String).join('.')
}

function firstLine(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).split('\n')[0] ?? ''
}
