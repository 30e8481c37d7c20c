/**
 * Containers through the Docker Engine API, for customers who trust neither the host's owner nor each other. Labels on
 * containers and networks make the daemon the source of truth; only SSH keys, host keys and observed exits are stored
 * in files.
 */
import path from 'node:path'
import type { Duplex, Readable } from 'node:stream'
import { systemClock } from '../../base/instant.ts'
import type { HostFault, StreamRequest, Workload } from '../../contract/agent.ts'
import { NeverStarts, type WorkloadStatus, type Measured, type Runtime, type RuntimeStream } from '../runtime.ts'
import { DockerClient } from './client.ts'
import { endOf, lost, startFault } from './container-end.ts'
import { CompileCaches } from './compile-cache.ts'
import { ContainerMaker } from './container-maker.ts'
import { ContainerPower, isGoing } from './container-power.ts'
import { GROUP_LABEL, ID_LABEL, nameOf, TAG_LABEL } from './container-order.ts'
import { DiskCopies } from './disk-copy.ts'
import { watchDisks } from './disk-watch.ts'
import { EndNotices, hasNotices } from './end-notice.ts'
import { EventWatch } from './event-watch.ts'
import { ContainerFence } from './fence.ts'
import { fetchImage, imageOf } from './image-fetch.ts'
import { GroupNetworks } from './group-network.ts'
import { halfStatus, orFailed } from './half-status.ts'
import { findOutput, unwatchedEnd } from './job-output.ts'
import { ImageStore } from './image-store.ts'
import { measureContainers } from './measure.ts'
import { diskNote, storageEnforcesLimits } from './notes.ts'
import { SMALL_IMAGE, smallImageNote } from './small-image.ts'
import type { Container, Info, ListedContainer } from './reply.ts'
import { nextRestart } from './restart.ts'
import type { DockerRuntimeOptions } from './runtime-options.ts'
import { ContainerSsh } from './container-ssh.ts'
import { scriptOf, StartScripts } from './start-script.ts'
import { openStream } from './stream.ts'
import { withWeights } from './weights.ts'
import { ContainerVolumes, disksOf, VOLUMES_LABEL, whyNoVolumes, withVolumes } from './volumes.ts'
import { WorkloadFiles, type WorkloadEnd, type WorkloadFile } from './workload-file.ts'

const DISK_WATCH_MS = 30_000
const LOOPBACK = '127.0.0.1'
const SSH_USER = 'root'

export function dockerRuntime(options: DockerRuntimeOptions): Runtime &
  Required<Pick<Runtime, 'halt' | 'reboot' | 'announceEnd' | 'measure'>> & {
    close(): Promise<void>
    fault(): HostFault | undefined
  } {
  return new DockerRuntime(options)
}

class DockerRuntime implements Runtime {
  readonly kind = 'container'
  readonly volumes?: ContainerVolumes
  readonly #whyNoVolumes: string | undefined
  readonly #options: DockerRuntimeOptions
  readonly #client: DockerClient
  readonly #files: WorkloadFiles
  readonly #events: EventWatch
  readonly #ssh: ContainerSsh
  readonly #fence: ContainerFence
  readonly #images: ImageStore
  readonly #scripts: StartScripts
  readonly #caches: CompileCaches
  readonly #maker: ContainerMaker
  readonly #power: ContainerPower
  readonly #copies: DiskCopies
  readonly #groups: GroupNetworks
  readonly #notices: EndNotices
  /** Observed or pending exits. Also in the files, unless the disk is full. */
  readonly #ends = new Map<string, WorkloadEnd>()
  /** The last measurement of each workload. */
  readonly #diskBytes = new Map<string, number>()
  readonly #stopDiskWatch: () => void
  readonly #closing = new AbortController()
  /** The daemon's last report. undefined: not asked yet. */
  #info: Info | undefined

  constructor(options: DockerRuntimeOptions) {
    this.#options = options
    this.#client = new DockerClient(options.socketPath)
    this.#files = new WorkloadFiles(options.folder)
    this.#events = new EventWatch(this.#client, options.onError)
    this.#ssh = new ContainerSsh({ client: this.#client, onError: options.onError })
    this.#fence = new ContainerFence({
      ...options,
      networkNamespace: options.networkNamespace,
      checkMs: options.fenceCheckMs,
    })
    this.#notices = new EndNotices(path.join(options.folder, 'notices'))
    const { folder: noticeFolder } = this.#notices
    const [client, budgetBytes] = [this.#client, options.compileCacheBytes ?? 0]
    this.#caches = new CompileCaches({ ...options, client, budgetBytes })
    this.#maker = new ContainerMaker({ portAddress: LOOPBACK, ...options, caches: this.#caches, noticeFolder, client })
    this.#power = new ContainerPower({ ...options, client: this.#client, files: this.#files, maker: this.#maker })
    this.#copies = new DiskCopies({ ...options, client: this.#client, files: this.#files })
    this.#images = new ImageStore({ ...options, client: this.#client })
    const changed = (): void => this.#events.notify()
    this.#groups = new GroupNetworks({ changed, onError: options.onError })
    this.#scripts = new StartScripts({ client: this.#client, changed, onError: options.onError })
    if (options.volumeFolder !== undefined) {
      this.#whyNoVolumes = whyNoVolumes()
      if (this.#whyNoVolumes === undefined) this.volumes = new ContainerVolumes(options.volumeFolder)
    }
    this.#stopDiskWatch = watchDisks({
      client: this.#client,
      everyMs: options.diskWatchMs ?? DISK_WATCH_MS,
      volumesOnly: () => this.#maker.diskQuota === true,
      exceeded: (id, message) => this.#end(id, { failure: 'disk_share_exceeded', message }),
      measured: (id, bytes) => void this.#diskBytes.set(id, bytes),
      onError: options.onError,
    })
  }

  async close(): Promise<void> {
    this.#closing.abort()
    this.#stopDiskWatch()
    this.#events.close()
    this.#groups.close()
    this.#ssh.close()
    await this.#client.close()
  }

  watch(changed: () => void): () => void {
    return this.#events.listen(changed)
  }

  notes(): readonly string[] {
    const info = this.#info
    if (info === undefined) return []
    const seconds = (this.#options.diskWatchMs ?? DISK_WATCH_MS) / 1_000
    const simulated = this.#options.gpus.filter((gpu) => gpu.simulated).length
    return [
      `Container engine ${info.ServerVersion}, storage driver ${info.Driver}.`,
      diskNote(this.#maker.diskQuota === true, seconds),
      ...(this.#options.notes ?? []),
      ...this.#fence.notes(),
      ...(this.#whyNoVolumes === undefined ? [] : [`This host has no storage volumes: ${this.#whyNoVolumes}.`]),
      ...(simulated === 0 ? [] : [`${simulated} GPUs are simulated: containers get no GPU device.`]),
    ]
  }

  diskLimit(): 'enforced' | 'watched' | undefined {
    if (this.#maker.diskQuota === undefined) return undefined
    return this.#maker.diskQuota ? 'enforced' : 'watched'
  }

  fault(): HostFault | undefined {
    return this.#fence.fault()
  }

  async list(signal: AbortSignal): Promise<WorkloadStatus[]> {
    if (this.#info === undefined) await this.#readInfo(signal)
    const networks = await this.#client.networks(TAG_LABEL, signal)
    await this.#fence.maintain(async () => networks.length > 0 || this.#hasNetworks(signal))
    const workloads = new Map<string, WorkloadStatus>()
    for (const { Labels } of networks) {
      const id = Labels[ID_LABEL]
      if (id !== undefined)
        workloads.set(id, await orFailed(id, Labels, halfStatus(this.#files, id, Labels[TAG_LABEL] ?? '')))
    }
    // Containers are listed last: one created during the scan must not look lost.
    for (const container of await this.#client.containers(TAG_LABEL, signal)) {
      const id = container.Labels[ID_LABEL]
      if (id === undefined) continue
      const one = await orFailed(id, container.Labels, this.#find(id, container, signal))
      if (one === undefined) workloads.delete(id)
      else workloads.set(id, one)
    }
    return [...workloads.values()]
  }

  async start(workload: Workload, progress: (message: string) => void, signal: AbortSignal): Promise<void> {
    const start = (): Promise<void> =>
      withVolumes(this.volumes, workload.disks, () => this.#start(workload, progress, signal))
    await withWeights({ ...this.#options, client: this.#client }, workload, progress, signal, start)
  }

  async #start(workload: Workload, progress: (message: string) => void, signal: AbortSignal): Promise<void> {
    const name = nameOf(workload.id)
    const container = await this.#client.container(name, signal)
    if (container !== undefined && container.Config.Labels[TAG_LABEL] !== workload.tag) {
      throw new Error(`${name} already exists and does not belong to ${workload.tag}`)
    }
    let file = await this.#files.keep(workload)
    this.#ends.delete(workload.id)
    // A file of the run before would end this one.
    if (hasNotices(workload)) await this.#notices.set(workload)
    if (container?.State.Status === 'running') return this.#runScript(workload, file.scriptDue === true)
    if (container === undefined && workload.copies === true && file.disk === undefined)
      file = await this.#copies.fetch(workload, progress, signal)
    const info = await this.#readInfo(signal)
    const isMoved = this.#power.needsMove(workload, file, container)
    const isGone = container === undefined || isGoing(container.State.Status)
    // A second container would start with empty disks under the same name.
    if (isGone && !isMoved && (workload.started || file.made)) throw new NeverStarts(lost.failure, lost.message)
    if (isMoved) await this.#power.move(workload, file, container, info, signal)
    else if (container === undefined) {
      const image = imageOf(workload, this.#options.defaultImage)
      await this.#images.hold(image, async () => {
        const sources = { ...this.#options, client: this.#client, images: this.#images }
        const name = await fetchImage(sources, workload, image, progress, signal)
        progress('creating the container')
        await this.#maker.make(workload, name, info, signal)
      })
      await this.#files.keepCreated(workload.id)
    } else if (file.disk?.isMoving === true) await this.#files.keepDisk(workload.id, { ...file.disk, isMoving: false })
    const isNew = container === undefined || container.State.Status === 'created'
    if (isNew && file.disk === undefined) await this.#maker.putFiles(workload, signal)
    else if (container !== undefined && !isNew) await this.#countRestart(workload.id, file, container)
    progress('starting the container')
    await this.#fence.raise()
    if (scriptOf(workload) !== null) await this.#files.keepScriptDue(workload.id, true)
    try {
      await this.#client.startContainer(name, signal)
    } catch (error) {
      throw startFault(error)
    }
    try {
      await this.#fence.check(workload.id)
    } catch (error) {
      await this.#power.cut(workload.id)
      throw error
    }
    // A node of a group waits behind its gate.
    if (workload.group === undefined) await this.#runScript(workload, true)
  }

  async joinGroup(workload: Workload, signal: AbortSignal): Promise<void> {
    const { id, group } = workload
    const container = await this.#client.container(nameOf(id), signal)
    if (group === undefined || container?.State.Status !== 'running') return
    if (await this.#groups.join(id, group, container.State.Pid)) await this.#runScript(workload, true)
  }

  async #runScript(workload: Workload, isDue: boolean): Promise<void> {
    const { id } = workload
    const script = scriptOf(workload)
    if (script === null || !isDue) return
    await this.#scripts.begin(id, nameOf(id), script)
    await this.#files.keepScriptDue(id, false)
  }

  /** Counted before the start, so that no restart is lost when the agent ends meanwhile. */
  async #countRestart(id: string, file: WorkloadFile, container: Container): Promise<void> {
    const restart = this.#restartOf(file, container)
    if (restart === undefined) return
    await this.#files.keepRestarts(id, { count: restart.count, finishedAt: container.State.FinishedAt })
  }

  /** undefined: the program exited unobserved, or is not started again. */
  #restartOf(file: WorkloadFile | undefined, { State }: Container): ReturnType<typeof nextRestart> {
    if (!this.#events.saw(State.FinishedAt) || file?.halted === State.StartedAt) return undefined
    const exit = { code: State.ExitCode, startedAt: State.StartedAt, finishedAt: State.FinishedAt }
    return nextRestart(file?.restart, file?.restarts, exit, systemClock.now())
  }

  async stop(id: string, signal: AbortSignal): Promise<void> {
    this.#ssh.close(id)
    this.#groups.leave(id)
    await this.#maker.remove(id, signal)
    await this.#power.forget(id, await this.#files.read(id).catch(() => undefined), signal)
    await this.volumes?.release(async () => (await this.#client.containers(VOLUMES_LABEL, signal)).flatMap(disksOf))
    await this.#copies.forget(id, signal)
    await this.#notices.forget(id)
    await this.#files.remove(id)
    this.#scripts.forget(id)
    this.#ends.delete(id)
    this.#diskBytes.delete(id)
    // Not awaited: removing a large image and measuring volumes take a while.
    void this.#images.sweep(this.#closing.signal)
    void this.#caches.tidy(this.#closing.signal)
    await this.#fence.maintain(() => this.#hasNetworks(signal))
  }

  async halt(id: string, signal: AbortSignal): Promise<void> {
    this.#ssh.close(id)
    await this.#power.halt(id, signal)
    this.#ends.delete(id)
  }

  output(id: string, signal: AbortSignal): Promise<(() => Promise<Readable>) | undefined> {
    return findOutput({ client: this.#client, files: this.#files, power: this.#power }, id, signal)
  }

  async announceEnd(workload: Workload): Promise<void> {
    if (hasNotices(workload)) await this.#notices.set(workload)
  }

  async reboot(workload: Workload, signal: AbortSignal): Promise<void> {
    const { id, reboots = 0 } = workload
    this.#ssh.close(id)
    if (scriptOf(workload) !== null) await this.#files.keepScriptDue(id, true)
    await this.#power.reboot(id, reboots, signal)
    await this.#fence.check(id)
    if (workload.group === undefined) await this.#runScript(workload, true)
  }

  /** Networks are created before and removed after their containers. */
  async #hasNetworks(signal: AbortSignal): Promise<boolean> {
    return (await this.#client.networks(TAG_LABEL, signal)).length > 0
  }

  async open(request: StreamRequest, signal: AbortSignal): Promise<RuntimeStream> {
    const container = await this.#client.container(nameOf(request.workloadId), signal)
    if (container === undefined) throw new Error('This container does not exist on the host.')
    if (request.kind === 'port' && request.port === 0)
      return { stream: await this.#enter(request.workloadId, container) }
    if (request.kind === 'disk') return { stream: this.#copies.send(request.workloadId, container) }
    return openStream(this.#client, container, request, signal)
  }

  async measure(signal: AbortSignal): Promise<Measured[]> {
    return measureContainers(this.#client, this.#diskBytes, signal)
  }

  async #enter(id: string, container: Container): Promise<Duplex> {
    if (container.State.Status !== 'running') throw new Error('The container is not running.')
    const file = await this.#files.read(id)
    if (file === undefined) throw new Error('The host has lost the SSH keys of this container.')
    const { IPAddress } = container.NetworkSettings.Networks[nameOf(id)] ?? {}
    const address = IPAddress === undefined || IPAddress === '' ? undefined : IPAddress
    return this.#ssh.connect({ id, container: nameOf(id), address, file })
  }

  async #readInfo(signal: AbortSignal): Promise<Info> {
    const info = await this.#client.info(signal)
    this.#info = info
    this.#maker.diskQuota ??= await storageEnforcesLimits(info)
    return info
  }

  /** undefined: removed during the scan. */
  async #find(id: string, listed: ListedContainer, signal: AbortSignal): Promise<WorkloadStatus | undefined> {
    const base = { id, tag: listed.Labels[TAG_LABEL] ?? '', disks: disksOf(listed) }
    const container = isGoing(listed.State) ? undefined : await this.#client.container(listed.Id, signal)
    if (container === undefined || isGoing(container.State.Status)) {
      // The workload is on its way to other GPUs.
      if ((await this.#files.read(id))?.disk?.isMoving === true) return { ...base, state: 'ended' }
      if (container === undefined && !isGoing(listed.State)) return undefined
      return { ...base, state: 'failed', failure: 'removed', message: 'The container was removed on the host.' }
    }
    // The container may have been restarted since it was listed.
    if (container.State.Status === 'running' || container.State.Status === 'paused') {
      return { ...base, ...(await this.#findRunning(id, container)) }
    }
    const file = await this.#files.read(id)
    if (ContainerPower.isHalted(file, container)) return { ...base, state: 'ended' }
    if (container.State.Status === 'created') return { ...base, state: 'starting' }
    const knownEnd = this.#ends.get(id) ?? file?.end
    if (knownEnd !== undefined) return { ...base, state: 'failed', ...knownEnd }
    const wasSeen = this.#events.saw(container.State.FinishedAt)
    const end = wasSeen ? endOf(container, file?.restarts?.count ?? 0) : unwatchedEnd(file, container)
    if (end === undefined) return { ...base, state: 'ended' }
    const restart = this.#restartOf(file, container)
    if (restart !== undefined) return { ...base, state: 'ended', message: end.message, waitMs: restart.waitMs }
    await this.#keepEnd(id, end)
    return { ...base, state: 'failed', ...end }
  }

  async #findRunning(id: string, { State, Config }: Container): Promise<Omit<WorkloadStatus, 'id' | 'tag' | 'disks'>> {
    // Damaged files are reported when someone needs them.
    const file = await this.#files.read(id).catch(() => undefined)
    const gate = Config.Labels[GROUP_LABEL] === undefined ? undefined : await this.#groups.gateOf(id, State.Pid)
    if (gate !== undefined) return gate
    if (file?.scriptDue === true) return { state: 'starting' }
    const count = file?.restarts?.count ?? 0
    const restarted = count === 0 ? undefined : `Restarted ${count} of at most ${file?.restart?.maxRetries ?? 0} times.`
    const replaced = Config.Image === SMALL_IMAGE ? smallImageNote(this.#options.defaultImage) : undefined
    const message = this.#scripts.failure(id) ?? restarted ?? replaced
    const note = message === undefined ? {} : { message }
    const reboots = file?.reboots === undefined || file.reboots === 0 ? {} : { reboots: file.reboots }
    const endsAt = await this.#notices.read(id)
    const end = endsAt === undefined ? {} : { endsAt }
    return { state: 'running', sshUser: SSH_USER, incarnation: State.StartedAt, ...reboots, ...end, ...note }
  }

  /** Killed before the file is written: it may be the container that has filled the disk. */
  async #end(id: string, end: WorkloadEnd): Promise<void> {
    this.#ends.set(id, end)
    try {
      await this.#client.killContainer(nameOf(id))
    } catch (error) {
      this.#ends.delete(id)
      throw error
    }
    await this.#keepEnd(id, end)
  }

  /** When the disk is full, the exit is known only until the agent restarts. */
  async #keepEnd(id: string, end: WorkloadEnd): Promise<void> {
    this.#ends.set(id, end)
    try {
      await this.#files.keepEnd(id, end)
    } catch (error) {
      this.#options.onError(`cannot store the exit of ${nameOf(id)}`, error)
    }
  }
}
