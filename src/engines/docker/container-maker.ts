/** Creates a container and its network. */
import type { Workload } from '../../contract/agent.ts'
import { DockerRefused, type DockerClient } from './client.ts'
import { startFault } from './container-end.ts'
import {
  chooseCpus,
  containerOrder,
  CPUS_LABEL,
  gpuModeOf,
  ID_LABEL,
  nameOf,
  networkOrder,
  TAG_LABEL,
  type DockerGpu,
  type GpuMode,
} from './container-order.ts'
import type { ImageName } from './image-name.ts'
import { hostProcesses } from './notes.ts'
import type { Info } from './reply.ts'

export interface ContainerMakerOptions {
  readonly client: DockerClient
  readonly gpus: readonly DockerGpu[]
  readonly gpuMode?: GpuMode
  readonly portAddress: string
}

export class ContainerMaker {
  readonly #options: ContainerMakerOptions
  /** The storage driver enforces disk limits. undefined: not asked yet. */
  diskQuota: boolean | undefined
  #pinsCpus = true
  /** Serialised: two at a time would choose the same CPUs. */
  #creating: Promise<unknown> = Promise.resolve()

  constructor(options: ContainerMakerOptions) {
    this.#options = options
  }

  async make(workload: Workload, image: ImageName, info: Info, signal: AbortSignal): Promise<void> {
    await this.#ensureNetwork(workload, signal)
    const made = this.#creating.then(() => this.#create(workload, image, info, signal))
    this.#creating = made.catch(() => {})
    return made
  }

  async #ensureNetwork(workload: Workload, signal: AbortSignal): Promise<void> {
    const { client } = this.#options
    const there = await client.networks(`${ID_LABEL}=${workload.id}`, signal)
    if (there.length > 0) return
    try {
      await client.createNetwork(networkOrder(workload), signal)
    } catch (error) {
      // Some engines cannot name the bridge. Firewall rules by name then do not apply; the notes say so.
      if (!(error instanceof DockerRefused) || !/option|bridge\.name/i.test(error.message)) throw error
      await client.createNetwork({ ...networkOrder(workload), Options: {} }, signal)
    }
  }

  /** Some limits of a daemon show only when it refuses: those options are dropped, and the call repeated. */
  async #create(workload: Workload, image: ImageName, info: Info, signal: AbortSignal): Promise<void> {
    const { client, gpus, gpuMode, portAddress } = this.#options
    const neighbours = await client.containers(TAG_LABEL, signal)
    const taken = neighbours.flatMap(({ Labels }) => Labels[CPUS_LABEL] ?? [])
    const cpus = this.#pinsCpus ? chooseCpus(workload.spec?.resources.cpuCount ?? 1, info, taken) : undefined
    const diskQuota = this.diskQuota === true
    const order = containerOrder(workload, {
      image: image.full,
      info,
      gpus,
      gpuMode: gpuMode ?? gpuModeOf(info),
      diskQuota,
      cpus,
      portAddress,
      hostProcesses: await hostProcesses(),
    })
    try {
      await client.createContainer(nameOf(workload.id), order, signal)
    } catch (error) {
      const message = error instanceof DockerRefused ? error.message : ''
      if (diskQuota && /storage-opt|quota/i.test(message)) this.diskQuota = false
      else if (cpus !== undefined && /cpuset|requested cpus/i.test(message)) this.#pinsCpus = false
      else throw startFault(error)
      await this.#create(workload, image, info, signal)
    }
  }
}
