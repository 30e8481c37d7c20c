/**
 * Model files on this server's disk, under `<dir>/<model>/<file>`. `ensure` downloads missing files and returns their
 * paths; it is idempotent, can be called concurrently, and survives being killed at any moment. Files that it returns
 * are complete and verified. One process at a time owns the folder (the lock of the data folder).
 */
import fs from 'node:fs/promises'
import path from 'node:path'
import type { Clock } from '../../base/instant.ts'
import type { Resolve } from '../../base/net/outbound.ts'
import { fail, type Result } from '../../contract/result.ts'
import type { ModelFile } from '../../contract/model.ts'
import type { WantedFile } from './assemble.ts'
import { makeDiskBudget, measure, unlessGone } from '../download/disk-budget.ts'
import { failCancelled, makeDownloader, type Downloader } from '../download/downloader.ts'
import type { DownloadLimits } from '../download/request.ts'
import type { ModelLog } from '../log.ts'
import { folderAt, folderOf, readManifest } from './manifest.ts'
import type { Piece, PieceRequest } from './piece.ts'
import { pullModel, readWantedFiles, type Pulled } from './pull.ts'
import { openFilePiece } from './source-file.ts'
import { fetchHubPiece, type Hub } from './source-hf.ts'
import { fetchHttpsPiece } from './source-https.ts'
import { fetchNpmPiece } from './source-npm.ts'

export interface ModelStoreOptions {
  readonly dir: string
  readonly limitBytes: number
  /** Allows private addresses and plain `http:` for URL sources. */
  readonly allowPrivate: boolean
  readonly npmRegistry: () => Promise<string>
  /** null: `hf:` sources are refused. */
  readonly hub: Hub | null
  readonly log: ModelLog
  readonly clock: Clock
  readonly limits?: Partial<DownloadLimits>
  readonly resolve?: Resolve
  readonly freeBytes?: () => Promise<number>
}

export interface EnsureOptions {
  readonly signal?: AbortSignal
  /** `totalBytes` is null while it is unknown. */
  readonly onProgress?: (doneBytes: number, totalBytes: number | null) => void
}

/** A folder of the store and its content. */
export interface StoredModel {
  /** null: not created by the store, or too damaged to tell. */
  readonly model: string | null
  readonly folder: string
  readonly bytes: number
  readonly files: ReadonlyArray<{ readonly file: string; readonly bytes: number; readonly sha256: string }>
  /** The size of its unfinished downloads. */
  readonly partialBytes: number
  /** Files that belong to no model. */
  readonly orphans: readonly string[]
}

export interface ModelStore {
  /**
   * Downloads the files. Concurrent calls for one model share one download, which is canceled when the last caller
   * aborts.
   */
  ensure(model: string, files: readonly ModelFile[], options?: EnsureOptions): Promise<Result<Pulled>>
  /** Cancels a running download and deletes the model's files. Files used in place stay. */
  remove(model: string): Promise<void>
  usage(): Promise<{ usedBytes: number; limitBytes: number; freeBytes: number }>
  list(): Promise<StoredModel[]>
  close(): Promise<void>
}

/** The current operation on a model. There is one at a time. */
interface Work {
  /** Identifies the files; undefined: a removal. */
  readonly key: string | undefined
  readonly outcome: Promise<Result<Pulled>>
  readonly controller: AbortController
  readonly listeners: Set<NonNullable<EnsureOptions['onProgress']>>
  callers: number
}

export function makeModelStore(options: ModelStoreOptions): ModelStore {
  const { dir, limitBytes } = options
  const budget = makeDiskBudget(options)
  const downloader = makeDownloader(options)
  const fetchPiece = (request: PieceRequest): Promise<Result<Piece>> => fetchFrom(downloader, options, request)
  const works = new Map<string, Work>()
  let isClosed = false

  const begin = (model: string, key: string | undefined, run: WorkRun): Work => beginWork(works, model, key, run)
  const pull = (model: string, files: readonly WantedFile[], key: string): Work =>
    begin(model, key, async (work) => {
      const { signal } = work.controller
      const onProgress = (done: number, total: number | null): void =>
        work.listeners.forEach((listener) => listener(done, total))
      try {
        await fs.mkdir(dir, { recursive: true, mode: 0o700 })
        return await pullModel({ ...options, model, files, budget, fetchPiece, signal, onProgress })
      } catch (error) {
        if (signal.aborted) return failCancelled()
        throw error
      }
    })

  return {
    ensure: async (model, files, { signal, onProgress } = {}) => {
      const wantedFiles = readWantedFiles(files)
      if (!wantedFiles.ok) return wantedFiles
      const key = JSON.stringify(files)
      for (;;) {
        if (isClosed || signal?.aborted === true) return failCancelled()
        const busy = works.get(model)
        if (busy === undefined) return follow(pull(model, wantedFiles.value, key), signal, onProgress)
        if (busy.key === key && !busy.controller.signal.aborted) return follow(busy, signal, onProgress)
        await untilAborted(
          busy.outcome.catch(() => {}),
          signal,
        )
      }
    },
    remove: async (model) => {
      for (let busy = works.get(model); busy !== undefined; busy = works.get(model)) {
        busy.controller.abort()
        await busy.outcome.catch(() => {})
      }
      const removal = begin(model, undefined, async () => {
        await fs.rm(folderOf(dir, model).path, { recursive: true, force: true, maxRetries: 3 })
        return failCancelled()
      })
      await removal.outcome
      options.log.info({ model }, 'removed the files of a model')
    },
    usage: async () => {
      await fs.mkdir(dir, { recursive: true, mode: 0o700 })
      return { usedBytes: await budget.usedBytes(), limitBytes, freeBytes: await budget.freeBytes() }
    },
    list: () => listFolders(dir),
    close: async () => {
      isClosed = true
      const busy = [...works.values()]
      for (const work of busy) work.controller.abort()
      await Promise.all(busy.map((work) => work.outcome.catch(() => {})))
      await downloader.close()
    },
  }
}

type WorkRun = (work: Work) => Promise<Result<Pulled>>

function beginWork(works: Map<string, Work>, model: string, key: string | undefined, run: WorkRun): Work {
  const work: Work = {
    key,
    // The work starts a tick later, when `work` is defined.
    outcome: Promise.resolve()
      .then(() => run(work))
      .finally(() => works.delete(model)),
    controller: new AbortController(),
    listeners: new Set(),
    callers: 0,
  }
  work.outcome.catch(() => {})
  works.set(model, work)
  return work
}

async function fetchFrom(
  downloader: Downloader,
  options: ModelStoreOptions,
  request: PieceRequest,
): Promise<Result<Piece>> {
  const kind = request.source.slice(0, request.source.indexOf(':'))
  if (kind === 'npm') return fetchNpmPiece(downloader, options.npmRegistry, request)
  if (kind === 'hf') return fetchHubPiece(downloader, options.hub, request)
  if (kind === 'file') return openFilePiece(request)
  // The guard refuses `http:` unless private addresses are allowed.
  if (kind === 'https' || kind === 'http') return fetchHttpsPiece(downloader, request)
  return fail('bad_source', { message: `${request.source} has an unknown scheme.` })
}

/** Waits for a shared operation. */
async function follow(
  work: Work,
  signal: AbortSignal | undefined,
  onProgress: EnsureOptions['onProgress'],
): Promise<Result<Pulled>> {
  work.callers += 1
  // The wrapper is a new function, so that two callers may pass the same listener.
  const listener = (done: number, total: number | null): void => onProgress?.(done, total)
  work.listeners.add(listener)
  const outcome = await untilAborted(work.outcome, signal).finally(() => {
    work.listeners.delete(listener)
    work.callers -= 1
    if (work.callers === 0) work.controller.abort()
  })
  return outcome ?? failCancelled()
}

/** undefined: the signal fired first. */
async function untilAborted<T>(promise: Promise<T>, signal: AbortSignal | undefined): Promise<T | undefined> {
  if (signal === undefined) return promise
  let stop: (() => void) | undefined
  const fired = new Promise<undefined>((resolve) => {
    stop = () => resolve(undefined)
    signal.addEventListener('abort', stop, { once: true })
  })
  try {
    return await Promise.race([promise, fired])
  } finally {
    if (stop !== undefined) signal.removeEventListener('abort', stop)
  }
}

async function listFolders(dir: string): Promise<StoredModel[]> {
  const names = await fs.readdir(dir).catch(unlessGone<string[]>([]))
  return Promise.all(names.toSorted().map((name) => describeFolder(dir, name)))
}

async function describeFolder(dir: string, name: string): Promise<StoredModel> {
  const folder = folderAt(path.join(dir, name))
  const stats = await fs.lstat(folder.path).catch(unlessGone(undefined))
  if (stats?.isDirectory() !== true) {
    return { model: null, folder: name, bytes: stats?.size ?? 0, files: [], partialBytes: 0, orphans: [name] }
  }
  const manifest = await readManifest(folder)
  const storedFiles = manifest?.files ?? []
  const orphans = (await fs.readdir(folder.path).catch(unlessGone<string[]>([]))).filter(
    (entry) => !entry.startsWith('.') && !storedFiles.some(({ file }) => file === entry),
  )
  const isOwn = manifest !== undefined && folderOf(dir, manifest.model).path === folder.path
  return {
    model: isOwn ? manifest.model : null,
    folder: name,
    bytes: await measure(folder.path),
    files: storedFiles.map(({ file, bytes, sha256 }) => ({ file, bytes, sha256 })),
    partialBytes: await measure(folder.partsPath),
    orphans,
  }
}
