/**
 * Weights of models on a host. Files are stored once per owner, by digest; each set of files is a folder of hard links
 * that machines mount read-only. Owners share nothing: knowing a digest does not prove the right to read its file. When
 * the budget is used up, the least recently used sets are removed, except those of existing machines. An interrupted
 * download is resumed, also by another machine or after a restart.
 *
 *   store/<owner>-<sha256>         a complete, verified file
 *   store/<owner>-<sha256>.part    an unfinished download
 *   sets/<owner>-<set id>/<path>   links to the files
 */
import fs from 'node:fs/promises'
import path from 'node:path'
import { toDate, type Clock } from '../../base/instant.ts'
import { ok, type Result } from '../../contract/result.ts'
import type { HostWeights } from '../../contract/weights.ts'
import { weightsSetId } from '../../domain/weights-set.ts'
import { makeDiskBudget, unlessGone, type Room } from '../download/disk-budget.ts'
import type { HostFiles } from './host-files.ts'

export interface WeightsCacheOptions {
  readonly dir: string
  readonly budgetBytes: number
  readonly files: Pick<HostFiles, 'fetchWeights'>
  readonly clock: Clock
  /** Free disk space; from the system by default. */
  readonly freeBytes?: () => Promise<number>
}

export interface EnsureWeights {
  /** Returns the sets of machines on this host, running or not. */
  readonly inUse: () => Promise<readonly string[]>
  readonly progress: (doneBytes: number, totalBytes: number) => void
  readonly signal: AbortSignal
}

export type OwnedWeights = HostWeights & { readonly owner: string }

export interface WeightsCache {
  /** Downloads missing files, then runs `work`; the set counts as in use meanwhile. */
  hold(
    workloadId: string,
    weights: OwnedWeights,
    options: EnsureWeights,
    work: () => Promise<void>,
  ): Promise<Result<void>>
  folderOf(weights: OwnedWeights): string
  idOf(weights: OwnedWeights): string
  /** Includes unfinished downloads. */
  usedBytes(): Promise<number>
}

const READ_AND_ENTER = 0o755
/** A file of a set, with its name in the store. */
type File = HostWeights['files'][number] & { readonly key: string }

export function makeWeightsCache(options: WeightsCacheOptions): WeightsCache {
  return new DiskWeightsCache(options)
}

class DiskWeightsCache implements WeightsCache {
  readonly #options: WeightsCacheOptions
  readonly #store: string
  readonly #sets: string
  readonly #budget
  /** Sets of machines that are about to start. */
  readonly #setHolds = new Map<string, number>()
  /** Files that a machine waits for; they may be in no set yet. */
  readonly #fileHolds = new Map<string, number>()
  /** Changes take turns: two must not count on the same space, and no set is removed while another appears. */
  #lastTurn: Promise<unknown> = Promise.resolve()

  constructor(options: WeightsCacheOptions) {
    this.#options = options
    this.#store = path.join(options.dir, 'store')
    this.#sets = path.join(options.dir, 'sets')
    this.#budget = makeDiskBudget({ ...options, dir: this.#store, limitBytes: options.budgetBytes })
  }

  idOf(weights: OwnedWeights): string {
    return `${weights.owner}-${weightsSetId(weights)}`
  }

  folderOf(weights: OwnedWeights): string {
    return path.join(this.#sets, this.idOf(weights))
  }

  usedBytes(): Promise<number> {
    return this.#budget.usedBytes()
  }

  async hold(
    workloadId: string,
    weights: OwnedWeights,
    options: EnsureWeights,
    work: () => Promise<void>,
  ): Promise<Result<void>> {
    const id = this.idOf(weights)
    const keys = [...new Set(filesOf(weights).map(({ key }) => key))]
    count(this.#setHolds, id, 1)
    for (const key of keys) count(this.#fileHolds, key, 1)
    try {
      const ensured = await this.#ensure(workloadId, weights, options)
      if (!ensured.ok) return ensured
      await work()
      return ensured
    } finally {
      count(this.#setHolds, id, -1)
      for (const key of keys) count(this.#fileHolds, key, -1)
    }
  }

  async #ensure(workloadId: string, weights: OwnedWeights, options: EnsureWeights): Promise<Result<void>> {
    for (const dir of [this.#store, this.#sets]) await fs.mkdir(dir, { recursive: true, mode: 0o700 })
    const folder = this.folderOf(weights)
    // A set appears together with all of its files.
    if (!(await exists(folder))) {
      const missing = await this.#findMissing(filesOf(weights))
      const result = missing.length === 0 ? ok(undefined) : await this.#fetchAll(workloadId, weights, missing, options)
      if (!result.ok) return result
      await this.#inTurn(async () => ((await exists(folder)) ? undefined : this.#link(weights)))
    }
    await this.#touch(folder)
    return ok(undefined)
  }

  /** Finds the missing files, one entry per digest. */
  async #findMissing(files: readonly File[]): Promise<File[]> {
    const missing = new Map<string, File>()
    for (const file of files) if (!(await exists(this.#at(file)))) missing.set(file.key, file)
    return [...missing.values()]
  }

  async #fetchAll(
    workloadId: string,
    weights: OwnedWeights,
    missing: readonly File[],
    options: EnsureWeights,
  ): Promise<Result<void>> {
    const all = new Map(weights.files.map((file) => [file.sha256, file.bytes]))
    const total = [...all.values()].reduce((sum, bytes) => sum + bytes, 0)
    let done = total - missing.reduce((sum, { bytes }) => sum + bytes, 0)
    options.progress(done, total)
    for (const file of missing) {
      const report = (bytes: number): void => options.progress(done + bytes, total)
      const fetched = await this.#fetch(workloadId, file, { ...options, report })
      if (!fetched.ok) return fetched
      done += file.bytes
    }
    return ok(undefined)
  }

  async #fetch(
    workloadId: string,
    { key, bytes, sha256 }: File,
    { report, signal, inUse }: EnsureWeights & { readonly report: (bytes: number) => void },
  ): Promise<Result<void>> {
    const room = this.#budget.open()
    const need: Room['need'] = (missing) => this.#reserve(room, missing, inUse)
    try {
      const request = { target: path.join(this.#store, key), bytes, sha256, room: { ...room, need } }
      return await this.#options.files.fetchWeights(workloadId, request, { signal, onBytes: report })
    } finally {
      room.close()
    }
  }

  /** Removes sets that are not in use until there is enough space. */
  #reserve(room: Room, bytes: number, inUse: EnsureWeights['inUse']) {
    return this.#inTurn(async () => {
      let refused = await room.need(bytes)
      if (refused === undefined || bytes > this.#options.budgetBytes) return refused
      const usedIds = new Set([...(await inUse()), ...this.#setHolds.keys()])
      for (const id of await this.#leastUsed(usedIds)) {
        await fs.rm(path.join(this.#sets, id), { recursive: true, force: true })
        await this.#sweep()
        refused = await room.need(bytes)
        if (refused === undefined) break
      }
      return refused
    })
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#lastTurn.then(work)
    this.#lastTurn = turn.catch(() => {})
    return turn
  }

  /** Lists the sets that are not in use, least recently used first, and marks the others as used now. */
  async #leastUsed(used: ReadonlySet<string>): Promise<string[]> {
    const unused: Array<{ id: string; usedMs: number }> = []
    for (const id of await fs.readdir(this.#sets)) {
      if (used.has(id)) await this.#touch(path.join(this.#sets, id))
      else unused.push({ id, usedMs: (await fs.stat(path.join(this.#sets, id))).mtimeMs })
    }
    return unused.toSorted((a, b) => a.usedMs - b.usedMs).map(({ id }) => id)
  }

  /** Removes files and unfinished downloads that no set has and no machine waits for. */
  async #sweep(): Promise<void> {
    for (const name of await fs.readdir(this.#store)) {
      const place = path.join(this.#store, name)
      const [key = ''] = name.split('.')
      const { nlink } = await fs.stat(place).catch(unlessGone({ nlink: 2 }))
      if (nlink === 1 && !this.#fileHolds.has(key)) await fs.rm(place, { force: true })
    }
  }

  /** Links the set, which appears with all its files or not at all: a machine never mounts half of one. */
  async #link(weights: OwnedWeights): Promise<void> {
    const newFolder = path.join(this.#sets, `.new-${this.idOf(weights)}`)
    await fs.rm(newFolder, { recursive: true, force: true })
    for (const file of filesOf(weights)) {
      const place = path.join(newFolder, file.path)
      await fs.mkdir(path.dirname(place), { recursive: true })
      await fs.link(this.#at(file), place)
    }
    // Programs in machines run as any user, so the folders are readable to all. Other users of the host cannot reach
    // the folders above.
    const folders = (await fs.readdir(newFolder, { recursive: true, withFileTypes: true })).filter((one) =>
      one.isDirectory(),
    )
    for (const one of [newFolder, ...folders.map(({ parentPath, name }) => path.join(parentPath, name))])
      await fs.chmod(one, READ_AND_ENTER)
    await fs.rename(newFolder, this.folderOf(weights))
  }

  /** The modification time of a set is the time of its last use. */
  async #touch(folder: string): Promise<void> {
    const now = toDate(this.#options.clock.now())
    await fs.utimes(folder, now, now)
  }

  #at({ key }: Pick<File, 'key'>): string {
    return path.join(this.#store, key)
  }
}

function filesOf({ files, owner }: OwnedWeights): File[] {
  return files.map((file) => ({ ...file, key: `${owner}-${file.sha256}` }))
}

function count(counts: Map<string, number>, key: string, change: number): void {
  const now = (counts.get(key) ?? 0) + change
  if (now === 0) counts.delete(key)
  else counts.set(key, now)
}

async function exists(place: string): Promise<boolean> {
  return fs.stat(place).then(() => true, unlessGone(false))
}
