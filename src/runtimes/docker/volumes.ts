/**
 * Volumes of containers: files with an ext4 on this host, mounted here while a container has them and bound into it. A
 * container sees only the folder `data` of a volume, never what is above it; without the mount that folder does not
 * exist, so a container cannot start without its volume and write to the disk of the host instead. The container engine
 * resolves the path inside the container, so links of an image lead nowhere else.
 */
import { existsSync } from 'node:fs'
import fs from 'node:fs/promises'
import path from 'node:path'
import type { Disk, HostVolumeStatus, DesiredVolume } from '../../contract/agent.ts'
import { NeverStarts, type RuntimeVolumes } from '../runtime.ts'
import { findProgram } from '../run-program.ts'
import type { ListedContainer } from './reply.ts'
import { mountPointIn, openVolumeImages, type VolumeImages } from '../storage/volume-image.ts'

export const VOLUMES_LABEL = 'berth.volumes'
const DATA = 'data'
/** Programs in containers run as any user. Others cannot reach the folder. */
const ANYONE = 0o777
const ID = /^[A-Za-z0-9][\w.-]{0,100}$/

/** undefined: this host can have volumes. */
export function whyNoVolumes(): string | undefined {
  if (process.platform !== 'linux') return 'they need Linux'
  if (process.getuid?.() !== 0) return 'the agent does not run as root'
  if (!existsSync('/dev/loop-control')) return 'the kernel has no loop devices'
  try {
    for (const program of ['mke2fs', 'filefrag', 'mount', 'losetup']) findProgram(program)
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

/** The mounts as the container daemon takes them. */
export function volumeMounts(disks: readonly Disk[], folder: string): unknown[] {
  return disks.map(({ volumeId, path: target, readOnly = false }) => {
    const source = path.join(mountPointIn(folder, volumeId), DATA)
    return { Type: 'bind', Source: source, Target: target, ReadOnly: readOnly }
  })
}

/** Reads a container's disks from its label. */
export function disksOf({ Labels }: Pick<ListedContainer, 'Labels'>): string[] {
  return Labels[VOLUMES_LABEL]?.split(',') ?? []
}

/** Starts a container with its volumes mounted on the host. */
export async function withVolumes(
  volumes: ContainerVolumes | undefined,
  disks: readonly Disk[],
  start: () => Promise<void>,
): Promise<void> {
  if (disks.length === 0) return start()
  if (volumes === undefined) throw new NeverStarts('volume_unavailable', 'The host of this container has no volumes.')
  try {
    await volumes.prepare(disks)
    await start()
  } finally {
    volumes.settle(disks)
  }
}

export class ContainerVolumes implements RuntimeVolumes {
  readonly #folder: string
  #images: VolumeImages | undefined
  /** Volumes of containers that are about to start. */
  readonly #needed = new Map<string, number>()
  /** One at a time: a volume must not be unmounted for one container while it is mounted for the next. */
  #last: Promise<unknown> = Promise.resolve()

  constructor(folder: string) {
    this.#folder = folder
  }

  async list(): Promise<HostVolumeStatus[]> {
    return (await this.#open()).list()
  }

  async create({ id, sizeGb, reserved, copyOf }: DesiredVolume, signal: AbortSignal): Promise<void> {
    const images = await this.#open()
    checkId(id)
    if ((await images.list()).some((one) => one.id === id)) return
    const options = { isReserved: reserved, signal }
    if (copyOf === undefined) return images.make(id, sizeGb, options)
    checkId(copyOf)
    await this.#inTurn(() => images.unmount(copyOf))
    await images.copy(copyOf, id, options)
  }

  async grow({ id, sizeGb, reserved }: DesiredVolume, signal: AbortSignal): Promise<void> {
    const images = await this.#open()
    await this.#inTurn(() => images.grow(id, sizeGb, { isReserved: reserved, signal }))
  }

  /** Fails while a container has it. */
  async destroy(id: string): Promise<void> {
    const images = await this.#open()
    await this.#inTurn(async () => {
      await images.unmount(id)
      await images.remove(id)
    })
  }

  /** Mounts the volumes of a container for the time of its start. Call `settle` afterwards, whatever happened. */
  async prepare(disks: readonly Disk[]): Promise<void> {
    for (const { volumeId: id } of disks) this.#needed.set(id, (this.#needed.get(id) ?? 0) + 1)
    const images = await this.#open()
    for (const disk of disks) {
      if (disk.source.kind !== 'file' || disk.path === undefined || !ID.test(disk.volumeId)) {
        throw new NeverStarts('volume_unavailable', `The volume ${disk.label} cannot be mounted in a container.`)
      }
      const { volumeId: id } = disk
      await this.#inTurn(async () => {
        await images.mount(id)
        await makeData(path.join(images.mountPoint(id), DATA))
      })
    }
  }

  settle(disks: readonly Disk[]): void {
    for (const { volumeId: id } of disks) {
      const users = (this.#needed.get(id) ?? 1) - 1
      if (users === 0) this.#needed.delete(id)
      else this.#needed.set(id, users)
    }
  }

  /** Unmounts all that no container has. `inUse` is asked in turn, after every mount before. */
  async release(inUse: () => Promise<readonly string[]>): Promise<void> {
    const images = await this.#open()
    await this.#inTurn(async () => {
      const used = await inUse()
      for (const id of await images.mounted()) if (!used.includes(id) && !this.#needed.has(id)) await images.unmount(id)
    })
  }

  async #open(): Promise<VolumeImages> {
    this.#images ??= await openVolumeImages(this.#folder)
    return this.#images
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#last.then(work)
    this.#last = done.catch(() => {})
    return done
  }
}

/** A link in its place would lead out of the volume. */
async function makeData(folder: string): Promise<void> {
  try {
    await fs.mkdir(folder)
    await fs.chmod(folder, ANYONE)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'EEXIST')) throw error
    if (!(await fs.lstat(folder)).isDirectory()) {
      throw new NeverStarts('volume_unavailable', 'The volume is damaged: its data is not a folder.')
    }
  }
}

function checkId(id: string): void {
  if (!ID.test(id)) throw new Error(`${JSON.stringify(id)} is not a valid volume id`)
}
