/**
 * Downloads weights into storage that all pods of one account on one node share: the first pod downloads, the others wait
 * for it, and later ones find the files.
 *
 *   files/          the whole set; it appears by a rename, so no pod ever sees half of it
 *   lease           who downloads; its time is renewed every few seconds
 *   parts-<owner>/  the unfinished download
 *
 * Node has no file locks, so a lease takes their place: one that is not renewed for a minute may be taken over. Should two
 * pods hold it for a moment, after a node was frozen, nothing breaks: the parts move to the new owner by a rename, the old
 * one finds none and stops, and every file is verified before it counts.
 */
import fs from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { toDate, type Clock } from '../base/instant.ts'
import { SHARED_FOLDER, type PodWeights } from '../contract/pod-weights.ts'
import { ok, type Result } from '../contract/result.ts'
import { measure, unlessGone } from '../artifacts/download/disk-budget.ts'
import { syncFolder } from '../artifacts/download/downloader.ts'
import { byteProgress } from '../runtimes/byte-progress.ts'
import { downloadWeights, exists, placeWeights, totalBytes, type FetchWeightsOptions } from './fetch-weights.ts'

export interface SharedOptions extends FetchWeightsOptions {
  readonly clock: Clock
  readonly times?: Partial<LeaseTimes>
}

interface LeaseTimes {
  readonly renewMs: number
  /** Without a renewal for this long, its owner is dead. */
  readonly staleMs: number
  /** Two that take over a lease at the same time find out within this time who has it. */
  readonly settleMs: number
  readonly pollMs: number
}

const defaultTimes: LeaseTimes = { renewMs: 5_000, staleMs: 60_000, settleMs: 2_000, pollMs: 1_000 }
const LEASE = 'lease'
const PARTS = 'parts-'
const NEW_SET = 'new-'
const READ_AND_ENTER = 0o755

/** A failure is final. */
export async function fetchSharedWeights(order: PodWeights, options: SharedOptions): Promise<Result<void>> {
  const root = order.folder
  const times = { ...defaultTimes, ...options.times }
  const lease = new Lease(root, encodeURIComponent(order.workloadId), options.clock, times)
  const total = totalBytes(order.files)
  const reportOther = byteProgress('another replica downloads the weights', options.write)
  for (;;) {
    options.signal.throwIfAborted()
    if (await exists(path.join(root, SHARED_FOLDER))) return ok(undefined)
    if (await lease.take()) {
      const downloaded = await downloadWith(lease, order, options)
      if (downloaded !== 'lost') return downloaded
    }
    reportOther(await doneBytes(root), total)
    await delay(times.pollMs, undefined, { signal: options.signal })
  }
}

/** `lost`: another pod has taken over. */
async function downloadWith(lease: Lease, order: PodWeights, options: SharedOptions): Promise<Result<void> | 'lost'> {
  const root = order.folder
  const lost = new AbortController()
  const renewing = lease.renewUntil(lost)
  try {
    const parts = await adoptParts(root, lease.owner)
    // The folder may have been completed between the look and the lease.
    if (await exists(path.join(root, SHARED_FOLDER))) return ok(undefined)
    const signal = AbortSignal.any([options.signal, lost.signal])
    const downloaded = await downloadWeights(order, parts, { ...options, signal })
    if (!downloaded.ok) return lost.signal.aborted && !options.signal.aborted ? 'lost' : downloaded
    await publish(order, parts, lease.owner)
    return ok(undefined)
  } catch (error) {
    if (lost.signal.aborted && !options.signal.aborted) return 'lost'
    throw error
  } finally {
    lost.abort()
    await renewing
    await lease.release()
  }
}

/** The parts of a download that was given up, if there are any. Only for the owner of the lease. */
async function adoptParts(root: string, owner: string): Promise<string> {
  const ownFolder = path.join(root, `${PARTS}${owner}`)
  const [abandoned] = (await fs.readdir(root)).filter((name) => name.startsWith(PARTS))
  if (abandoned !== undefined && !(await exists(ownFolder))) await fs.rename(path.join(root, abandoned), ownFolder)
  await fs.mkdir(ownFolder, { recursive: true })
  return ownFolder
}

async function publish({ folder: root, files }: PodWeights, parts: string, owner: string): Promise<void> {
  const fresh = path.join(root, `${NEW_SET}${owner}`)
  await fs.rm(fresh, { recursive: true, force: true })
  await placeWeights(files, parts, fresh)
  // Programs run as any user.
  const folders = (await fs.readdir(fresh, { recursive: true, withFileTypes: true })).filter((one) => one.isDirectory())
  for (const one of [fresh, ...folders.map(({ parentPath, name }) => path.join(parentPath, name))]) {
    await fs.chmod(one, READ_AND_ENTER)
    await syncFolder(one)
  }
  await fs.rename(fresh, path.join(root, SHARED_FOLDER))
  await syncFolder(root)
  const leftovers = (await fs.readdir(root)).filter((name) => name.startsWith(PARTS) || name.startsWith(NEW_SET))
  for (const name of leftovers) await fs.rm(path.join(root, name), { recursive: true, force: true })
}

async function doneBytes(root: string): Promise<number> {
  const names = (await fs.readdir(root)).filter((name) => name.startsWith(PARTS))
  const sizes = await Promise.all(names.map((name) => measure(path.join(root, name))))
  return sizes.reduce((sum, bytes) => sum + bytes, 0)
}

class Lease {
  readonly owner: string
  readonly #file: string
  readonly #own: string
  readonly #clock: Clock
  readonly #times: LeaseTimes

  constructor(root: string, owner: string, clock: Clock, times: LeaseTimes) {
    this.owner = owner
    this.#file = path.join(root, LEASE)
    this.#own = path.join(root, `${LEASE}-${owner}`)
    this.#clock = clock
    this.#times = times
  }

  /** Returns whether this pod has it now. */
  async take(): Promise<boolean> {
    const ownerNow = await this.#read()
    // The lease is that of an earlier container of the same pod, which has ended.
    if (ownerNow === this.owner) return this.#renew().then(() => true, unlessGone(false))
    if (ownerNow !== undefined && !(await this.#isStale())) return false
    await fs.writeFile(this.#own, this.owner)
    await fs.utimes(this.#own, toDate(this.#clock.now()), toDate(this.#clock.now()))
    if (ownerNow === undefined) {
      try {
        await fs.link(this.#own, this.#file)
        return true
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false
        throw error
      } finally {
        await fs.rm(this.#own, { force: true })
      }
    }
    await fs.rename(this.#own, this.#file)
    await delay(this.#times.settleMs)
    return (await this.#read()) === this.owner
  }

  /** Resolves once `lost` is aborted, which it does itself when another pod has the lease. */
  async renewUntil(lost: AbortController): Promise<void> {
    while (!lost.signal.aborted) {
      await delay(this.#times.renewMs, undefined, { signal: lost.signal }).catch(() => {})
      if (lost.signal.aborted) return
      // Storage that fails here fails the download too, which says so.
      const isOwn = await this.#read().then(
        (owner) => owner === this.owner,
        () => false,
      )
      const isRenewed = isOwn && (await this.#renew().then(() => true, unlessGone(false)))
      if (!isRenewed) lost.abort()
    }
  }

  async release(): Promise<void> {
    if ((await this.#read()) === this.owner) await fs.rm(this.#file, { force: true })
  }

  async #renew(): Promise<void> {
    const now = toDate(this.#clock.now())
    await fs.utimes(this.#file, now, now)
  }

  async #isStale(): Promise<boolean> {
    const { mtimeMs } = await fs.stat(this.#file).catch(unlessGone({ mtimeMs: 0 }))
    return this.#clock.now() - mtimeMs > this.#times.staleMs
  }

  /** undefined: nobody has it. */
  #read(): Promise<string | undefined> {
    return fs.readFile(this.#file, 'utf8').catch(unlessGone(undefined))
  }
}
