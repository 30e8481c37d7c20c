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

export function diskNote(byStorage: boolean, everySeconds: number): string {
  return byStorage
    ? `Disk shares are held by the storage itself; volumes of images are watched every ${everySeconds} seconds.`
    : `Disk shares are watched: a container that has written more than its share is ended within ${everySeconds} seconds.`
}
