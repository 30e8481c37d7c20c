/**
 * Volumes: qcow2 files that are attached to running machines. Attachments are queried from QEMU, never remembered. QEMU
 * locks open files, so a volume cannot be in two machines, and one in use cannot be destroyed. While attached, the file
 * belongs to the machine's user.
 */
import { createHash } from 'node:crypto'
import fs from 'node:fs/promises'
import path from 'node:path'
import type { Disk, HostVolumeStatus, DesiredVolume } from '../../contract/agent.ts'
import { within } from '../../base/within.ts'
import type { RuntimeVolumes } from '../runtime.ts'
import { copyExtents } from '../storage/extent-copy.ts'
import { DISK_BUS } from './command-line.ts'
import { isPlainName, isThere, makeFolder, unlessGone } from './machine-files.ts'
import { queryDevices } from './monitor-query.ts'
import { serialOf } from './mount-script.ts'
import type { Monitor } from './monitor.ts'
import { runProgram } from '../run-program.ts'

const IMAGE_MS = 60_000
/** The offset of the size in the header of a qcow2 file. */
const HEADER_SIZE_AT = 24
const BYTES_PER_GB = 2 ** 30
const STAT_BLOCK_BYTES = 512
const UNPLUG_MS = 20_000
const DEVICE = 'volume-'
const VENDOR = 'BERTH'
const MODEL_CHARS = 16
const ENDING = '.qcow2'

/** `resizeInMachine`: false if no machine has the volume. */
export function qemuVolumes(
  folder: string,
  resizeInMachine: (id: string, bytes: number) => Promise<boolean> = async () => false,
): RuntimeVolumes {
  return {
    list: async () => {
      const names = await fs.readdir(folder).catch(unlessGone<string[]>([]))
      const ids = names.filter((name) => name.endsWith(ENDING)).map((name) => name.slice(0, -ENDING.length))
      return Promise.all(ids.map((id) => findVolume(folder, id)))
    },
    create: async (volume: DesiredVolume, signal: AbortSignal) => {
      const file = volumeFile(folder, volume.id)
      if (await isThere(file)) return
      await makeFolder(folder)
      const partial = partialFile(folder, volume.id)
      await fs.rm(partial, { force: true })
      try {
        if (volume.copyOf === undefined) await makeImage(partial, volume, signal)
        else await copyImage(volumeFile(folder, volume.copyOf), partial, volume, signal)
        await fs.chmod(partial, 0o600)
        await fs.rename(partial, file)
      } catch (error) {
        // A partial file may have filled the disk.
        await fs.rm(partial, { force: true })
        throw error
      }
    },
    grow: async (volume: DesiredVolume, signal: AbortSignal) => {
      const file = volumeFile(folder, volume.id)
      const size = volume.sizeGb * BYTES_PER_GB
      // A running machine has the file open: only its QEMU can grow it.
      if (await resizeInMachine(volume.id, size)) return
      const options = volume.reserved ? ['--preallocation=falloc'] : []
      const args = ['resize', '-q', '-f', 'qcow2', ...options, file, String(size)]
      await runProgram('qemu-img', args, { signal, timeoutMs: IMAGE_MS })
    },
    destroy: async (id: string, signal: AbortSignal) => {
      const file = volumeFile(folder, id)
      await fs.rm(partialFile(folder, id), { force: true })
      if (!(await isThere(file))) return
      await assertUnused(file, signal)
      await fs.rm(file, { force: true })
    },
  }
}

async function makeImage(file: string, { sizeGb, reserved }: DesiredVolume, signal: AbortSignal): Promise<void> {
  const options = reserved ? ['-o', 'preallocation=falloc'] : []
  await runProgram('qemu-img', ['create', '-q', '-f', 'qcow2', ...options, file, `${sizeGb}G`], {
    signal,
    timeoutMs: IMAGE_MS,
  })
}

/** Copies the image as a file, because qemu-img reads all blocks of an image whose blocks are reserved. */
async function copyImage(from: string, to: string, { reserved }: DesiredVolume, signal: AbortSignal): Promise<void> {
  await assertUnused(from, signal)
  await copyExtents(from, to, { signal })
  const { size } = await fs.stat(to)
  if (reserved) await runProgram('fallocate', ['-l', String(size), to], { signal, timeoutMs: IMAGE_MS })
}

/** Throws while a machine has locked the file. */
async function assertUnused(file: string, signal: AbortSignal): Promise<void> {
  await runProgram('qemu-img', ['info', '-f', 'qcow2', file], { signal, timeoutMs: IMAGE_MS }).catch(
    (error: unknown) => {
      const isLocked = error instanceof Error && error.message.includes('lock')
      throw isLocked ? new Error(`The volume ${path.basename(file, ENDING)} is in use`) : error
    },
  )
}

/** QEMU stores the size in the header of the file. Blocks that were reserved for it do not count as used. */
async function findVolume(folder: string, id: string): Promise<HostVolumeStatus> {
  const file = await fs.open(volumeFile(folder, id), 'r')
  try {
    const { buffer } = await file.read({ buffer: Buffer.alloc(8), position: HEADER_SIZE_AT })
    const sizeGb = Math.floor(Number(buffer.readBigUInt64BE()) / BYTES_PER_GB)
    const { blocks } = await file.stat()
    const usedGb = (blocks * STAT_BLOCK_BYTES) / BYTES_PER_GB
    return { id, sizeGb, usedGb: usedGb >= sizeGb ? null : Math.round(usedGb * 10) / 10 }
  } finally {
    await file.close()
  }
}

/** Grows the volume in the machine that has it, which sees the new size at once. Returns false if no machine has it. */
export async function resizePlugged(
  machines: readonly string[],
  monitorOf: (machine: string) => Promise<Monitor>,
  id: string,
  bytes: number,
): Promise<boolean> {
  for (const machine of machines) {
    const monitor = await monitorOf(machine)
    if (!(await pluggedVolumes(monitor)).includes(id)) continue
    await monitor.execute('block_resize', { 'node-name': nodeOf(id), size: bytes })
    return true
  }
  return false
}

export async function pluggedVolumes(monitor: Monitor): Promise<string[]> {
  const devices = await queryDevices(monitor)
  return devices.filter((name) => name.startsWith(DEVICE)).map((name) => name.slice(DEVICE.length))
}

export interface Socket {
  readonly monitor: Monitor
  /** QEMU's working folder: it may not be able to traverse absolute paths. */
  readonly from: string
  readonly folder: string
  /** The user of the process. */
  readonly user: number
}

/** Detaches first, then attaches. */
export async function setVolumes(socket: Socket, disks: readonly Disk[]): Promise<void> {
  const plugged = await pluggedVolumes(socket.monitor)
  for (const id of plugged) if (!disks.some((disk) => disk.volumeId === id)) await unplug(socket, id)
  for (const disk of disks) {
    if (disk.source.kind !== 'file') {
      throw new Error(`The volume ${disk.label} is shared storage and cannot be attached to a virtual machine`)
    }
    if (!plugged.includes(disk.volumeId)) await plugIn(socket, disk)
  }
}

async function plugIn({ monitor, from, folder, user }: Socket, disk: Disk): Promise<void> {
  const { volumeId: id, label, sizeGb, readOnly = false } = disk
  const node = nodeOf(id)
  const file = volumeFile(folder, id)
  await removeNode(monitor, node)
  await giveTo(file, user)
  await monitor.execute('blockdev-add', {
    driver: 'qcow2',
    'node-name': node,
    'read-only': readOnly,
    // Discards of the guest would free the blocks reserved for the volume.
    discard: (await isReserved(file, sizeGb)) ? 'ignore' : 'unmap',
    file: { driver: 'file', filename: path.relative(from, file), 'read-only': readOnly },
  })
  // The label is for its owner; the serial is unique.
  const identity = { vendor: VENDOR, product: modelOf(label), serial: serialOf(id) }
  const device = { driver: 'scsi-hd', bus: DISK_BUS, drive: node, id: `${DEVICE}${id}`, ...identity }
  try {
    await monitor.execute('device_add', device)
  } catch (error) {
    await removeNode(monitor, node)
    throw error
  }
}

async function unplug({ monitor, folder }: Socket, id: string): Promise<void> {
  const device = `${DEVICE}${id}`
  let stop = (): void => {}
  const deletion = new Promise<void>((resolve) => {
    stop = monitor.onEvent(({ event, data }) => {
      if (event === 'DEVICE_DELETED' && data.device === device) resolve()
    })
  })
  try {
    await monitor.execute('device_del', { id: device })
    await within(UNPLUG_MS, deletion, `The machine did not release the volume ${id} within ${UNPLUG_MS} ms`)
  } finally {
    stop()
  }
  await monitor.execute('blockdev-del', { 'node-name': nodeOf(id) })
  await giveTo(volumeFile(folder, id), ownUser())
}

/** Volumes that were attached when the machine ended. */
export async function takeBack(folder: string, user: number): Promise<void> {
  for (const name of await fs.readdir(folder).catch(unlessGone<string[]>([]))) {
    const file = path.join(folder, name)
    const { uid } = await fs.stat(file)
    if (uid === user) await giveTo(file, ownUser())
  }
}

function ownUser(): number {
  return process.getuid?.() ?? 0
}

async function giveTo(file: string, user: number): Promise<void> {
  const { uid } = await fs.stat(file)
  if (uid !== user) await fs.chown(file, user, user)
}

async function isReserved(file: string, sizeGb: number): Promise<boolean> {
  const { blocks } = await fs.stat(file)
  return blocks * STAT_BLOCK_BYTES >= sizeGb * BYTES_PER_GB
}

/** Closes leftovers of an earlier attempt; usually there are none. */
async function removeNode(monitor: Monitor, node: string): Promise<void> {
  await monitor.execute('blockdev-del', { 'node-name': node }).catch((error: unknown) => {
    if (!(error instanceof Error && error.message.includes('Failed to find node'))) throw error
  })
}

function volumeFile(folder: string, id: string): string {
  if (!isPlainName(id)) throw new Error(`${JSON.stringify(id)} is not a valid file name`)
  return path.join(folder, `${id}${ENDING}`)
}

function partialFile(folder: string, id: string): string {
  return `${volumeFile(folder, id)}.new`
}

function modelOf(label: string): string {
  return label.replaceAll(/[^\w.-]/g, '-').slice(0, MODEL_CHARS)
}

/** QEMU limits these names to 31 characters. */
function nodeOf(id: string): string {
  return `v${createHash('sha256').update(id).digest('hex').slice(0, 30)}`
}
