/**
 * Volume data: files with an ext4 of exactly their size, loop-mounted while they have clients. A full volume affects only
 * its owner, and an unused one is a plain file that can be copied. Blocks are reserved on creation unless the operator
 * overcommits the disk.
 */
import fs from 'node:fs/promises'
import path from 'node:path'
import type { HostVolumeStatus } from '../../contract/agent.ts'
import { runCommand } from './command.ts'
import { copyExtents } from './extent-copy.ts'
import { removeDurably, syncFolder } from '../durable-file.ts'

const BYTES_PER_GB = 2 ** 30
const STAT_BLOCK_BYTES = 512
const ENDING = '.img'
const SUPERBLOCK_AT = 1_024
const SUPERBLOCK_BYTES = 1_024
const EXT4_MAGIC = 0xef53
/** Stacked mounts are removed one by one. */
const MAX_STACKED = 16

interface WriteOptions {
  readonly isReserved: boolean
  readonly signal: AbortSignal
}

export interface VolumeImages {
  mountPoint(id: string): string
  /** Throws without leaving anything behind. */
  make(id: string, sizeGb: number, options: WriteOptions): Promise<void>
  /** Describes the problem with the file. null: it exists with its size. */
  faultOf(id: string, sizeGb: number): Promise<string | null>
  mount(id: string): Promise<void>
  unmount(id: string): Promise<void>
  /** Ids of mounted volumes. */
  mounted(): Promise<string[]>
  remove(id: string): Promise<void>
  list(): Promise<HostVolumeStatus[]>
  /** Works on mounted and unmounted volumes. */
  grow(id: string, sizeGb: number, options: WriteOptions): Promise<void>
  /** Copies an unmounted volume. Shares blocks if the disk can. Throws without leaving anything behind. */
  copy(from: string, to: string, options: WriteOptions): Promise<void>
  /** Free bytes of the disk, and bytes used by images. */
  room(): Promise<{ freeBytes: number; takenBytes: number }>
}

const MOUNTS = 'mnt'
const IMAGES = 'images'

export function mountPointIn(folder: string, id: string): string {
  return path.join(folder, MOUNTS, id)
}

export async function openVolumeImages(folder: string): Promise<VolumeImages> {
  for (const one of [IMAGES, MOUNTS]) await fs.mkdir(path.join(folder, one), { recursive: true, mode: 0o700 })
  return new LoopImages(folder)
}

class LoopImages implements VolumeImages {
  readonly #folder: string
  readonly #files: string

  constructor(folder: string) {
    this.#folder = folder
    this.#files = path.join(folder, IMAGES)
  }

  mountPoint(id: string): string {
    return mountPointIn(this.#folder, id)
  }

  async unmount(id: string): Promise<void> {
    const point = this.mountPoint(id)
    for (let layer = 0; (await findMounts()).has(point); layer += 1) {
      if (layer === MAX_STACKED) throw new Error(`Too many mounts are stacked on ${point}`)
      await runCommand('umount', [point])
    }
    if (await exists(point)) await fs.rmdir(point)
  }

  async make(id: string, sizeGb: number, { isReserved, signal }: WriteOptions): Promise<void> {
    const file = this.#fileOf(id)
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
      await syncFolder(this.#files)
    } catch (error) {
      // A partial file may have filled the disk.
      await fs.rm(fresh, { force: true })
      throw error
    }
  }

  async faultOf(id: string, sizeGb: number): Promise<string | null> {
    const stats = await fs.stat(this.#fileOf(id)).catch(nullIfGone)
    if (stats === null) return `${this.#fileOf(id)} is missing`
    return stats.isFile() && stats.size === bytesOf(sizeGb) ? null : `${this.#fileOf(id)} does not have ${sizeGb} GB`
  }

  async mount(id: string): Promise<void> {
    const source = (await findMounts()).get(this.mountPoint(id))
    if (source !== undefined) {
      if ((await backingFile(source)) === this.#fileOf(id)) return
      await this.unmount(id)
    }
    await fs.mkdir(this.mountPoint(id), { recursive: true, mode: 0o700 })
    const options = 'loop,nosuid,nodev,noatime,errors=remount-ro'
    await runCommand('mount', ['-t', 'ext4', '-o', options, this.#fileOf(id), this.mountPoint(id)])
    const device = (await findMounts()).get(this.mountPoint(id))
    if (device === undefined) throw new Error(`${this.mountPoint(id)} was mounted but is not in the mount table`)
    // The NFS daemon caches the file system of a device by name. Unless the device looks changed, it would mistake this
    // volume for the previous one on the same loop device.
    await runCommand('touch', ['--no-create', device])
  }

  async mounted(): Promise<string[]> {
    const points = [...(await findMounts()).keys()]
    return points
      .filter((point) => path.dirname(point) === path.join(this.#folder, MOUNTS))
      .map((point) => path.basename(point))
  }

  async remove(id: string): Promise<void> {
    await this.unmount(id)
    await fs.rm(`${this.#fileOf(id)}.new`, { force: true })
    await removeDurably(this.#fileOf(id))
  }

  async list(): Promise<HostVolumeStatus[]> {
    const volumes: HostVolumeStatus[] = []
    for (const name of await fs.readdir(this.#files)) {
      if (!name.endsWith(ENDING)) continue
      const id = name.slice(0, -ENDING.length)
      const device = (await findMounts()).get(this.mountPoint(id))
      // The file may be removed concurrently.
      const system = await readFileSystem(device ?? this.#fileOf(id)).catch(nullIfGone)
      if (system === null) continue
      const usedBytes = device === undefined ? system.usedBytes : await usedIn(this.mountPoint(id))
      const usedGb = usedBytes === null ? null : Math.round((usedBytes / BYTES_PER_GB) * 10) / 10
      volumes.push({ id, sizeGb: Math.floor(system.bytes / BYTES_PER_GB), usedGb })
    }
    return volumes
  }

  async grow(id: string, sizeGb: number, { isReserved, signal }: WriteOptions): Promise<void> {
    const file = this.#fileOf(id)
    const { size } = await fs.stat(file)
    const bytes = bytesOf(sizeGb)
    if (isReserved) await runCommand('fallocate', ['-l', String(bytes), file], signal)
    if (size < bytes) await fs.truncate(file, bytes)
    const device = (await findMounts()).get(this.mountPoint(id))
    if (device === undefined) {
      // Exit status 1: errors were corrected.
      await runCommand('e2fsck', ['-f', '-p', file], signal).catch((error: unknown) => {
        if (!isExit(error, 1)) throw error
      })
      await runCommand('resize2fs', [file], signal)
    } else {
      await runCommand('losetup', ['--set-capacity', device], signal)
      await runCommand('resize2fs', [device], signal)
    }
  }

  async copy(from: string, to: string, { isReserved, signal }: WriteOptions): Promise<void> {
    const fresh = `${this.#fileOf(to)}.new`
    try {
      await fs.rm(fresh, { force: true })
      await copyExtents(this.#fileOf(from), fresh, { signal })
      const { size } = await fs.stat(fresh)
      if (isReserved) await runCommand('fallocate', ['-l', String(size), fresh], signal)
      await runCommand('sync', [fresh], signal)
      await fs.rename(fresh, this.#fileOf(to))
      await syncFolder(this.#files)
    } catch (error) {
      await fs.rm(fresh, { force: true })
      throw error
    }
  }

  async room(): Promise<{ freeBytes: number; takenBytes: number }> {
    const { bavail, bsize } = await fs.statfs(this.#files)
    let takenBytes = 0
    for (const name of await fs.readdir(this.#files)) {
      // The file may be removed concurrently.
      const stats = await fs.stat(path.join(this.#files, name)).catch(nullIfGone)
      takenBytes += (stats?.blocks ?? 0) * STAT_BLOCK_BYTES
    }
    return { freeBytes: bavail * bsize, takenBytes }
  }

  #fileOf(id: string): string {
    return path.join(this.#files, `${id}${ENDING}`)
  }
}

/**
 * Reads the size of the file system, which is less than the size of its file while it grows, and the bytes in use,
 * which are current after a clean unmount. null: unknown.
 */
async function readFileSystem(file: string): Promise<{ bytes: number; usedBytes: number | null }> {
  const handle = await fs.open(file, 'r')
  try {
    const { buffer } = await handle.read({ buffer: Buffer.alloc(SUPERBLOCK_BYTES), position: SUPERBLOCK_AT })
    if (buffer.readUInt16LE(0x38) !== EXT4_MAGIC) return { bytes: 0, usedBytes: null }
    const blockBytes = 2 ** (10 + buffer.readUInt32LE(0x18))
    const blocks = buffer.readUInt32LE(0x4) + buffer.readUInt32LE(0x150) * 2 ** 32
    const free = buffer.readUInt32LE(0xc) + buffer.readUInt32LE(0x158) * 2 ** 32
    const overhead = buffer.readUInt32LE(0x248)
    const usedBytes = overhead === 0 ? null : Math.max(0, blocks - free - overhead) * blockBytes
    return { bytes: blocks * blockBytes, usedBytes }
  } finally {
    await handle.close()
  }
}

async function usedIn(mountPoint: string): Promise<number> {
  const { blocks, bfree, bsize } = await fs.statfs(mountPoint)
  return (blocks - bfree) * bsize
}

function isExit(error: unknown, status: number): boolean {
  const { cause } = error as { cause?: unknown }
  return typeof cause === 'object' && cause !== null && 'code' in cause && cause.code === status
}

function nullIfGone(error: NodeJS.ErrnoException): null {
  if (error.code === 'ENOENT') return null
  throw error
}

/** The most bytes a volume can use. */
export function bytesOf(sizeGb: number): number {
  return sizeGb * BYTES_PER_GB
}

/** Returns mount points with their device; for stacked mounts, the topmost device. */
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
