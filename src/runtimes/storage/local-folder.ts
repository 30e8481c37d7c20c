/** Checks the storage folder: on a local disk, under a path that needs no quoting. */
import fs from 'node:fs/promises'
import type { StorageLog } from './file-server.ts'

/** File system types from statfs. Disk images must not be on network or FUSE file systems. */
const remote: ReadonlyMap<number, string> = new Map([
  [0x6969, 'NFS'],
  [0xff53_4d42, 'CIFS'],
  [0xfe53_4d42, 'SMB'],
  [0x517b, 'SMB'],
  [0x0102_1997, '9P'],
  [0x00c3_6400, 'Ceph'],
  [0x6573_5546, 'FUSE'],
  [0x5346_414f, 'AFS'],
  [0x6b41_4653, 'AFS'],
  [0x0bd0_0bd0, 'Lustre'],
  [0x4750_4653, 'GPFS'],
])
const memory: ReadonlySet<number> = new Set([0x0102_1994, 0x8584_58f6])

const plainPath = /^\/[A-Za-z0-9/._@+-]*$/

export async function assertLocal(folder: string, log: StorageLog): Promise<void> {
  if (!plainPath.test(folder)) {
    throw new Error(`The storage folder ${folder} has characters in its path that are not letters, digits or . _ @ + -`)
  }
  const { type } = await fs.statfs(folder)
  const fault = whyNotLocal(type)
  if (fault !== undefined) throw new Error(`The storage folder ${folder} is on ${fault}; it must be on a local disk`)
  if (memory.has(type))
    log.warn({ folder }, 'the storage folder is in memory: its contents are lost when the machine restarts')
}

/** `type` comes from statfs; some machines report it signed. */
export function whyNotLocal(type: number): string | undefined {
  return remote.get(type >>> 0)
}
