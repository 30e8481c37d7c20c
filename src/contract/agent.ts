/**
 * What an agent and its server say to each other, over one WebSocket that the agent opens. Text frames are the messages
 * here; binary frames carry streams (base/mux.ts). The server says the whole of what is wanted, the agent the whole of
 * what there is, each as often as it likes: a message that is lost or doubled changes nothing.
 */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { gpuFormFactor, gpuType, networkType } from './shared.ts'

export const AGENT_PATH = '/v2/agent/connect'
/** Grows when the messages change in a way that an older side would misread. */
export const AGENT_PROTOCOL = 1

const word = z.string().regex(/^[a-z][a-z0-9_]{0,99}$/)
const sentence = z.string().max(2_000)
const id = z.string().min(1).max(200)

export const hostName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,62}$/, 'Must be lowercase letters, digits and hyphens, at most 63')

/** A machine as it can be sold; `InventoryMachine` of the drivers, less what the server knows better. */
export const hostOffer = z.object({
  clusterName: z.string().min(1).max(100),
  region: z.string().min(1).max(100),
  offering: z.enum(['marketplace', 'virtual-machine', 'bare-metal']),
  gpuType: gpuType.nullable(),
  gpuModel: z.string().min(1).max(200),
  gpuRamMib: z.int().min(1),
  gpuFormFactor: gpuFormFactor.nullable(),
  networkType,
  ethernetVariant: z.enum(['normal', 'rocev2']).nullable(),
  gpusTotal: z.int().min(1).max(64),
  gpusSick: z.array(z.int().min(0).max(63)).max(64),
  /** Marketplace only. */
  priceUsdPerGpuHour: z.string().nullable(),
  hasPersistentStorage: z.boolean(),
  /** Declared, not found: there is no such device. */
  simulated: z.boolean(),
  hardware: z.object({
    cpuModel: z.string().min(1).max(200),
    cpuCores: z.number().positive(),
    virtualCores: z.number().positive(),
    ramGb: z.number().positive(),
    storageGb: z.number().positive(),
    gpuClockMhz: z.number().positive(),
    gpuComputePower: z.number().positive(),
    gpuInterface: z.string().min(1).max(200),
    gpuDriver: z.string().max(100).optional(),
    cudaVersion: z.string().max(100).optional(),
    cpuArch: z.enum(['x64', 'arm64']).optional(),
  }),
})
export type HostOffer = z.output<typeof hostOffer>

const disk = z.object({
  volumeId: id,
  label: z.string(),
  sizeGb: z.int().min(1),
  /** `file`: on this host. `nfs`: to be mounted from there. */
  source: z.discriminatedUnion('kind', [
    z.object({ kind: z.literal('file') }),
    z.object({ kind: z.literal('nfs'), server: z.string(), path: z.string() }),
  ]),
})
export type Disk = z.output<typeof disk>

const baseImage = z.object({
  name: z.string(),
  source: z.string(),
  sha256: z.string(),
  loginUser: z.string(),
})

const workload = z.object({
  id,
  tag: z.string().min(1).max(200),
  want: z.enum(['run', 'gone']),
  /** The host has shown it running before: when it is missing it is lost, not new. */
  started: z.boolean(),
  /** null: found on the host but not in the database. */
  spec: z
    .object({
      kind: z.enum(['virtual-machine', 'bare-metal', 'container']),
      name: z.string(),
      gpuCount: z.int(),
      resources: z.object({
        cpuModel: z.string(),
        cpuCount: z.number(),
        ramGb: z.number(),
        storageGb: z.number(),
      }),
      sshKeys: z.array(z.string()).max(1_000),
      ports: z.array(z.int().min(1).max(65_535)).max(limits.customPorts + 1),
      image: z.object({ name: z.string(), tag: z.string().nullable() }).nullable(),
    })
    .nullable(),
  /** Which of several hosts this is (0 is the head), its GPUs, and all hosts of it in their order. */
  node: z.object({
    index: z.int().min(0),
    gpuIndexes: z.array(z.int().min(0)),
    peers: z.array(z.object({ hostname: z.string(), privateIp: z.string() })),
  }),
  disks: z.array(disk).max(limits.volumesPerRental),
  /** Virtual machines: what to start from. null: the small image that the host has built itself. */
  baseImage: baseImage.nullable(),
})
export type Workload = z.output<typeof workload>

const observation = z.object({
  id,
  tag: z.string().min(1).max(200),
  state: z.enum(['starting', 'running', 'stopping', 'failed']),
  failure: word.optional(),
  /** What it is doing or why it failed, for people: `pulling debian:12, 34 of 120 MB`. */
  message: sentence.optional(),
  /** Customers paste it into their shells. */
  sshUser: z
    .string()
    .regex(/^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/)
    .optional(),
  /** Of this run of it: another word after it stood still and was started again. */
  incarnation: z.string().max(100).optional(),
  disks: z.array(id).max(limits.volumesPerRental),
})
export type Observation = z.output<typeof observation>

const hostVolume = z.object({
  id,
  sizeGb: z.int().min(1),
  want: z.enum(['there', 'gone']),
  /** The host has shown it before: when it is missing its data is lost, and an empty one must not take its place. */
  made: z.boolean().default(false),
  /** All of its blocks are set aside when it is made. */
  reserved: z.boolean().default(false),
})
export type WantedVolume = z.output<typeof hostVolume>

/** The whole of what is wanted of a host. */
export const desired = z.object({
  type: z.literal('desired'),
  generation: z.int(),
  state: z.enum(['ready', 'draining', 'cleaning', 'quarantined', 'left']),
  workloads: z.array(workload),
  volumes: z.array(hostVolume),
})
export type Desired = z.output<typeof desired>

/** Why a host takes no tenants, until it is repaired. Those that are there stay. */
const hostFault = z.object({ reason: word, message: sentence })
export type HostFault = z.output<typeof hostFault>

/** The whole of what there is. */
const hostReport = z.object({
  type: z.literal('report'),
  /** Of the `desired` that it has acted on; 0 before the first. */
  generation: z.int().min(0),
  offer: hostOffer,
  /** Nothing could be looked at: what is said of workloads is no news, and nothing is known to run. */
  blind: z.boolean().optional(),
  /** What the host can and cannot do, in sentences for its owner and the operator. */
  notes: z.array(sentence).max(50),
  fault: hostFault.optional(),
  workloads: z.array(observation).max(1_000),
  volumes: z.array(id).max(1_000),
  /** Volumes that could not be made or removed, and those that have vanished. */
  volumeFaults: z
    .array(z.object({ id, message: sentence }))
    .max(1_000)
    .optional(),
})
export type HostReport = z.output<typeof hostReport>

export const gpuMetrics = z.object({
  index: z.int().min(0),
  utilizationPercent: z.number().nullable(),
  memoryUsedMib: z.number().nullable(),
  memoryTotalMib: z.number().nullable(),
  powerWatts: z.number().nullable(),
  temperatureCelsius: z.number().nullable(),
})
export const hostMetrics = z.object({
  type: z.literal('metrics'),
  gpus: z.array(gpuMetrics).max(64),
  cpuPercent: z.number().nullable(),
  memoryUsedGb: z.number().nullable(),
  diskFreeGb: z.number().nullable(),
})
export type HostMetrics = z.output<typeof hostMetrics>

export const fromServer = z.discriminatedUnion('type', [
  /** The first word. The agent signs `berth-agent/<protocol>/<installation>/<nonce>` with its key. */
  z.object({ type: z.literal('challenge'), protocol: z.int(), installation: z.string(), nonce: z.string() }),
  z.object({ type: z.literal('welcome'), heartbeatMs: z.int().min(100) }),
  z.object({ type: z.literal('refused'), reason: word, message: sentence }),
  desired,
])
export type FromServer = z.output<typeof fromServer>

/** It is stored and shown, so it holds nothing that a database or a terminal would stumble over. */
const agentVersion = z.string().regex(/^[\w.+-]{1,50}$/)

export const fromAgent = z.discriminatedUnion('type', [
  z.object({ type: z.literal('hello'), hostId: hostName, signature: z.string().max(200), version: agentVersion }),
  hostReport,
  hostMetrics,
  /** `draining`: take no more tenants. `left`: the machine goes for good; refused while it has tenants. */
  z.object({ type: z.literal('move'), to: z.enum(['ready', 'draining', 'left']) }),
])
export type FromAgent = z.output<typeof fromAgent>

/** What a stream to a host is for; the first thing that is sent on it. */
export const streamRequest = z.discriminatedUnion('kind', [
  /** To a port inside; 0 is SSH. */
  z.object({ kind: z.literal('port'), workloadId: id, port: z.int().min(0).max(65_535) }),
  z.object({ kind: z.literal('logs'), workloadId: id, follow: z.boolean(), tail: z.int().min(0).max(100_000) }),
  z.object({
    kind: z.literal('terminal'),
    workloadId: id,
    columns: z.int().min(1).max(1_000),
    rows: z.int().min(1).max(1_000),
    command: z.array(z.string().max(10_000)).max(100).nullable(),
  }),
])
export type StreamRequest = z.output<typeof streamRequest>

export function agentStatement(installation: string, nonce: string): string {
  return `berth-agent/${AGENT_PROTOCOL}/${installation}/${nonce}`
}
