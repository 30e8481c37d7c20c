/**
 * Downloads the weights of a model into a folder of a pod, before its program starts. A container that is started again
 * goes on where the last one ended, since the folder belongs to the pod.
 */
import fs from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { PodWeights } from '../contract/pod-weights.ts'
import { ok, type Result } from '../contract/result.ts'
import { anyRoom } from '../artifacts/download/disk-budget.ts'
import { makeHostFiles, type HostFiles } from '../artifacts/model/host-files.ts'
import { byteProgress } from '../runtimes/byte-progress.ts'

export interface FetchWeightsOptions {
  readonly write: (line: string) => void
  readonly signal: AbortSignal
  /** Between two tries at a server that cannot answer now. */
  readonly retryMs?: number
}

/** Beside the files, and gone when all are there. */
const PARTS = '.download'
const RETRY_MS = 5_000
type File = PodWeights['files'][number]

/** A failure is final: a server that cannot answer now is asked again. */
export async function fetchWeights(order: PodWeights, options: FetchWeightsOptions): Promise<Result<void>> {
  const parts = path.join(order.folder, PARTS)
  const downloaded = await downloadWeights(order, parts, options)
  if (!downloaded.ok) return downloaded
  await placeWeights(order.files, parts, order.folder)
  await fs.rm(parts, { recursive: true })
  return ok(undefined)
}

/** Each content once, into `parts`, by its digest. */
export async function downloadWeights(
  { server, authorization, allowPrivate, files, workloadId }: PodWeights,
  parts: string,
  options: FetchWeightsOptions,
): Promise<Result<void>> {
  const source = makeHostFiles({ server, authorize: () => authorization, allowPrivate })
  const unique = [...new Map(files.map((file) => [file.sha256, file])).values()]
  const total = totalBytes(files)
  const report = byteProgress('downloading the weights', options.write)
  try {
    await fs.mkdir(parts, { recursive: true })
    let done = 0
    for (const file of unique) {
      const before = done
      const onBytes = (bytes: number): void => report(before + bytes, total)
      const fetched = await fetchFile(source, workloadId, file, parts, { ...options, onBytes })
      if (!fetched.ok) return fetched
      done += file.bytes
    }
    return ok(undefined)
  } finally {
    await source.close()
  }
}

/** The size of all contents, each counted once. */
export function totalBytes(files: readonly File[]): number {
  return [...new Map(files.map((file) => [file.sha256, file.bytes])).values()].reduce((sum, bytes) => sum + bytes, 0)
}

/** Links them to their paths. Two paths may have the same content. */
export async function placeWeights(files: readonly File[], parts: string, folder: string): Promise<void> {
  for (const { path: at, sha256 } of files) {
    const target = path.join(folder, at)
    await fs.mkdir(path.dirname(target), { recursive: true })
    await fs.rm(target, { force: true })
    await fs.link(path.join(parts, sha256), target)
  }
}

async function fetchFile(
  source: HostFiles,
  workloadId: string,
  { bytes, sha256 }: File,
  parts: string,
  options: FetchWeightsOptions & { readonly onBytes: (bytes: number) => void },
): Promise<Result<void>> {
  const { signal, onBytes, retryMs = RETRY_MS } = options
  const request = { target: path.join(parts, sha256), bytes, sha256, room: anyRoom }
  for (;;) {
    const fetched = await source.fetchWeights(workloadId, request, { signal, onBytes })
    if (fetched.ok || fetched.kind !== 'unavailable' || signal.aborted) return fetched
    options.write(`waiting for the weights: ${fetched.message}`)
    await delay(retryMs, undefined, { signal })
  }
}

export async function exists(file: string): Promise<boolean> {
  return fs.stat(file).then(
    () => true,
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return false
      throw error
    },
  )
}
