/**
 * QEMU virtual machines on this host. A machine is a folder and an independent process: it survives this object and the
 * agent, and a new object on the same folder finds it again, with disks and ports as QEMU reports them.
 *
 * A machine is `running` once SSH has answered, also while it reboots itself. Its disk is kept until it is stopped: a
 * machine whose process disappeared for an unknown reason is restarted from it.
 */
import fs from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { within } from '../../base/within.ts'
import type { StreamRequest, Workload } from '../../contract/agent.ts'
import { NeverStarts, type WorkloadStatus, type Measured, type Runtime, type RuntimeStream } from '../runtime.ts'
import { chooseAccelerator, type Accelerator } from './accelerator.ts'
import { makeBaseImages, type BaseImages } from './base-image.ts'
import { commandLine, qemuProgram, SSH_PORT } from './command-line.ts'
import { consoleStream, consoleTail, maintainConsole } from './console-log.ts'
import { Fence, userOf } from './fence.ts'
import { connectTo, hasBanner } from './forwarded-port.ts'
import { guestGpus, type QemuGpu } from './guest-gpu.ts'
import { hasSandbox, launch, makeDisk, sizeOf } from './launch.ts'
import * as machine from './machine-files.ts'
import { MachineWatch } from './machine-watch.ts'
import { measureMachines } from './measure.ts'
import { queryForwards, queryStatus } from './monitor-query.ts'
import { rebootGuest, shutDownGuest } from './power.ts'
import { findProgram, ProgramMissing } from '../run-program.ts'
import { seedOf, writeSeed } from './seed.ts'
import type { SmallImage } from './small-image.ts'
import { pluggedVolumes, qemuVolumes, resizePlugged, setVolumes, takeBack } from './volumes.ts'

export interface QemuOptions {
  /** Folder for machines, volumes and base images. */
  readonly folder: string
  readonly accel: 'auto' | 'kvm' | 'tcg'
  readonly gpus: readonly QemuGpu[]
  /** Used without a base image. */
  readonly smallImage: (progress: (message: string) => void, signal: AbortSignal) => Promise<SmallImage>
  readonly onError: (what: string, error: unknown) => void
  readonly maxMemoryMib?: number
  readonly maxCpus?: number
  /** Allows base images from private addresses. */
  readonly allowPrivateAddresses?: boolean
  /** No network access for machines. */
  readonly isRestricted?: boolean
  /** Boot timeout: SSH must answer by then. */
  readonly bootLimitMs?: number
  /** How long a guest gets to shut down before it is turned off. */
  readonly shutdownMs?: number
}

export type QemuRuntime = Runtime &
  Required<Pick<Runtime, 'halt' | 'reboot' | 'setDisks' | 'volumes' | 'watch' | 'measure'>> & { close(): void }

const BOOT_LIMIT_MS = 10 * 60_000
const MAINTAIN_EVERY_MS = 5_000
const BANNER_EVERY_MS = 200
const QUIT_MS = 5_000
const SHUTDOWN_MS = 60_000
const KILL_MS = 10_000
const TAIL_BYTES = 1_000
const SMALL_IMAGE_USER = 'root'

export function qemuRuntime(options: QemuOptions): QemuRuntime {
  return new Qemu(options)
}

class Qemu implements QemuRuntime {
  readonly kind = 'virtual-machine'
  readonly diskLimit = (): 'enforced' => 'enforced'
  readonly volumes: QemuRuntime['volumes']
  readonly #options: QemuOptions
  readonly #root: string
  readonly #shutdownMs: number
  readonly #volumeFolder: string
  readonly #arch: 'x64' | 'arm64' = process.arch === 'arm64' ? 'arm64' : 'x64'
  readonly #accelerator: Accelerator
  readonly #baseImages: BaseImages
  readonly #listeners = new Set<() => void>()
  readonly #watch: MachineWatch
  readonly #fence: Fence
  readonly #maintenance: NodeJS.Timeout
  #isSandboxed: boolean | undefined

  constructor(options: QemuOptions) {
    this.#options = options
    this.#root = path.resolve(options.folder)
    this.#shutdownMs = options.shutdownMs ?? SHUTDOWN_MS
    this.#volumeFolder = path.join(this.#root, 'volumes')
    this.#accelerator = chooseAccelerator(options.accel)
    const images = path.join(this.#root, 'images')
    this.#baseImages = makeBaseImages({ folder: images, allowPrivate: options.allowPrivateAddresses ?? false })
    this.volumes = qemuVolumes(this.#volumeFolder, async (id, bytes) => {
      const machines = [...(await machine.findProcesses(this.#root)).keys()]
      return resizePlugged(machines, (one) => this.#watch.monitor(one), id, bytes)
    })
    this.#watch = new MachineWatch({
      filesOf: (id) => this.#filesOf(id),
      onChange: () => this.#changed(),
      onError: options.onError,
    })
    this.#fence = new Fence({
      hasMachines: async () => (await machine.listMachineIds(this.#root)).length > 0,
      needsRules: options.isRestricted !== true,
      onError: options.onError,
    })
    this.#maintenance = setInterval(() => this.#maintain(), MAINTAIN_EVERY_MS)
    this.#maintenance.unref()
    this.#maintain()
  }

  async list(): Promise<WorkloadStatus[]> {
    const processes = await machine.findProcesses(this.#root)
    const workloads: WorkloadStatus[] = []
    for (const id of await machine.listMachineIds(this.#root)) {
      workloads.push(...((await this.#find(id, processes.get(id) ?? [])) ?? []))
    }
    return workloads
  }

  async start(workload: Workload, progress: (message: string) => void, signal: AbortSignal): Promise<void> {
    if (!machine.isPlainName(workload.id))
      throw new NeverStarts('bad_id', 'The id of the machine is not a valid folder name.')
    const files = this.#filesOf(workload.id)
    if (await machine.isThere(files.halted)) await fs.rm(files.end, { force: true })
    await this.#throwIfEnded(files)
    if ((await this.#pidsOf(workload.id)).length === 0) await this.#make(workload, files, progress, signal)
    await fs.rm(files.halted, { force: true })
    progress('waiting for the machine to boot')
    await this.#awaitBoot(workload.id, files, signal)
  }

  async stop(id: string, signal: AbortSignal): Promise<void> {
    await this.#endProcess(id, signal)
    await machine.removeMachine(this.#root, id)
    await this.#fence.maintain()
    this.#changed()
  }

  async halt(id: string, signal: AbortSignal): Promise<void> {
    const files = this.#filesOf(id)
    await machine.replaceFile(files.halted, '')
    if ((await this.#pidsOf(id)).length > 0) {
      await this.#watch.whileEndExpected(id, async (monitor) => {
        await shutDownGuest(monitor, this.#shutdownMs, signal)
        await this.#endProcess(id, signal)
      })
    }
    await this.#watch.settle(id)
    await fs.rm(files.end, { force: true })
    this.#changed()
  }

  async reboot({ id, reboots = 0 }: Workload, signal: AbortSignal): Promise<void> {
    await machine.replaceFile(this.#filesOf(id).reboots, String(reboots))
    await this.#watch.whileEndExpected(id, (monitor) => rebootGuest(monitor, this.#shutdownMs, signal))
    this.#changed()
  }

  async #endProcess(id: string, signal: AbortSignal): Promise<void> {
    this.#watch.expectEnd(id)
    const pids = await this.#pidsOf(id)
    const user = await userOf(pids[0] ?? '')
    if (pids.length > 0) {
      await this.#quit(id)
      if (!(await machine.waitForExit(pids, QUIT_MS, signal))) {
        for (const pid of await this.#pidsOf(id)) machine.killNow(pid)
        if (!(await machine.waitForExit(pids, KILL_MS, signal)))
          throw new Error(`QEMU (${pids.join()}) could not be stopped`)
      }
    }
    await this.#watch.settle(id)
    if (user !== undefined) await takeBack(this.#volumeFolder, user)
  }

  async setDisks(workload: Workload): Promise<void> {
    const monitor = await this.#monitorOf(workload.id)
    const [pid = ''] = await this.#pidsOf(workload.id)
    const user = await userOf(pid)
    if (user === undefined) throw new Error('The machine is not running.')
    const from = this.#filesOf(workload.id).folder
    try {
      await setVolumes({ monitor, from, folder: this.#volumeFolder, user }, workload.disks)
    } finally {
      this.#changed()
    }
  }

  async open(request: StreamRequest, signal: AbortSignal): Promise<RuntimeStream> {
    const { workloadId } = request
    if (request.kind === 'terminal' || request.kind === 'command') {
      throw new Error('Virtual machines have no web terminal. Connect with SSH.')
    }
    if (request.kind === 'logs') {
      const files = this.#filesOf(workloadId)
      if (!(await machine.isThere(files.folder))) throw new Error('No such machine on this host.')
      return { stream: consoleStream(files, request, signal) }
    }
    if (request.kind === 'disk') throw new Error('The disk of a virtual machine cannot be copied.')
    const inside = request.port === 0 ? SSH_PORT : request.port
    const forwards = await queryForwards(await this.#monitorOf(workloadId))
    const outside = forwards.get(inside)
    if (outside === undefined) throw new Error(`Port ${inside} of the machine is not published.`)
    return { stream: await connectTo(outside, signal) }
  }

  measure(): Promise<Measured[]> {
    return measureMachines(this.#root)
  }

  watch(changed: () => void): () => void {
    this.#listeners.add(changed)
    return () => this.#listeners.delete(changed)
  }

  notes(): readonly string[] {
    const notes: string[] = this.#accelerator.note === undefined ? [] : [this.#accelerator.note]
    try {
      findProgram(qemuProgram(this.#arch))
    } catch (error) {
      if (!(error instanceof ProgramMissing)) throw error
      notes.push(error.message)
    }
    notes.push(...this.#fence.notes())
    if (this.#isSandboxed === false) notes.push('This QEMU was built without a sandbox (seccomp).')
    return notes
  }

  /** Machines keep running. */
  close(): void {
    clearInterval(this.#maintenance)
    this.#listeners.clear()
    this.#watch.close()
  }

  async #find(id: string, listed: readonly number[]): Promise<WorkloadStatus[] | undefined> {
    const files = this.#filesOf(id)
    const spec = await machine.readSpec(files)
    if (spec === undefined) return undefined
    // A machine may have started since the process list was read.
    const pids = listed.length === 0 && this.#watch.isWatched(id) ? await this.#pidsOf(id) : listed
    const common = { id, tag: spec.tag, sshUser: spec.sshUser, disks: [] }
    const hasBooted = await machine.isThere(files.booted)
    if (pids.length === 0) {
      await this.#watch.settle(id)
      const isHalted = await machine.isThere(files.halted)
      const end = isHalted ? undefined : await machine.readEnd(files)
      return [
        end === undefined
          ? { ...common, state: hasBooted || isHalted ? 'ended' : 'starting' }
          : { ...common, ...end, state: 'failed' },
      ]
    }
    try {
      const monitor = await this.#watch.monitor(id)
      const end = await machine.readEnd(files)
      if (end !== undefined) return [{ ...common, ...end, state: 'failed' }]
      const disks = await pluggedVolumes(monitor)
      if (!hasBooted) return [{ ...common, disks, state: 'starting' }]
      const reboots = await machine.readReboots(files)
      const run = { incarnation: `${await machine.bootId()}-${pids[0]}`, ...(reboots === 0 ? {} : { reboots }) }
      if ((await queryStatus(monitor)) !== 'io-error') return [{ ...common, disks, ...run, state: 'running' }]
      // QEMU paused it on a full host disk. If the disk is still full, it pauses again at once.
      await monitor.execute('cont')
      const message = 'The machine was paused: the disk of its host is full.'
      return [{ ...common, disks, ...run, state: 'running', message }]
    } catch (error) {
      if ((await this.#pidsOf(id)).length === 0) return this.#find(id, [])
      if (!hasBooted) return [{ ...common, state: 'starting' }]
      throw error
    }
  }

  async #make(
    workload: Workload,
    files: machine.MachineFiles,
    progress: (message: string) => void,
    signal: AbortSignal,
  ): Promise<void> {
    const { spec, baseImage } = workload
    if (spec === null) throw new NeverStarts('no_spec', 'The specification of this machine is missing.')
    const options = this.#options
    const { simulatedGpus, passthrough } = guestGpus(workload, options.gpus)
    const sshUser = baseImage?.loginUser ?? SMALL_IMAGE_USER
    const seed = seedOf(workload, sshUser, simulatedGpus)
    for (const folder of [this.#root, path.dirname(files.folder)]) await machine.makeFolder(folder)
    await fs.mkdir(files.folder, { recursive: true, mode: 0o700 })
    await machine.replaceFile(files.spec, JSON.stringify({ tag: workload.tag, sshUser } satisfies machine.MachineSpec))
    const base = baseImage === null ? null : await this.#baseImages.fetch(baseImage, progress, signal)
    const smallImage = base === null ? await options.smallImage(progress, signal) : null
    progress('starting the machine')
    await machine.replaceFile(files.reboots, String(workload.reboots ?? 0))
    await makeDisk(files, base, { storageGb: spec.resources.storageGb, hasRun: workload.started }, signal)
    await writeSeed(files.seed, seed, signal)
    this.#isSandboxed ??= await hasSandbox(this.#arch, signal)
    const shape = {
      id: workload.id,
      files,
      arch: this.#arch,
      accelerator: this.#accelerator.name,
      ...sizeOf(spec.resources, options),
      smallImage,
      ports: spec.ports,
      isRestricted: options.isRestricted ?? false,
      isSandboxed: this.#isSandboxed,
      passthrough,
      simulatedGpus,
    }
    await this.#fence.enclose(async (user) => {
      signal.throwIfAborted()
      if (user !== null) await machine.allowUser(files, user)
      await launch(this.#arch, commandLine({ ...shape, user }), files, () => this.#watch.monitor(workload.id))
    })
    try {
      // The firmware is still running, so the machine finds its volumes when it boots.
      if (workload.disks.length > 0) await this.setDisks(workload)
    } catch (error) {
      await this.#quit(workload.id)
      throw error
    }
    this.#changed()
  }

  async #awaitBoot(id: string, files: machine.MachineFiles, signal: AbortSignal): Promise<void> {
    const limitMs = this.#options.bootLimitMs ?? BOOT_LIMIT_MS
    while (!(await machine.isThere(files.booted))) {
      signal.throwIfAborted()
      const [pid] = await this.#pidsOf(id)
      const ageMs = pid === undefined ? undefined : await machine.processAgeMs(pid)
      if (ageMs === undefined) {
        await this.#watch.settle(id)
        await this.#throwIfEnded(files)
        throw new Error('The machine stopped while it booted')
      }
      const forwardedPort = (await queryForwards(await this.#watch.monitor(id))).get(SSH_PORT)
      if (forwardedPort !== undefined && (await hasBanner(forwardedPort, ageMs))) {
        await machine.replaceFile(files.booted, '')
      } else if (ageMs > limitMs) {
        const tail = await consoleTail(files, TAIL_BYTES)
        const message = `SSH did not answer within ${Math.round(limitMs / 1_000)} s. Last console output: ${tail === '' ? 'none' : tail}`
        await machine.writeEnd(files, { failure: 'boot_timed_out', message })
        await this.#quit(id)
      } else await pause(BANNER_EVERY_MS)
      await this.#throwIfEnded(files)
    }
    this.#changed()
  }

  async #throwIfEnded(files: machine.MachineFiles): Promise<void> {
    const end = await machine.readEnd(files)
    if (end !== undefined) throw new NeverStarts(end.failure, end.message)
  }

  async #monitorOf(id: string): ReturnType<MachineWatch['monitor']> {
    if ((await this.#pidsOf(id)).length === 0) throw new Error('The machine is not running.')
    return this.#watch.monitor(id)
  }

  /** Best effort: QEMU may exit before it answers, or hang. */
  async #quit(id: string): Promise<void> {
    const requestQuit = async (): Promise<void> => {
      const monitor = await this.#watch.monitor(id)
      this.#watch.expectEnd(id)
      await monitor.execute('quit')
    }
    const message = `QEMU did not quit within ${QUIT_MS} ms`
    await within(QUIT_MS, requestQuit(), message).catch((error: unknown) => this.#options.onError(`quit ${id}`, error))
  }

  async #pidsOf(id: string): Promise<readonly number[]> {
    return (await machine.findProcesses(this.#root)).get(id) ?? []
  }

  #maintain(): void {
    const { onError } = this.#options
    void this.#fence.maintain().catch((error: unknown) => onError('nftables rules', error))
    void this.#maintainConsoles().catch((error: unknown) => onError('consoles', error))
  }

  async #maintainConsoles(): Promise<void> {
    for (const id of await machine.listMachineIds(this.#root)) {
      await maintainConsole(this.#filesOf(id)).catch(machine.unlessGone(undefined))
    }
  }

  #filesOf(id: string): machine.MachineFiles {
    return machine.machineFiles(this.#root, id)
  }

  #changed(): void {
    for (const listener of this.#listeners) listener()
  }
}
