/**
 * Turns containers off and on. Docker fixes the GPUs of a container when it is created, so one that gets others is
 * created anew from an image of its files, with its volumes. Each step is stored before it is taken: whenever the agent
 * dies, the next start goes on with the same disk, or with none at all. A container that is being removed has only some
 * of its files left, so it is never made into an image.
 */
import type { Workload } from '../../contract/agent.ts'
import { NeverStarts } from '../runtime.ts'
import { DockerRefused, type DockerClient } from './client.ts'
import type { ContainerMaker } from './container-maker.ts'
import { GPUS_LABEL, gpusText, nameOf, type KeptVolume } from './container-order.ts'
import type { Container, Info } from './reply.ts'
import type { WorkloadFile, WorkloadFiles } from './workload-file.ts'

export interface ContainerPowerOptions {
  readonly client: DockerClient
  readonly files: WorkloadFiles
  readonly maker: ContainerMaker
  /** How long a program gets to end by itself. */
  readonly stopGraceS?: number
}

const STOP_GRACE_S = 10
/** A name keeps the image from being pruned, and finds it when its id was not stored. */
export const DISK_IMAGE = 'berth-disk'
/** The names that the daemon gives to volumes of images. */
const ANONYMOUS = /^[0-9a-f]{64}$/

export class ContainerPower {
  readonly #options: ContainerPowerOptions

  constructor(options: ContainerPowerOptions) {
    this.#options = options
  }

  get #graceS(): number {
    return this.#options.stopGraceS ?? STOP_GRACE_S
  }

  async halt(id: string, signal: AbortSignal): Promise<void> {
    const { client, files } = this.#options
    const container = await client.container(nameOf(id), signal)
    if (container === undefined) return
    await files.keepHalted(id, container.State.StartedAt).catch((error: unknown) => {
      // Damaged files must not keep it from being turned off; it is listed as failed.
      if (!(error instanceof NeverStarts)) throw error
    })
    if (container.State.Status === 'running' || container.State.Status === 'paused')
      await client.stopContainer(nameOf(id), 'stop', this.#graceS, signal)
  }

  /** Ends it at once. It has not failed, and can be started again. */
  async cut(id: string): Promise<void> {
    const { client, files } = this.#options
    const container = await client.container(nameOf(id))
    if (container === undefined) return
    await files.keepHalted(id, container.State.StartedAt)
    await client.killContainer(nameOf(id))
  }

  async reboot(id: string, count: number, signal: AbortSignal): Promise<void> {
    const { client, files } = this.#options
    const container = await client.container(nameOf(id), signal)
    if (container === undefined) throw new Error(`${nameOf(id)} is gone`)
    await files.keepReboots(id, count, container.State.StartedAt)
    await client.stopContainer(nameOf(id), 'restart', this.#graceS, signal)
  }

  /** Whether the container was turned off on request, and has not run since. */
  static isHalted(file: WorkloadFile | undefined, container: Container): boolean {
    return file?.halted !== undefined && file.halted === container.State.StartedAt
  }

  /** Whether it must be created anew. A container that is gone or going was removed on the way to other GPUs. */
  needsMove(workload: Workload, file: WorkloadFile, container: Container | undefined): boolean {
    if (container === undefined || isGoing(container.State.Status)) return file.disk?.isMoving === true
    // Containers from before the label: which GPUs they have is not known.
    return container.Config.Labels[GPUS_LABEL] !== gpusText(workload)
  }

  /** Creates a container that is off anew, with the GPUs of the workload and the same files. */
  async move(
    workload: Workload,
    file: WorkloadFile,
    container: Container | undefined,
    info: Info,
    signal: AbortSignal,
  ): Promise<void> {
    const { client, files, maker } = this.#options
    const { id } = workload
    let { disk } = file
    if (container !== undefined && !isGoing(container.State.Status)) {
      await this.#removeImage(diskImageOf(id), signal)
      disk = {
        image: await client.commitContainer(container.Id, { repo: DISK_IMAGE, tag: id }, signal),
        volumes: anonymousVolumes(container),
        isMoving: true,
      }
      await files.keepDisk(id, disk)
    }
    if (disk === undefined) throw new Error(`the disk of ${nameOf(id)} is gone`)
    if (container !== undefined) await maker.replace(id, container.Id, signal)
    await maker.make(workload, disk.image, info, signal, disk.volumes)
    await files.keepDisk(id, { ...disk, isMoving: false })
  }

  /** Removes the disk of a container that is gone. */
  async forget(id: string, file: WorkloadFile | undefined, signal: AbortSignal): Promise<void> {
    const { client } = this.#options
    for (const { name } of file?.disk?.volumes ?? []) await client.removeVolume(name, signal)
    if (file?.disk !== undefined) await client.removeImage(file.disk.image, signal)
    await client.removeImage(diskImageOf(id), signal)
  }

  /** Removes an earlier image, unless the container was created from it: then only its name moves on. */
  async #removeImage(name: string, signal: AbortSignal): Promise<void> {
    try {
      await this.#options.client.removeImage(name, signal)
    } catch (error) {
      if (!(error instanceof DockerRefused) || error.status !== 409) throw error
    }
  }
}

/** `dead`: the daemon ended while it removed it. */
export function isGoing(status: string): boolean {
  return status === 'removing' || status === 'dead'
}

function diskImageOf(id: string): string {
  return `${DISK_IMAGE}:${id}`
}

export function anonymousVolumes({ Mounts }: Container): KeptVolume[] {
  return Mounts.flatMap(({ Type, Name, Destination }) =>
    Type === 'volume' && Name !== undefined && Destination !== undefined && ANONYMOUS.test(Name)
      ? [{ name: Name, path: Destination }]
      : [],
  )
}
