/** Whether this daemon's storage holds disk shares by itself, and what to say about it. */
import { readFile } from 'node:fs/promises'
import type { Info } from './reply.ts'

/** Only overlay2 on xfs with project quotas is known to. */
export async function storageHoldsShares(info: Info): Promise<boolean> {
  const backing = info.DriverStatus.find(([name]) => name === 'Backing Filesystem')?.[1]
  if (info.Driver !== 'overlay2' || backing !== 'xfs' || info.DockerRootDir === '') return false
  try {
    return hasProjectQuota(await readFile('/proc/self/mounts', 'utf8'), info.DockerRootDir)
  } catch {
    // Not Linux, so the daemon is in a virtual machine that we cannot look into.
    return false
  }
}

/** By the mount that the folder lies on: the longest that it begins with. */
export function hasProjectQuota(mounts: string, folder: string): boolean {
  const [nearest] = mounts
    .split('\n')
    .map((line) => line.split(' '))
    .filter(([, at = '']) => at === '/' || folder === at || (at !== '' && folder.startsWith(`${at}/`)))
    .sort(([, a = ''], [, b = '']) => b.length - a.length)
  return nearest?.[3]?.split(',').some((option) => option === 'prjquota' || option === 'pquota') === true
}

/** What Linux gives a small machine; also where the daemon's kernel is not ours to ask. */
const USUAL_PROCESSES = 32_768

/** How many processes and threads the kernel allows in all. */
export async function hostProcesses(): Promise<number> {
  const limits = await Promise.all(
    ['pid_max', 'threads-max'].map(async (name) =>
      Number.parseInt(await readFile(`/proc/sys/kernel/${name}`, 'utf8').catch(() => ''), 10),
    ),
  )
  const known = limits.filter((limit) => limit > 0)
  return known.length === 0 ? USUAL_PROCESSES : Math.min(...known)
}

export function diskNote(byStorage: boolean, everySeconds: number): string {
  return byStorage
    ? `Disk shares are held by the storage itself; volumes and mounted files are measured every ${everySeconds} seconds.`
    : `Disk shares are watched: a container that takes more than its share is stopped within ${everySeconds} seconds.`
}
