/**
 * CPUs, memory and disk of this machine, within the limits of our control group (v1 or v2). A GB is 2^30 bytes, so that
 * the offer never exceeds the hardware.
 */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'

export interface HostHardware {
  readonly cpuModel: string
  readonly cpuCores: number
  readonly virtualCores: number
  readonly ramGb: number
  readonly storageGb: number
  /** Whether the runtime enforces the disk size of a workload or only watches it. */
  readonly disk?: 'enforced' | 'watched'
}

const GB_BYTES = 1_073_741_824

/** `root` holds /proc and /sys; tests pass another. `folder` is where tenants' data will be stored. */
export function readHardware(folder: string, root = '/'): HostHardware {
  const limits = readCgroupLimits(root)
  const threads = listThreads(root).filter((one) => limits.cpuSet?.has(one) ?? true)
  const cores = countCores(root, threads)
  const virtualCores = Math.max(Math.min(threads.length, limits.cpus ?? Infinity), 0.1)
  return {
    cpuModel: readCpuModel(root),
    // A share of the threads counts as the same share of the cores.
    cpuCores: tenths((cores * virtualCores) / Math.max(threads.length, 1)),
    virtualCores: tenths(virtualCores),
    ramGb: tenths(Math.min(readMemory(root).totalBytes, limits.memoryBytes ?? Infinity) / GB_BYTES),
    storageGb: tenths(freeDiskGb(folder) ?? 0),
  }
}

export function readMemory(root = '/'): { totalBytes: number; availableBytes: number } {
  const text = readIfExists(path.join(root, 'proc/meminfo')) ?? ''
  const bytes = (name: string): number | undefined => {
    const digits = new RegExp(`^${name}:\\s+(\\d+) kB`, 'm').exec(text)?.[1]
    return digits === undefined ? undefined : Number.parseInt(digits, 10) * 1_024
  }
  return { totalBytes: bytes('MemTotal') ?? os.totalmem(), availableBytes: bytes('MemAvailable') ?? os.freemem() }
}

/** null: unknown. */
export function freeDiskGb(folder: string): number | null {
  try {
    const { bavail, bsize } = fs.statfsSync(folder)
    return (bavail * bsize) / GB_BYTES
  } catch {
    return null
  }
}

/** Rounded down, but never to zero. */
function tenths(value: number): number {
  return Math.max(Math.floor(value * 10) / 10, 0.1)
}

/** Numbers of the online CPUs. */
function listThreads(root: string): number[] {
  const online = parseCpuList(readIfExists(path.join(root, 'sys/devices/system/cpu/online')) ?? '')
  if (online.length > 0) return online
  return Array.from({ length: os.cpus().length }, (_, number) => number)
}

/** Threads of one core list the same siblings. */
function countCores(root: string, threads: readonly number[]): number {
  const cores = threads.map((number) => {
    const topology = path.join(root, `sys/devices/system/cpu/cpu${number}/topology`)
    return readIfExists(path.join(topology, 'thread_siblings_list'))?.trim() ?? `cpu${number}`
  })
  return Math.max(new Set(cores).size, 1)
}

/** ARM reports a part number instead of a name. */
const armParts: Readonly<Record<string, string>> = {
  '0xd0c': 'Neoverse N1',
  '0xd40': 'Neoverse V1',
  '0xd49': 'Neoverse N2',
  '0xd4f': 'Neoverse V2',
  '0xd84': 'Neoverse V3',
  '0xd8e': 'Neoverse N3',
}

function readCpuModel(root: string): string {
  const text = readIfExists(path.join(root, 'proc/cpuinfo')) ?? ''
  const modelName = /^model name\s*: (.+)$/m.exec(text)?.[1]?.trim()
  if (modelName !== undefined && modelName !== '') return modelName.slice(0, 200)
  const part = /^CPU part\s*: (\S+)$/m.exec(text)?.[1] ?? ''
  return armParts[part] === undefined ? `${os.arch()} CPU` : `ARM ${armParts[part]}`
}

interface CgroupLimits {
  cpus?: number
  cpuSet?: ReadonlySet<number>
  memoryBytes?: number
}

/** The lowest limit of any group from ours up to the root. */
function readCgroupLimits(root: string): CgroupLimits {
  const limits: CgroupLimits = {}
  const limitCpus = (value: number | undefined): void => {
    if (value !== undefined && value > 0) limits.cpus = Math.min(limits.cpus ?? Infinity, value)
  }
  const limitMemory = (text: string | undefined): void => {
    // No limit is a number near 2^63 in v1, and `max` in v2.
    const bytes = /^\d+$/.test(text ?? '') ? Number.parseInt(text ?? '', 10) : 0
    if (bytes > 0) limits.memoryBytes = Math.min(limits.memoryBytes ?? Infinity, bytes)
  }
  for (const { dir, controllers, isOwn } of listGroups(root)) {
    const read = (name: string): string | undefined => readIfExists(path.join(dir, name))?.trim()
    if (controllers.includes('')) {
      limitCpus(ratio(...(read('cpu.max') ?? '').split(' ')))
      limitMemory(read('memory.max'))
    }
    if (controllers.includes('cpu')) limitCpus(ratio(read('cpu.cfs_quota_us'), read('cpu.cfs_period_us')))
    if (controllers.includes('memory')) limitMemory(read('memory.limit_in_bytes'))
    const set = parseCpuList(
      read('cpuset.cpus.effective') ?? read('cpuset.effective_cpus') ?? read('cpuset.cpus') ?? '',
    )
    if (isOwn && set.length > 0) limits.cpuSet = new Set(set)
  }
  return limits
}

interface Group {
  readonly dir: string
  /** `['']` is v2. */
  readonly controllers: readonly string[]
  /** Our own group, not an ancestor. */
  readonly isOwn: boolean
}

const MAX_DEPTH = 32

/** Each line of /proc/self/cgroup is `number:controllers:path`; a controller is mounted under its name. */
function listGroups(root: string): Group[] {
  const mount = path.join(root, 'sys/fs/cgroup')
  return (readIfExists(path.join(root, 'proc/self/cgroup')) ?? '').split('\n').flatMap((line) => {
    const [, names = '', below = ''] = /^\d+:([^:]*):(.*)$/.exec(line) ?? []
    if (below === '') return []
    const controllers = names.split(',')
    const tops = names === '' ? [mount, path.join(mount, 'unified')] : controllers.map((one) => path.join(mount, one))
    const top = tops.find((one) => fs.existsSync(path.join(one, 'cgroup.procs')))
    if (top === undefined) return []
    const parts = below.split('/').filter((part) => part !== '' && part !== '..')
    // Inside a container the path may be the host's and not exist: then our own group is the root.
    const dirs = Array.from({ length: Math.min(parts.length, MAX_DEPTH) + 1 }, (_, drop) =>
      path.join(top, ...parts.slice(0, parts.length - drop)),
    ).filter((dir) => fs.existsSync(dir))
    return dirs.map((dir, i) => ({ dir, controllers, isOwn: i === 0 }))
  })
}

/** A quota of `200000` per `100000` is two CPUs; `max` and -1 mean no limit. */
function ratio(quota: string | undefined = '', period: string | undefined = ''): number | undefined {
  if (!/^\d+$/.test(quota) || !/^\d+$/.test(period)) return undefined
  return Number.parseInt(quota, 10) / Number.parseInt(period, 10)
}

/** More than any existing machine. */
const MAX_CPUS = 8_192

/** `0-3,8` is 0, 1, 2, 3 and 8. */
function parseCpuList(text: string): number[] {
  return text
    .trim()
    .split(',')
    .flatMap((part) => {
      const [, first = '', last = first] = /^(\d+)(?:-(\d+))?$/.exec(part) ?? []
      if (first === '') return []
      const from = Number.parseInt(first, 10)
      const to = Math.min(Number.parseInt(last, 10), MAX_CPUS)
      return Array.from({ length: Math.max(to - from + 1, 0) }, (_, i) => from + i)
    })
}

function readIfExists(file: string): string | undefined {
  try {
    return fs.readFileSync(file, 'utf8')
  } catch {
    return undefined
  }
}
