/**
 * Builds the container request for one customer: its share of the machine, no host paths but those of its volumes, no
 * privileges, a network of its own. With nvidia as the default runtime an image could request GPUs through an environment variable, so that
 * variable is always set by us.
 */
import type { Workload } from '../../contract/agent.ts'
import { isReservedVariable } from '../../contract/workload.ts'
import { NeverStarts } from '../runtime.ts'
import { cacheOrder, type CacheMount } from './compile-cache.ts'
import { hasNotices, noticeMount } from './end-notice.ts'
import { bridgeOf } from './fence.ts'
import { GATE, groupEnvironment } from './group-network.ts'
import type { Info } from './reply.ts'
import { volumeMounts, VOLUMES_LABEL } from './volumes.ts'
import { weightsOrder, type HostDownloads } from './weights.ts'

export const TAG_LABEL = 'berth.tag'
export const ID_LABEL = 'berth.id'
export const DISK_LABEL = 'berth.storage-gb'
export const CPUS_LABEL = 'berth.cpus'
/** The rank of a node of a group. */
export const GROUP_LABEL = 'berth.group-rank'
export const GPUS_LABEL = 'berth.gpus'
/** Variables of jobs. */
const JOB_PREFIX = 'BERTH_JOB_'

export interface DockerGpu {
  readonly index: number
  readonly uuid: string
  readonly name: string
  /** There is no device to attach. */
  readonly simulated: boolean
}

/** How GPUs are attached: by the daemon's nvidia driver, or by CDI. */
export type GpuMode = 'request' | 'cdi'

export interface OrderOptions {
  readonly image: string
  readonly info: Info
  readonly gpus: readonly DockerGpu[]
  readonly gpuMode: GpuMode
  /** The storage driver enforces the disk limit. */
  readonly diskQuota: boolean
  /** undefined: the kernel schedules it on any CPU. */
  readonly cpus: readonly number[] | undefined
  readonly portAddress: string
  /** The kernel's limit for processes and threads. */
  readonly hostProcesses: number
  readonly volumeFolder?: string | undefined
  readonly downloads?: HostDownloads | undefined
  readonly cache?: CacheMount | undefined
  /** The folder with what containers are told of interruptions. */
  readonly noticeFolder: string
  /** Volumes of the image that an earlier container of this workload has filled, by path. */
  readonly keptVolumes?: readonly KeptVolume[]
  /** The program of the image, for a node of a group: it starts behind a gate. */
  readonly program?: ImageProgram
}

export interface ImageProgram {
  readonly Entrypoint: readonly string[]
  readonly Cmd: readonly string[]
}

export interface KeptVolume {
  readonly name: string
  readonly path: string
}

export const BYTES_PER_GB = 1_000_000_000
const NANO_CPUS = 1_000_000_000
/** Per container, however large the host. */
const MAX_PROCESSES = 16_384
const MIN_PROCESSES = 128
/** The part of the kernel's limit reserved for the host and its engine. */
const HOST_PROCESS_PART = 0.25
const MIN_MEMORY_BYTES = 16 * 1_048_576
/** Part of the container's memory: multi-GPU training passes data through it. */
const SHARED_MEMORY_PART = 0.5
const LOG_SIZE = '10m'
const LOG_FILES = '3'

/** Without GPUs it has CPUs and memory that are sold with the GPUs of others: they come first. */
const behindOthers = { CpuShares: 64, OomScoreAdj: 900 }

export function nameOf(id: string): string {
  return `berth-${id}`
}

function labelsOf(workload: Workload): Record<string, string> {
  return { [TAG_LABEL]: workload.tag, [ID_LABEL]: workload.id }
}

export function networkOrder(workload: Workload): object {
  return {
    Name: nameOf(workload.id),
    CheckDuplicate: true,
    Driver: 'bridge',
    Options: { 'com.docker.network.bridge.name': bridgeOf(workload.id) },
    Labels: labelsOf(workload),
  }
}

export function containerOrder(workload: Workload, options: OrderOptions): unknown {
  const { spec, group } = workload
  if (spec === null) throw new Error(`${workload.tag} has no spec`)
  const { program } = spec
  const { Entrypoint, Cmd } = commandOf(workload, options.program)
  const ports = spec.ports.map((port) => `${port}/tcp`)
  const gpus = gpuOrder(workload, options)
  const memory = memoryBytes(spec.resources.ramGb, options.info)
  return {
    Image: options.image,
    Hostname: nameOf(workload.id).slice(0, 63),
    // Open input keeps a shell command running.
    Tty: true,
    OpenStdin: true,
    Env: [
      ...environmentOf(
        { ...groupVariables(workload, 'open'), ...options.cache?.variables, ...program?.env },
        program?.runsOnce === true,
      ),
      ...gpus.env,
      ...reservedVariables(workload),
    ],
    // Absent: those of the image. With an entrypoint of the order the image's command does not apply either.
    ...(Entrypoint === null ? {} : { Entrypoint }),
    ...(Cmd === null ? {} : { Cmd }),
    Labels: {
      ...labelsOf(workload),
      [DISK_LABEL]: String(spec.resources.storageGb),
      [GPUS_LABEL]: gpusText(workload),
      ...(options.cpus === undefined ? {} : { [CPUS_LABEL]: options.cpus.join(',') }),
      ...(workload.disks.length === 0
        ? {}
        : { [VOLUMES_LABEL]: workload.disks.map(({ volumeId }) => volumeId).join(',') }),
      ...weightsOrder(workload, options.downloads).labels,
      ...cacheOrder(options.cache).labels,
      ...(group === undefined ? {} : { [GROUP_LABEL]: String(group.rank) }),
    },
    ExposedPorts: Object.fromEntries(ports.map((port) => [port, {}])),
    HostConfig: {
      NetworkMode: nameOf(workload.id),
      ...(group === undefined ? {} : { ExtraHosts: group.addresses.map((address, rank) => `node-${rank}:${address}`) }),
      PortBindings: Object.fromEntries(ports.map((port) => [port, [{ HostIp: options.portAddress, HostPort: '' }]])),
      NanoCpus: Math.round(cpuShare(spec.resources.cpuCount, options.info) * NANO_CPUS),
      ...(options.cpus === undefined ? {} : { CpusetCpus: options.cpus.join(',') }),
      Memory: memory,
      // Equal to Memory: no swap.
      MemorySwap: memory,
      ...(workload.node.gpuIndexes.length === 0 ? behindOthers : {}),
      PidsLimit: processShare(workload.node.gpuIndexes.length, options),
      ShmSize: sharedMemoryBytes(program?.shmGb ?? null, memory),
      ...(options.diskQuota
        ? { StorageOpt: { size: String(Math.floor(spec.resources.storageGb * BYTES_PER_GB)) } }
        : {}),
      ...mountsOf(workload, options),
      DeviceRequests: gpus.requests,
      SecurityOpt: ['no-new-privileges'],
      Privileged: false,
      IpcMode: 'private',
      Init: true,
      RestartPolicy: { Name: 'no' },
      LogConfig: { Type: 'json-file', Config: { 'max-size': LOG_SIZE, 'max-file': LOG_FILES } },
    },
  }
}

/** The command of the container. null: the image's command. */
function commandOf({ spec, group }: Workload, image: ImageProgram = { Entrypoint: [], Cmd: [] }) {
  const { command = null, args = null } = spec?.program ?? {}
  if (group === undefined) return { Entrypoint: command, Cmd: args }
  const words = [...(command ?? image.Entrypoint), ...(args ?? (command === null ? image.Cmd : []))]
  if (words.length === 0) throw new NeverStarts('image_without_command', 'The image has no command to run.')
  return { Entrypoint: GATE, Cmd: words }
}

/** Group variables. Those that an order may not set are added after the order's. */
function groupVariables({ spec, group }: Workload, which: 'open' | 'reserved'): Record<string, string> {
  if (group === undefined) return {}
  const all = Object.entries(groupEnvironment(group, spec?.gpuCount ?? 1))
  return Object.fromEntries(all.filter(([name]) => isReservedVariable(name) === (which === 'reserved')))
}

function reservedVariables(workload: Workload): string[] {
  return Object.entries(groupVariables(workload, 'reserved')).map(([name, value]) => `${name}=${value}`)
}

/** The GPUs of a container, as its label has them. */
export function gpusText({ node }: Workload): string {
  return node.gpuIndexes.join(',')
}

/**
 * The order's variables, without those that are ours: they decide which GPUs a container gets. The server sets those of
 * jobs, since no order may have such names.
 */
function environmentOf(env: Readonly<Record<string, string>>, isJob: boolean): string[] {
  return Object.entries(env).flatMap(([name, value]) => {
    const isAllowed = !isReservedVariable(name) || (isJob && name.startsWith(JOB_PREFIX))
    return isAllowed ? [`${name}=${value}`] : []
  })
}

/** More than the memory could never be filled. */
function sharedMemoryBytes(shmGb: number | null, memory: number): number {
  const bytes = shmGb === null ? memory * SHARED_MEMORY_PART : shmGb * BYTES_PER_GB
  return Math.floor(Math.min(bytes, memory))
}

function mountsOf(workload: Workload, options: OrderOptions): { Mounts?: unknown[] } {
  const { keptVolumes = [], volumeFolder = '', downloads, cache } = options
  const volumes = keptVolumes.map(({ name, path }) => ({ Type: 'volume', Source: name, Target: path }))
  const mounts = [
    ...volumes,
    ...volumeMounts(workload.disks, volumeFolder),
    ...weightsOrder(workload, downloads).mounts,
    ...cacheOrder(cache).mounts,
    ...(hasNotices(workload) ? [noticeMount(options.noticeFolder, workload.id)] : []),
  ]
  return mounts.length === 0 ? {} : { Mounts: mounts }
}

/** Capped at the machine's CPUs: the daemon refuses more. */
function cpuShare(cpuCount: number, info: Info): number {
  return Math.min(Math.max(cpuCount, 0.01), info.NCPU)
}

/** Proportional to its GPUs, so that all containers together leave enough for the host. */
function processShare(gpuCount: number, { gpus, hostProcesses }: OrderOptions): number {
  const part = Math.min(gpuCount / Math.max(gpus.length, 1), 1)
  const share = Math.floor(hostProcesses * (1 - HOST_PROCESS_PART) * part)
  return Math.min(Math.max(share, MIN_PROCESSES), MAX_PROCESSES)
}

function memoryBytes(ramGb: number, info: Info): number {
  return Math.min(Math.max(Math.floor(ramGb * BYTES_PER_GB), MIN_MEMORY_BYTES), info.MemTotal)
}

/**
 * Pins the container to CPUs, so that `nproc` and thread pools see its share and not the whole machine. Chooses the
 * least used CPUs; fractional shares overlap, and the CPU quota limits them.
 */
export function chooseCpus(cpuCount: number, info: Info, usedCpus: readonly string[]): number[] {
  const users = Array.from({ length: info.NCPU }, () => 0)
  for (const cpu of usedCpus.flatMap((list) => list.split(','))) users[Number(cpu)] = (users[Number(cpu)] ?? 0) + 1
  const order = users.map((_, cpu) => cpu).sort((a, b) => (users[a] ?? 0) - (users[b] ?? 0) || a - b)
  return order.slice(0, Math.ceil(cpuShare(cpuCount, info))).sort((a, b) => a - b)
}

/** Detected from the daemon's info. */
export function gpuModeOf(info: Info): GpuMode {
  if (info.DiscoveredDevices.some(({ ID }) => ID.startsWith('nvidia.com/gpu='))) return 'cdi'
  return info.CDISpecDirs.length > 0 && !Object.hasOwn(info.Runtimes, 'nvidia') ? 'cdi' : 'request'
}

function gpuOrder(workload: Workload, options: OrderOptions): { env: string[]; requests: unknown[] } {
  const gpus = workload.node.gpuIndexes.map((index) => {
    const gpuAtIndex = options.gpus.find((gpu) => gpu.index === index)
    if (gpuAtIndex === undefined) throw new NeverStarts('gpu_missing', `This host has no GPU ${index}.`)
    return gpuAtIndex
  })
  const env = [`BERTH_GPUS=${gpus.map((gpu) => gpu.index).join(',')}`]
  if (gpus.some((gpu) => gpu.simulated)) env.push('BERTH_SIMULATED_GPUS=true')
  const uuids = gpus.filter((gpu) => !gpu.simulated).map((gpu) => gpu.uuid)
  const byRequest = options.gpuMode === 'request' && uuids.length > 0
  env.push(`NVIDIA_VISIBLE_DEVICES=${byRequest ? uuids.join(',') : 'void'}`)
  if (uuids.length === 0) return { env, requests: [] }
  const request = byRequest
    ? { Driver: 'nvidia', DeviceIDs: uuids, Capabilities: [['gpu']] }
    : { Driver: 'cdi', DeviceIDs: uuids.map((uuid) => `nvidia.com/gpu=${uuid}`) }
  return { env, requests: [request] }
}
