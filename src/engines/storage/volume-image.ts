/**
 * The data of volumes: files, each with an ext4 of exactly its size, mounted from a loop device while somebody may use
 * it. So a full volume is full for its owner alone, and one that is not in use is a plain file that can be copied. The
 * blocks of a file are reserved when it is made, unless the operator promises the disk several times over.
 */
import fs from 'node:fs/promises'
import path from 'node:path'
import { runCommand } from './command.ts'
import { removeDurably, syncFolder } from '../durable-file.ts'

const BYTES_PER_GB = 2 ** 30
const STAT_BLOCK_BYTES = 512
/** Mounts that lie over each other are taken off one by one. */
const MAX_STACKED = 16

export interface VolumeImages {
  mountPoint(id: string): string
  /** Makes it whole, or throws and leaves nothing behind. */
  make(id: string, sizeGb: number, options: { isReserved: boolean; signal: AbortSignal }): Promise<void>
  /** What is wrong with its file. null: it is there in its size. */
  faultOf(id: string, sizeGb: number): Promise<string | null>
  mount(id: string): Promise<void>
  unmount(id: string): Promise<void>
  /** The ids of all that are mounted. */
  mounted(): Promise<string[]>
  remove(id: string): Promise<void>
  /** How many bytes of the disk are free, and how many the images have taken of it so far. */
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
        // Without nodiscard mke2fs gives the reserved blocks back.
        const options = 'nodiscard,lazy_itable_init=1,lazy_journal_init=1,root_owner=0:0'
        await runCommand('mke2fs', ['-t', 'ext4', '-F', '-q', '-m', '0', '-E', options, fresh], signal)
        await runCommand('sync', [fresh])
        await fs.rename(fresh, file)
        await syncFolder(files)
      } catch (error) {
        // What broke off half-way may have taken the last of the disk.
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
      // The NFS daemon remembers by its name which file system a device has, and would take this one for the one that
      // was on the same loop device before it, unless the device looks changed.
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
        // It may be removed while we look.
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

/** How many bytes a volume may come to take. */
export function bytesOf(sizeGb: number): number {
  return sizeGb * BYTES_PER_GB
}

/** Every mount point with the device on it; where several lie over each other, the uppermost. */
async function findMounts(): Promise<Map<string, string>> {
  const lines = (await fs.readFile('/proc/self/mountinfo', 'utf8')).split('\n')
  return new Map(
    lines.flatMap((line): Array<[string, string]> => {
      const words = line.split(' ')
      const point = words[4]
      const source = words[words.indexOf('-') + 2]
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
