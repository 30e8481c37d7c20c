/** Creates and removes a container and its network. */
import { setTimeout as pause } from 'node:timers/promises'
import type { Workload } from '../../contract/agent.ts'
import { DockerRefused, type DockerClient } from './client.ts'
import type { CompileCaches } from './compile-cache.ts'
import { fileFault, startFault } from './container-end.ts'
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
  type KeptVolume,
  type OrderOptions,
  type GpuMode,
} from './container-order.ts'
import { fileArchive } from './file-archive.ts'
import { hostfileOf } from './group-network.ts'
import { hostProcesses } from './notes.ts'
import type { Info } from './reply.ts'
import type { HostDownloads } from './weights.ts'

export interface ContainerMakerOptions {
  readonly client: DockerClient
  readonly gpus: readonly DockerGpu[]
  readonly gpuMode?: GpuMode
  readonly portAddress: string
  readonly volumeFolder?: string
  readonly downloads?: HostDownloads | undefined
  readonly caches: CompileCaches
  readonly noticeFolder: string
}

const MAX_GONE_TRIES = 100
const GONE_EVERY_MS = 100
/** Covers the time to copy its files. */
const REPLACE_MS = 30 * 60_000

type Source = Pick<OrderOptions, 'image' | 'info' | 'keptVolumes' | 'program'>

export class ContainerMaker {
  readonly #options: ContainerMakerOptions
  /** The storage driver enforces disk limits. undefined: not asked yet. */
  diskQuota: boolean | undefined
  #pinsCpus = true
  /** Serialized: two at a time would choose the same CPUs. */
  #creating: Promise<unknown> = Promise.resolve()

  constructor(options: ContainerMakerOptions) {
    this.#options = options
  }

  /** `image`: its name or id. */
  async make(
    workload: Workload,
    image: string,
    info: Info,
    signal: AbortSignal,
    keptVolumes?: readonly KeptVolume[],
  ): Promise<void> {
    await this.#ensureNetwork(workload, signal)
    const program = workload.group === undefined ? undefined : (await this.#options.client.image(image, signal))?.Config
    const from = {
      image,
      info,
      ...(program === undefined ? {} : { program }),
      ...(keptVolumes === undefined ? {} : { keptVolumes }),
    }
    const creation = this.#creating.then(() => this.#create(workload, from, signal))
    this.#creating = creation.catch(() => {})
    return creation
  }

  /** Before the first start: later the files are the customer's. */
  async putFiles({ id, spec, group }: Workload, signal: AbortSignal): Promise<void> {
    const hostfile = group === undefined ? [] : [hostfileOf(group, spec?.gpuCount ?? 1)]
    const files = [...hostfile, ...(spec?.program?.files ?? [])]
    if (files.length === 0) return
    try {
      await this.#options.client.putFiles(nameOf(id), await fileArchive(files), signal)
    } catch (error) {
      throw fileFault(error)
    }
  }

  async remove(id: string, signal: AbortSignal): Promise<void> {
    const { client } = this.#options
    const label = `${ID_LABEL}=${id}`
    for (let tries = 1; ; tries += 1) {
      const containers = await client.containers(label, signal)
      if (containers.length === 0) break
      if (tries > MAX_GONE_TRIES) throw new Error(`${nameOf(id)} cannot be removed`)
      if (tries > 1) await pause(GONE_EVERY_MS)
      for (const container of containers) await client.removeContainer(container.Id, signal)
    }
    for (const network of await client.networks(label, signal)) await client.removeNetwork(network.Id, signal)
  }

  /** Removes a container whose disk is kept otherwise, until its name is free. The daemon may need long for many files. */
  async replace(id: string, containerId: string, signal: AbortSignal): Promise<void> {
    const { client } = this.#options
    for (const until = performance.now() + REPLACE_MS; ; await pause(GONE_EVERY_MS, undefined, { signal })) {
      await client.removeContainer(containerId, signal, true)
      const remaining = await client.containers(`${ID_LABEL}=${id}`, signal)
      if (remaining.every(({ Id }) => Id !== containerId)) return
      if (performance.now() > until) throw new Error(`${nameOf(id)} is not removed yet`)
    }
  }

  async #ensureNetwork(workload: Workload, signal: AbortSignal): Promise<void> {
    const { client } = this.#options
    const networks = await client.networks(`${ID_LABEL}=${workload.id}`, signal)
    if (networks.length > 0) return
    try {
      await client.createNetwork(networkOrder(workload), signal)
    } catch (error) {
      // Some engines cannot name the bridge. Firewall rules by name then do not apply; the notes say so.
      if (!(error instanceof DockerRefused) || !/option|bridge\.name/i.test(error.message)) throw error
      await client.createNetwork({ ...networkOrder(workload), Options: {} }, signal)
    }
  }

  /** Some limits of a daemon show only when it refuses: those options are dropped, and the call repeated. */
  async #create(workload: Workload, from: Source, signal: AbortSignal): Promise<void> {
    const { info } = from
    const { client, caches, gpus, gpuMode, portAddress, volumeFolder, downloads, noticeFolder } = this.#options
    const neighbors = await client.containers(TAG_LABEL, signal)
    const usedCpus = neighbors.flatMap(({ Labels }) => Labels[CPUS_LABEL] ?? [])
    const cpus = this.#pinsCpus ? chooseCpus(workload.spec?.resources.cpuCount ?? 1, info, usedCpus) : undefined
    const diskQuota = this.diskQuota === true
    const order = containerOrder(workload, {
      ...from,
      gpus,
      gpuMode: gpuMode ?? gpuModeOf(info),
      diskQuota,
      cpus,
      portAddress,
      hostProcesses: await hostProcesses(),
      volumeFolder,
      downloads,
      cache: await caches.mountFor(workload, from.image, neighbors, signal),
      noticeFolder,
    })
    try {
      await client.createContainer(nameOf(workload.id), order, signal)
    } catch (error) {
      const message = error instanceof DockerRefused ? error.message : ''
      if (diskQuota && /storage-opt|quota/i.test(message)) this.diskQuota = false
      else if (cpus !== undefined && /cpuset|requested cpus/i.test(message)) this.#pinsCpus = false
      else throw startFault(error)
      await this.#create(workload, from, signal)
    }
  }
}
