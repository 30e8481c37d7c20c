/**
 * Volume data: files with an ext4 of exactly their size, loop-mounted while they have clients. A full volume affects only
 * its owner, and an unused one is a plain file that can be copied. Blocks are reserved on creation unless the operator
 * overcommits the disk.
 */
import fs from 'node:fs/promises'
import path from 'node:path'
import { runCommand } from './command.ts'
import { removeDurably, syncFolder } from '../durable-file.ts'

const BYTES_PER_GB = 2 ** 30
const STAT_BLOCK_BYTES = 512
/** Stacked mounts are removed one by one. */
const MAX_STACKED = 16

export interface VolumeImages {
  mountPoint(id: string): string
  /** Throws without leaving anything behind. */
  make(id: string, sizeGb: number, options: { isReserved: boolean; signal: AbortSignal }): Promise<void>
  /** The problem with the file. null: present with its size. */
  faultOf(id: string, sizeGb: number): Promise<string | null>
  mount(id: string): Promise<void>
  unmount(id: string): Promise<void>
  /** Ids of mounted volumes. */
  mounted(): Promise<string[]>
  remove(id: string): Promise<void>
  /** Free bytes of the disk, and bytes used by images. */
  room(): Promise<{ freeBytes: number; takenBytes: number }>
}

export async function openVolumeImages(folder: string): Promise<VolumeImages> {
  const files = path.join(folder, 'images')
  const mounts = path.join(folder, 'mnt')
  for (const one of [files, mounts]) await fs.mkdir(one, { recursive: true, mode: 0o700 })
  const fileOf = (id: string): string => path.join(files, `${id}.img`)
  const mountPoint = (id: string): string => path.join(mounts, id)

  const unmount = async (id: string): Promise<void> => {
    for (let layer = 0; (await findMounts()).has(mountPoint(id)); layer += 1) {
      if (layer === MAX_STACKED) throw new Error(`Too many mounts are stacked on ${mountPoint(id)}`)
      await runCommand('umount', [mountPoint(id)])
    }
    if (await exists(mountPoint(id))) await fs.rmdir(mountPoint(id))
  }

  return {
    mountPoint,
    unmount,

    async make(id, sizeGb, { isReserved, signal }) {
      const file = fileOf(id)
      const fresh = `${file}.new`
      await fs.rm(fresh, { force: true })
      try {
        await fs.writeFile(fresh, '', { flag: 'wx', mode: 0o600 })
        await fs.truncate(fresh, bytesOf(sizeGb))
        if (isReserved) await runCommand('fallocate', ['-l', String(bytesOf(sizeGb)), fresh], signal)
        // Without nodiscard mke2fs would free the reserved blocks.
        const options = 'nodiscard,lazy_itable_init=1,lazy_journal_init=1,root_owner=0:0'
        await runCommand('mke2fs', ['-t', 'ext4', '-F', '-q', '-m', '0', '-E', options, fresh], signal)
        await runCommand('sync', [fresh])
        await fs.rename(fresh, file)
        await syncFolder(files)
      } catch (error) {
        // A partial file may have filled the disk.
        await fs.rm(fresh, { force: true })
        throw error
      }
    },

    async faultOf(id, sizeGb) {
      const found = await fs.stat(fileOf(id)).catch(nullIfGone)
      if (found === null) return `${fileOf(id)} is missing`
      return found.isFile() && found.size === bytesOf(sizeGb) ? null : `${fileOf(id)} does not have ${sizeGb} GB`
    },

    async mount(id) {
      const source = (await findMounts()).get(mountPoint(id))
      if (source !== undefined) {
        if ((await backingFile(source)) === fileOf(id)) return
        await unmount(id)
      }
      await fs.mkdir(mountPoint(id), { recursive: true, mode: 0o700 })
      const options = 'loop,nosuid,nodev,noatime,errors=remount-ro'
      await runCommand('mount', ['-t', 'ext4', '-o', options, fileOf(id), mountPoint(id)])
      const device = (await findMounts()).get(mountPoint(id))
      if (device === undefined) throw new Error(`${mountPoint(id)} was mounted but is not in the mount table`)
      // The NFS daemon caches the file system of a device by name, and would take this volume for the previous one on the
      // same loop device unless the device looks changed.
      await runCommand('touch', ['--no-create', device])
    },

    async mounted() {
      const points = [...(await findMounts()).keys()]
      return points.filter((point) => path.dirname(point) === mounts).map((point) => path.basename(point))
    },

    async remove(id) {
      await unmount(id)
      await fs.rm(`${fileOf(id)}.new`, { force: true })
      await removeDurably(fileOf(id))
    },

    async room() {
      const { bavail, bsize } = await fs.statfs(files)
      let takenBytes = 0
      for (const name of await fs.readdir(files)) {
        // May be removed concurrently.
        const found = await fs.stat(path.join(files, name)).catch(nullIfGone)
        takenBytes += (found?.blocks ?? 0) * STAT_BLOCK_BYTES
      }
      return { freeBytes: bavail * bsize, takenBytes }
    },
  }
}

function nullIfGone(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT') return null
  throw error
}

/** The most bytes a volume can use. */
export function bytesOf(sizeGb: number): number {
  return sizeGb * BYTES_PER_GB
}

/** Mount points with their device; of stacked mounts the topmost. */
async function findMounts(): Promise<Map<string, string>> {
  const lines = (await fs.readFile('/proc/self/mountinfo', 'utf8')).split('\n')
  return new Map(
    lines.flatMap((line): Array<[string, string]> => {
      const fields = line.split(' ')
      const point = fields[4]
      const source = fields[fields.indexOf('-') + 2]
      return point === undefined || source === undefined ? [] : [[point, source]]
    }),
  )
}

async function backingFile(device: string): Promise<string | undefined> {
  const file = path.join('/sys/block', path.basename(device), 'loop/backing_file')
  return fs.readFile(file, 'utf8').then(
    (text) => text.trimEnd(),
    () => undefined,
  )
}

async function exists(file: string): Promise<boolean> {
  return (await fs.stat(file).catch(nullIfGone)) !== null
}
