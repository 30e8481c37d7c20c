/**
 * The protocol between an agent and its server, over one WebSocket opened by the agent. Text frames are the messages
 * here; binary frames carry streams (base/net/mux.ts). The server always sends the whole desired state, the agent the whole
 * observed state, as often as needed: lost or repeated messages do no harm.
 */
import { z } from 'zod'
import { limits } from '../base/limits.ts'
import { hostCompileCache } from './compile-cache.ts'
import { clusterOffer, groupObservation, groupOrder } from './agent-group.ts'
import { gpuFormFactor, gpuType, gpuVendor, networkType } from './shared.ts'
import { hostWeights } from './weights.ts'
import { hostStates } from './choices.ts'

export const AGENT_PATH = '/v2/agent/connect'
/** Incremented when an older side would misread the messages. */
export const AGENT_PROTOCOL = 1

/** The agent that a server hands out, at `/agent/latest.json`. */
export const agentRelease = z.object({
  version: z.string().max(50),
  build: z.string().regex(/^[\w.+-]{1,50}$/),
  platforms: z.array(z.string().regex(/^[a-z0-9-]{1,40}$/)).max(20),
})
export type AgentRelease = z.output<typeof agentRelease>

const word = z.string().regex(/^[a-z][a-z0-9_]{0,99}$/)
const sentence = z.string().max(2_000)
const id = z.string().min(1).max(200)

export const hostName = z
  .string()
  .regex(/^[a-z0-9][a-z0-9-]{0,62}$/, 'Must be lowercase letters, digits and hyphens, at most 63')

/** A machine on sale: the drivers' `InventoryMachine` without the fields that the server sets. */
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
  /** Declared by the supplier; the device does not exist. */
  simulated: z.boolean(),
  hardware: z.object({
    cpuModel: z.string().min(1).max(200).meta({ title: 'CPU' }),
    cpuCores: z.number().positive().meta({ title: 'Cores' }),
    virtualCores: z.number().positive().meta({ title: 'Threads' }),
    ramGb: z.number().positive().meta({ title: 'Memory' }),
    storageGb: z.number().positive().meta({ title: 'Disk' }),
    gpuClockMhz: z.number().positive().meta({ title: 'Clock' }),
    gpuComputePower: z.number().positive().meta({ title: 'TFLOPS' }),
    gpuInterface: z.string().min(1).max(200).meta({ title: 'Interface' }),
    gpuDriver: z.string().max(100).optional(),
    cudaVersion: z.string().max(100).optional(),
    /** Absent: nvidia. */
    gpuVendor: gpuVendor.optional(),
    cpuArch: z.enum(['x64', 'arm64']).optional(),
    /** Beyond its disk size: `enforced`: writes fail. `watched`: the machine is stopped. `shared`: nothing happens. */
    disk: z.enum(['enforced', 'watched', 'shared']).optional(),
  }),
  /** How the host reaches other hosts of its cluster. Absent: the host cannot be a node of a group. */
  cluster: clusterOffer.optional(),
})
export type HostOffer = z.output<typeof hostOffer>

const disk = z.object({
  volumeId: id,
  label: z.string(),
  sizeGb: z.int().min(1),
  /** `file`: on this host. `nfs`: mounted over the network. */
  source: z.discriminatedUnion('kind', [
    z.object({ kind: z.literal('file') }),
    z.object({ kind: z.literal('nfs'), server: z.string(), path: z.string() }),
  ]),
  /** The path at which the machine mounts it. Absent: the host decides, or it is a bare disk. */
  path: z.string().optional(),
  readOnly: z.boolean().optional(),
})
export type Disk = z.output<typeof disk>

const baseImage = z.object({
  name: z.string(),
  source: z.string(),
  sha256: z.string(),
  loginUser: z.string(),
})

/** Options of the order, with secrets in place of references. Absent: none, or an older server. */
const program = z.object({
  env: z.record(z.string(), z.string()),
  files: z.array(z.object({ path: z.string(), content: z.string(), mode: z.string() })).max(limits.workloadFiles),
  /** null: the image's own. */
  command: z.array(z.string()).nullable(),
  args: z.array(z.string()).nullable(),
  onStart: z.string().nullable(),
  userData: z.string().nullable(),
  /** null: half of the memory. */
  shmGb: z.number().nullable(),
  restart: z.object({ policy: z.enum(['never', 'on-failure', 'always']), maxRetries: z.int() }),
  registry: z.object({ server: z.string(), username: z.string(), password: z.string() }).nullable(),
  /** Downloaded before the start, and mounted read-only. Agents before this field start without them. */
  weights: hostWeights.optional(),
  /** A folder with what an engine compiled. Agents before this field start without it. */
  compileCache: hostCompileCache.optional(),
  /** Whether the workload is a job: its program runs once, and its output is handed over before it is removed. */
  runsOnce: z.boolean().optional(),
  /** Values of secrets in the above. They must not appear in messages or logs. */
  secrets: z.array(z.string()).optional(),
})
export type Program = z.output<typeof program>

const workload = z.object({
  id,
  tag: z.string().min(1).max(200),
  want: z.enum(['run', 'gone']),
  /** `off`: it should not run, but its disk must stay. Absent: on. Agents before this field run it. */
  power: z.enum(['on', 'off']).optional(),
  /** Reboots so far. The host reboots it when this grows. */
  reboots: z.int().min(0).optional(),
  /** The host has reported it running before: if it is missing, it is lost, not new. */
  started: z.boolean(),
  /**
   * The disk is on another host and is fetched from the server before the first start here. `started` is true, so
   * agents before this field take the workload for lost, and do not create it without its disk.
   */
  copies: z.boolean().optional(),
  /** When it will be interrupted, in milliseconds since 1970. Its programs are told. Absent: no interruption is announced. */
  endsAt: z.number().optional(),
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
      program: program.optional(),
      /** The programs of the workload can be told of an interruption. */
      interruptible: z.literal(true).optional(),
    })
    .nullable(),
  /** The rank of this host (0 is the head), its GPUs, and all hosts in rank order. */
  node: z.object({
    index: z.int().min(0),
    gpuIndexes: z.array(z.int().min(0)),
    peers: z.array(z.object({ hostname: z.string(), privateIp: z.string() })),
  }),
  /** The group whose private network the workload joins before its program starts. Absent: there is no group. */
  group: groupOrder.optional(),
  disks: z.array(disk).max(limits.volumesPerRental),
  /** Base image of a virtual machine. null: the small image built by the host itself. */
  baseImage: baseImage.nullable(),
})
export type Workload = z.output<typeof workload>

/** The message of a running workload that is being rebooted. */
export const REBOOTING = 'rebooting'

const observation = z.object({
  id,
  tag: z.string().min(1).max(200),
  /** `stopped`: it is off as desired. */
  state: z.enum(['starting', 'running', 'stopping', 'stopped', 'failed']),
  failure: word.optional(),
  /** Progress or cause of failure, for people: `pulling debian:12, 34 of 120 MB`. */
  message: sentence.optional(),
  /** Exit code of a program that ended by itself, and when, in ms since 1970 by the clock of its host. */
  exitCode: z.int().min(0).max(255).optional(),
  endedAt: z.int().min(0).optional(),
  /** Customers paste it into their shells, so it is restricted. */
  sshUser: z
    .string()
    .regex(/^[A-Za-z_][A-Za-z0-9_.-]{0,63}$/)
    .optional(),
  /** Identifies this run; changes when it is stopped and started again. */
  incarnation: z.string().max(100).optional(),
  group: groupObservation.optional(),
  disks: z.array(id).max(limits.volumesPerRental),
})
export type Observation = z.output<typeof observation>

const hostVolume = z.object({
  id,
  sizeGb: z.int().min(1),
  want: z.enum(['there', 'gone']),
  /** The host has reported it before: if it is missing, its data is lost, and an empty one must not replace it. */
  made: z.boolean().default(false),
  /** All blocks are allocated when it is created. */
  reserved: z.boolean().default(false),
  /** The volume of this host that it starts as a copy of. */
  copyOf: id.optional(),
})
export type DesiredVolume = z.output<typeof hostVolume>

/** A volume as it is on the host. */
const hostVolumeStatus = z.object({
  id,
  sizeGb: z.int().min(0),
  /** null: not known. */
  usedGb: z.number().min(0).nullable(),
})
export type HostVolumeStatus = z.output<typeof hostVolumeStatus>

/** The complete desired state of a host. */
export const desired = z.object({
  type: z.literal('desired'),
  generation: z.int(),
  state: z.enum(hostStates),
  workloads: z.array(workload),
  volumes: z.array(hostVolume),
})
export type Desired = z.output<typeof desired>

/** Why a host accepts no new tenants until it is repaired. Current tenants stay. */
const hostFault = z.object({ reason: word, message: sentence })
export type HostFault = z.output<typeof hostFault>

/** The complete observed state of a host. */
const hostReport = z.object({
  type: z.literal('report'),
  /** Generation of the last `desired` it applied; 0 before the first. */
  generation: z.int().min(0),
  offer: hostOffer,
  /** The clock of the host, in milliseconds since 1970. */
  sentAt: z.int().min(0).optional(),
  /** The engine could not be inspected: the workloads are not current, and none is known to run. */
  blind: z.boolean().optional(),
  /** Capabilities and limitations, as sentences for the supplier and the operator. */
  notes: z.array(sentence).max(50),
  /** GPUs that the kernel log shows to be broken, since when in milliseconds since 1970. Their tenants pay nothing. */
  gpuFaults: z
    .array(z.object({ index: z.int().min(0).max(63), at: z.int().min(0).max(8.64e15), message: z.string().max(200) }))
    .max(64)
    .optional(),
  fault: hostFault.optional(),
  workloads: z.array(observation).max(1_000),
  volumes: z.array(id).max(1_000),
  /** Their sizes. A volume whose desired size is larger is grown. Absent: the agent cannot grow volumes. */
  volumeSizes: z.array(hostVolumeStatus).max(1_000).optional(),
  /** Volumes that could not be created or removed, or that are missing. */
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

const amount = z.number().min(0).max(1e15).nullable()

const activityKind = z.enum(['ssh', 'terminal', 'connection', 'program'])
export type ActivityKind = z.output<typeof activityKind>

/** The use of one running workload. */
const workloadMetrics = z.object({
  id,
  /** 100 means that all CPUs of the workload are busy. */
  cpuPercent: amount,
  memoryUsedMib: amount,
  memoryTotalMib: amount,
  diskUsedMib: amount,
  networkRxBytesPerSecond: amount,
  networkTxBytesPerSecond: amount,
  /** The activities that have kept it in use since the last message. */
  active: z.array(activityKind).max(10),
  /** Seconds since it was last in use; 0: now. Until the agent knows better, since the agent started. */
  quietSeconds: z.number().min(0).max(1e9),
})
export type WorkloadMetrics = z.output<typeof workloadMetrics>

/** The last output of a workload that is being removed, in base64. */
const lastLog = z.object({ id, tail: z.base64().max(limits.lastLogBytes * 2) })
export type LastLog = z.output<typeof lastLog>

/** The fields of later agents are optional: an older server ignores them, and older agents do not send them. */
export const hostMetrics = z.object({
  type: z.literal('metrics'),
  gpus: z.array(gpuMetrics).max(64),
  cpuPercent: z.number().nullable(),
  memoryUsedGb: z.number().nullable(),
  diskFreeGb: z.number().nullable(),
  workloads: z.array(workloadMetrics).max(1_000).optional(),
  lastLogs: z.array(lastLog).max(4).optional(),
  /** The cache of model weights. Absent: the host has none. */
  weights: z
    .object({
      usedGb: z.number().min(0).describe('Unfinished downloads included'),
      budgetGb: z.number().min(0).describe('Weights that are not in use go when this is full'),
    })
    .optional(),
})
export type HostMetrics = z.output<typeof hostMetrics>

export const fromServer = z.discriminatedUnion('type', [
  /** The first message. The agent signs `berth-agent/<protocol>/<installation>/<nonce>` with its key. */
  z.object({ type: z.literal('challenge'), protocol: z.int(), installation: z.string(), nonce: z.string() }),
  z.object({ type: z.literal('welcome'), heartbeatMs: z.int().min(100) }),
  z.object({ type: z.literal('refused'), reason: word, message: sentence }),
  desired,
])
export type FromServer = z.output<typeof fromServer>

/** Stored and shown, so it must not contain characters that break a database or a terminal. */
const agentVersion = z.string().regex(/^[\w.+-]{1,50}$/)

export const fromAgent = z.discriminatedUnion('type', [
  z.object({ type: z.literal('hello'), hostId: hostName, signature: z.string().max(200), version: agentVersion }),
  hostReport,
  hostMetrics,
  /** `draining`: accept no new tenants. `left`: remove the machine; rejected while it has tenants. */
  z.object({ type: z.literal('move'), to: z.enum(['ready', 'draining', 'left']) }),
])
export type FromAgent = z.output<typeof fromAgent>

/** Which lines of a log to send. Times are milliseconds since 1970. An older agent sends all lines, without times. */
const logFilter = z.object({
  since: z.int().optional(),
  until: z.int().optional(),
  search: z.string().max(200).optional(),
  timestamps: z.boolean().optional(),
})
export type LogFilter = z.output<typeof logFilter>

/** The purpose of a stream to a host, sent when it opens. */
export const streamRequest = z.discriminatedUnion('kind', [
  /** To a port inside; 0 is SSH. `probe`: a health check, which does not count as use of the machine. */
  z.object({
    kind: z.literal('port'),
    workloadId: id,
    port: z.int().min(0).max(65_535),
    probe: z.boolean().optional(),
  }),
  z.object({
    kind: z.literal('logs'),
    workloadId: id,
    follow: z.boolean(),
    tail: z.int().min(0).max(100_000),
    ...logFilter.shape,
  }),
  z.object({
    kind: z.literal('terminal'),
    workloadId: id,
    columns: z.int().min(1).max(1_000),
    rows: z.int().min(1).max(1_000),
    command: z.array(z.string().max(10_000)).max(100).nullable(),
  }),
  /** Without a terminal: the output comes in frames (base/net/output-frame.ts), and the end of input is passed on. */
  z.object({
    kind: z.literal('command'),
    workloadId: id,
    command: z.array(z.string().max(10_000)).min(1).max(100),
  }),
  /** The disk of a workload that is off, for another host (runtimes/docker/disk-archive.ts). */
  z.object({ kind: z.literal('disk'), workloadId: id }),
])
export type StreamRequest = z.output<typeof streamRequest>

/** The image of the engines that the server hands out: its facts, and with `/<tag>` the archive. */
export const ENGINE_IMAGE_PATH = '/v2/agent/engine-image'
/** With `/<workload id>/<sha256>`: one file of the weights of a workload. */
export const WEIGHTS_PATH = '/v2/agent/weights'
/** With `/<workload id>`: its disk, from the host that it moves from. */
export const DISK_PATH = '/v2/agent/disk'
/** With `/<workload id>`: whether the output of a job is awaited (GET), and where it is handed over (PUT, as a tar). */
export const OUTPUT_PATH = '/v2/agent/output'
/** The scheme in `Authorization`, before `<host id>:<time in ms>:<signature>`. */
export const AGENT_SCHEME = 'Berth-Agent'

/** The text that a host signs to download one path. */
export function downloadStatement(installation: string, path: string, timeMs: number): string {
  return `berth-agent-download/${AGENT_PROTOCOL}/${installation}/${timeMs}${path}`
}

export function agentStatement(installation: string, nonce: string): string {
  return `berth-agent/${AGENT_PROTOCOL}/${installation}/${nonce}`
}
