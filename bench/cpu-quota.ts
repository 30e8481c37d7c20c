/**
 * Limits the CPU time of a process and its children by a control group, so that one side of a comparison has the cores of
 * a smaller machine and the load generator has the rest. Needs root and Linux.
 */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import path from 'node:path'

export interface CpuQuota {
  /** From now on; 1 is one core. */
  set(cores: number): void
  remove(): void
}

/** Short, so that a process that used up its share does not stand still for long. */
const PERIOD_US = 10_000
const [older, newer] = ['/sys/fs/cgroup/cpu', '/sys/fs/cgroup']

/** undefined: this machine has no such control groups, or we may not make any. */
export function limitCpu(pid: number): CpuQuota | undefined {
  const isOlder = existsSync(path.join(older, 'tasks'))
  const root = isOlder ? older : newer
  const group = path.join(root, `berth-bench-${pid}`)
  try {
    mkdirSync(group)
    const quota: CpuQuota = {
      set: (cores) => {
        const us = Math.round(cores * PERIOD_US)
        if (!isOlder) return writeFileSync(path.join(group, 'cpu.max'), `${us} ${PERIOD_US}`)
        writeFileSync(path.join(group, 'cpu.cfs_period_us'), String(PERIOD_US))
        writeFileSync(path.join(group, 'cpu.cfs_quota_us'), String(us))
      },
      remove: () => {
        const inside = readFileSync(path.join(group, 'cgroup.procs'), 'utf8').split('\n').filter(Boolean)
        for (const one of inside) writeFileSync(path.join(root, 'cgroup.procs'), one)
        rmdirSync(group)
      },
    }
    for (const one of [pid, ...childrenOf(pid)]) writeFileSync(path.join(group, 'cgroup.procs'), String(one))
    return quota
  } catch {
    return undefined
  }
}

function childrenOf(parent: number): number[] {
  return readdirSync(`/proc/${parent}/task`).flatMap((thread) =>
    readFileSync(`/proc/${parent}/task/${thread}/children`, 'utf8').split(' ').filter(Boolean).map(Number),
  )
}
