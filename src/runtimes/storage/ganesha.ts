/**
 * Our own file server: nfs-ganesha over volumes that are files of a fixed size. The desired state is recorded first
 * (volume-record.ts) and then applied, so that the next start repairs whatever a crash leaves. A volume is mounted and
 * exported only while it has clients. Daemon and mounts survive this process: a deploy must not hang tenants' machines.
 */
import { randomInt } from 'node:crypto'
import fs from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { readAddress, readClients } from './client-address.ts'
import { runCommand } from './command.ts'
import { StorageFull, type FileServer, type StorageLog, type StoredVolume } from './file-server.ts'
import { claimFolder } from './folder-owner.ts'
import { exportText, settingsText } from './ganesha-config.ts'
import { GaneshaDaemon, type Exports } from './ganesha-daemon.ts'
import { assertLocal } from './local-folder.ts'
import { isDiskFull, SpareRoom } from './spare-room.ts'
import { bytesOf, openVolumeImages, type VolumeImages } from './volume-image.ts'
import { assertVolumeId, MAX_EXPORT_ID, MAX_VOLUMES, VolumeRecords, type VolumeRecord } from './volume-record.ts'

export interface GaneshaOptions {
  /** Folder for volumes on a local disk, used for nothing else. */
  readonly folder: string
  /** An address of this machine. */
  readonly vip: string
  readonly port?: number
  /** Overcommit factor. With 1 the blocks of each volume are reserved on creation. */
  readonly overcommit?: number
  readonly log: StorageLog
}

const NFS_PORT = 2_049
const MAX_SIZE_GB = 16_000
/** Disk space for records, configuration and logs. */
const KEPT_FREE_BYTES = 128 * 1_048_576

export async function openGanesha(options: GaneshaOptions): Promise<FileServer> {
  const { log, port = NFS_PORT } = options
  const vip = readAddress(options.vip)
  assertOnThisMachine(vip)
  await runCommand('ganesha.nfsd', ['-v'])
  await fs.mkdir(options.folder, { recursive: true, mode: 0o700 })
  const folder = await fs.realpath(options.folder)
  await assertLocal(folder, log)
  const release = await claimFolder(folder)
  try {
    const records = await VolumeRecords.open(path.join(folder, 'volumes'))
    const images = await openVolumeImages(folder)
    const stateFolder = path.join(folder, 'clients')
    await fs.mkdir(stateFolder, { recursive: true, mode: 0o700 })
    const settings = settingsText({ vip, port, stateFolder })
    const start = (exports: Exports): Promise<GaneshaDaemon> =>
      GaneshaDaemon.start({ folder, vip, port, settings, log }, exports)
    const { overcommit = 1 } = options
    if (overcommit > 1) log.warn({ overcommit }, 'volume space is overcommitted: monitor the disk')
    const server = new Ganesha({ vip, records, images, log, start, release, overcommit, spare: new SpareRoom(folder) })
    await server.open().catch(async (error: unknown) => {
      await server.close()
      throw error
    })
    return server
  } catch (error) {
    await release()
    throw error
  }
}

interface GaneshaParts {
  readonly vip: string
  readonly records: VolumeRecords
  readonly images: VolumeImages
  readonly log: StorageLog
  readonly start: (exports: Exports) => Promise<GaneshaDaemon>
  readonly release: () => Promise<void>
  readonly overcommit: number
  readonly spare: SpareRoom
}

class Ganesha implements FileServer {
  readonly vip: string
  readonly #parts: GaneshaParts
  readonly #records: VolumeRecords
  readonly #images: VolumeImages
  /** Volumes whose mount this process created or verified. */
  readonly #mounted = new Set<string>()
  /** Why volumes with clients cannot be served, by id. */
  readonly #broken = new Map<string, string>()
  #roomAsked: Promise<number> | undefined
  /** The disk had no space for the reserve at the last attempt. */
  #isSpareLow = false
  /** false: records may not be applied yet. */
  #isSettled = false
  #daemon: GaneshaDaemon | undefined
  /** One change at a time: exports are replaced as a whole. */
  #turn: Promise<unknown> = Promise.resolve()
  #closed = false

  constructor(parts: GaneshaParts) {
    this.vip = parts.vip
    this.#parts = parts
    this.#records = parts.records
    this.#images = parts.images
  }

  async open(): Promise<void> {
    // The reserve comes first, since later writes may need it.
    await this.#refillSpare()
    await this.#settle()
    // Finish what a crash interrupted: creates and destroys.
    for (const [id, { state }] of this.#records.all()) {
      if (state === 'ready') continue
      await this.#finishOff(id).catch((error: unknown) => {
        this.#parts.log.warn({ volume: id, err: error }, 'could not destroy a volume; retrying later')
      })
    }
  }

  async check(signal: AbortSignal): Promise<void> {
    await this.#inTurn(signal, async () => {
      if (!this.#isSettled) await this.#settle()
      await this.#refillSpare()
      await this.#daemon?.check()
    })
  }

  async list(signal: AbortSignal): Promise<StoredVolume[]> {
    return this.#inTurn(signal, async () => {
      // The listed clients must be the effective ones.
      if (!this.#isSettled) await this.#settle()
      const volumes = this.#records.all().filter(([, { state }]) => state !== 'making')
      return Promise.all(
        volumes.map(async ([id, { sizeGb, clients }]) => {
          const fault = this.#broken.get(id) ?? (await this.#images.faultOf(id, sizeGb))
          return { id, sizeGb, clients, fault }
        }),
      )
    })
  }

  /** Shared by concurrent callers, since it reads every file. */
  async roomGb(): Promise<number> {
    this.#roomAsked ??= this.#leftGb().finally(() => (this.#roomAsked = undefined))
    return Math.min(await this.#roomAsked, MAX_SIZE_GB)
  }

  async create(id: string, sizeGb: number, signal: AbortSignal): Promise<void> {
    assertVolumeId(id)
    if (!Number.isSafeInteger(sizeGb) || sizeGb < 1 || sizeGb > MAX_SIZE_GB) {
      throw new Error(`A volume must have 1 to ${MAX_SIZE_GB} GB, not ${sizeGb}`)
    }
    await this.#inTurn(signal, async () => {
      const record = this.#records.get(id)
      if (record !== undefined && record.sizeGb !== sizeGb) throw new Error(`The volume ${id} has ${record.sizeGb} GB`)
      if (record?.state === 'going') throw new Error(`The volume ${id} is being destroyed`)
      if (record?.state === 'ready') {
        // A lost volume is never recreated empty.
        const fault = await this.#images.faultOf(id, sizeGb)
        if (fault !== null) throw new Error(fault)
        return
      }
      if (record === undefined) await this.#assertRoom(sizeGb)
      await this.#make(id, sizeGb, signal)
    })
  }

  /** Rolls back when it fails half-way. */
  async #make(id: string, sizeGb: number, signal: AbortSignal): Promise<void> {
    const record: VolumeRecord = { exportId: this.#freeExportId(), sizeGb, clients: [], state: 'making' }
    try {
      await this.#records.write(id, record)
      await this.#images.make(id, sizeGb, { isReserved: this.#parts.overcommit <= 1, signal })
      await this.#records.write(id, { ...record, state: 'ready' })
    } catch (error) {
      await this.#finishOff(id).catch((failure: unknown) => {
        this.#parts.log.warn({ volume: id, err: failure }, 'could not remove a partly created volume; retrying later')
      })
      if (!isDiskFull(error)) throw error
      throw new StorageFull(`The disk of the file server is full: ${sizeGb} GB were not written`, { cause: error })
    }
  }

  async destroy(id: string, signal: AbortSignal): Promise<void> {
    assertVolumeId(id)
    await this.#inTurn(signal, async () => {
      const record = this.#records.get(id)
      if (record === undefined) return
      if (record.clients.length > 0) throw new Error(`The volume ${id} has clients`)
      await this.#records.write(id, { ...record, state: 'going' })
      await this.#finishOff(id)
    })
  }

  async setClients(id: string, addresses: readonly string[], signal: AbortSignal): Promise<void> {
    assertVolumeId(id)
    const clients = readClients(addresses)
    await this.#inTurn(signal, async () => {
      const record = this.#records.get(id)
      if (record === undefined || record.state === 'making') throw new Error(`There is no volume ${id}`)
      if (record.state === 'going') throw new Error(`The volume ${id} is being destroyed`)
      if (this.#isSettled && clients.join() === record.clients.join()) return
      this.#isSettled = false
      await this.#parts.spare.use(() => this.#records.write(id, { ...record, clients }))
      await this.#settle()
      const fault = this.#broken.get(id)
      if (fault !== undefined) throw new Error(fault)
    })
  }

  exportPath(id: string): string {
    assertVolumeId(id)
    return `/${id}`
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    await this.#turn
    await this.#daemon?.leave()
    await this.#parts.release()
  }

  async shutDown(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    await this.#turn
    await this.#daemon?.stop()
    for (const id of await this.#images.mounted()) await this.#unmount(id)
    await this.#parts.release()
  }

  /** Applies the records: mounts and exports volumes with clients, unmounts the others. */
  async #settle(): Promise<void> {
    const exports = await this.#mountExports()
    const daemon = this.#daemon
    if (daemon === undefined) this.#daemon = await this.#parts.spare.use(() => this.#parts.start(exports))
    else if (!daemon.knows(exports)) await this.#parts.spare.use(() => daemon.setExports(exports))
    for (const id of await this.#images.mounted()) {
      if ((this.#records.get(id)?.clients.length ?? 0) === 0) await this.#unmount(id)
    }
    this.#isSettled = this.#broken.size === 0
  }

  /** A failing volume must not block the others. */
  async #mountExports(): Promise<Exports> {
    const previousFaults = new Map(this.#broken)
    this.#broken.clear()
    const present = new Set(await this.#images.mounted())
    const folders: string[] = []
    let text = ''
    for (const [id, { exportId, clients, state }] of this.#records.all()) {
      if (state !== 'ready' || clients.length === 0) continue
      try {
        if (!present.has(id) || !this.#mounted.has(id)) await this.#parts.spare.use(() => this.#images.mount(id))
        this.#mounted.add(id)
      } catch (error) {
        const cause = error instanceof Error ? error.message : String(error)
        this.#broken.set(id, cause)
        // Retried every few seconds; logged when the cause is new.
        if (previousFaults.get(id) !== cause)
          this.#parts.log.warn({ volume: id, err: error }, 'could not mount a volume')
        continue
      }
      const folder = this.#images.mountPoint(id)
      folders.push(folder)
      text += exportText({ exportId, folder, pseudo: this.exportPath(id), clients })
    }
    return { text, folders }
  }

  async #finishOff(id: string): Promise<void> {
    await this.#images.remove(id)
    // The record goes last, so that there is never data without a record.
    await this.#records.remove(id)
  }

  /** Unmounts a volume that is no longer exported. If a local process uses it, it stays mounted for a while. */
  async #unmount(id: string): Promise<void> {
    this.#mounted.delete(id)
    await this.#images.unmount(id).catch((error: unknown) => {
      this.#parts.log.warn({ volume: id, err: error }, 'could not unmount a volume without clients')
    })
  }

  async #refillSpare(): Promise<void> {
    const failure = await this.#parts.spare.refill().then(
      () => undefined,
      (error: unknown) => ({ error }),
    )
    if (failure !== undefined && !this.#isSpareLow) {
      this.#parts.log.warn({ err: failure.error }, 'the disk of the file server is full')
    }
    this.#isSpareLow = failure !== undefined
  }

  async #assertRoom(sizeGb: number): Promise<void> {
    if (this.#records.all().length >= MAX_VOLUMES) throw new StorageFull(`There are already ${MAX_VOLUMES} volumes`)
    const leftGb = await this.#leftGb()
    if (sizeGb <= leftGb) return
    throw new StorageFull(`The file server has ${leftGb} GB free; ${sizeGb} GB were requested`)
  }

  async #leftGb(): Promise<number> {
    const all = this.#records.all()
    if (all.length >= MAX_VOLUMES) return 0
    const { freeBytes, takenBytes } = await this.#images.room()
    const promisedBytes = all.reduce((sum, [, one]) => sum + bytesOf(one.sizeGb), 0)
    const volumeBytes = Math.max(0, freeBytes + takenBytes - KEPT_FREE_BYTES)
    const leftBytes = volumeBytes * this.#parts.overcommit - promisedBytes
    return Math.max(0, Math.floor(leftBytes / bytesOf(1)))
  }

  /** Random, so that clients do not mistake a new volume for an old one. */
  #freeExportId(): number {
    const usedIds = new Set(this.#records.all().map(([, { exportId }]) => exportId))
    for (;;) {
      const id = randomInt(1, MAX_EXPORT_ID + 1)
      if (!usedIds.has(id)) return id
    }
  }

  #inTurn<T>(signal: AbortSignal, work: () => Promise<T>): Promise<T> {
    const result = this.#turn.then(() => {
      signal.throwIfAborted()
      if (this.#closed) throw new Error('The file server is closed')
      return work()
    })
    this.#turn = result.catch(() => {})
    return result
  }
}

function assertOnThisMachine(vip: string): void {
  const all = Object.values(os.networkInterfaces()).flatMap((addresses) => addresses ?? [])
  if (all.some(({ address }) => address === vip)) return
  throw new Error(`This machine has no address ${vip}. Add it first, for example: ip addr add ${vip} dev lo`)
}
