/** Detects whether the daemon's storage enforces disk limits. */
import { readFile } from 'node:fs/promises'
import type { Info } from './reply.ts'

/** Only overlay2 on xfs with project quotas does. */
export async function storageEnforcesLimits(info: Info): Promise<boolean> {
  const backing = info.DriverStatus.find(([name]) => name === 'Backing Filesystem')?.[1]
  if (info.Driver !== 'overlay2' || backing !== 'xfs' || info.DockerRootDir === '') return false
  try {
    return hasProjectQuota(await readFile('/proc/self/mounts', 'utf8'), info.DockerRootDir)
  } catch {
    // Not Linux: the daemon is in a virtual machine that we cannot inspect.
    return false
  }
}

/** Reads the options of the mount with the longest matching path. */
export function hasProjectQuota(mounts: string, folder: string): boolean {
  const [nearest] = mounts
    .split('\n')
    .map((line) => line.split(' '))
    .filter(([, at = '']) => at === '/' || folder === at || (at !== '' && folder.startsWith(`${at}/`)))
    .sort(([, a = ''], [, b = '']) => b.length - a.length)
  return nearest?.[3]?.split(',').some((option) => option === 'prjquota' || option === 'pquota') === true
}

/** The Linux default for a small machine, for daemons whose kernel we cannot ask. */
const USUAL_PROCESSES = 32_768

/** The kernel's limit for processes and threads. */
export async function hostProcesses(): Promise<number> {
  const limits = await Promise.all(
    ['pid_max', 'threads-max'].map(async (name) =>
      Number.parseInt(await readFile(`/proc/sys/kernel/${name}`, 'utf8').catch(() => ''), 10),
    ),
  )
  const limited = limits.filter((limit) => limit > 0)
  return limited.length === 0 ? USUAL_PROCESSES : Math.min(...limited)
}

export function diskNote(byStorage: boolean, everySeconds: number): string {
  return byStorage
    ? `Disk limits are enforced by the storage driver; volumes and mounted files are measured every ${everySeconds} seconds.`
    : `Disk use is measured every ${everySeconds} seconds; a container over its limit is stopped.`
}
