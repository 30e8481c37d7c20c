/** A host downloads the image of our engines, weights, and disks that move to it from its server. It signs every request. */
import fs from 'node:fs/promises'
import path from 'node:path'
import type { Readable } from 'node:stream'
import {
  DISK_PATH,
  ENGINE_IMAGE_PATH,
  engineImageFacts,
  WEIGHTS_PATH,
  type EngineImageFacts,
} from '../../contract/agent.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import type { Room } from '../download/disk-budget.ts'
import { download, downloadJson, type Address, type DownloadLimits, type Tools } from '../download/download.ts'
import { makeGetter } from '../download/http-get.ts'
import { dropPart } from '../download/part-file.ts'
import { hashFile } from '../download/piece.ts'

export interface HostFilesOptions {
  /** The address at which the host reaches its server, without a slash at the end. */
  readonly server: string
  /** Returns the host's signature for one path. */
  readonly authorize: (path: string) => string
  /** Whether weights may come from private addresses other than the server. */
  readonly allowPrivate: boolean
  readonly limits?: Partial<DownloadLimits>
}

export interface FetchOptions {
  readonly signal: AbortSignal
  readonly onBytes: (doneBytes: number) => void
}

export interface FetchedFile {
  readonly partPath: string
  readonly bytes: number
  readonly sha256: string
  readonly room: Room
}

export interface HostFiles {
  engineImage(signal: AbortSignal): Promise<Result<EngineImageFacts>>
  /** Downloads the image into `folder` and returns the path of the file, which the caller deletes. */
  fetchEngineImage(image: EngineImageFacts, folder: string, options: FetchOptions): Promise<Result<string>>
  /** On success the file at `partPath` is complete and verified; after a failure the next call resumes from it. */
  fetchWeights(workloadId: string, file: FetchedFile, options: FetchOptions): Promise<Result<void>>
  /** The disk of a workload, from the host that it moves from. */
  openDisk(workloadId: string, signal: AbortSignal): Promise<Result<Readable>>
  close(): Promise<void>
}

/** A connection without a byte for this long is dead; a slow one is not. */
const defaultLimits: DownloadLimits = { stallMs: 30_000, retryMs: 1_000, maxRetryMs: 30_000 }
const MAX_FACTS_BYTES = 10_000
/** A resumed download may be corrupt on our side: then it is repeated once. */
const MAX_TRIES = 2

/** A room without a budget, for the image, which is small, and for a pod, which has its own disk. */
export const anyRoom: Room = { need: async () => undefined, take: async () => undefined, close: () => {} }

export function makeHostFiles(options: HostFilesOptions): HostFiles {
  const getter = makeGetter(options)
  const tools: Tools = { getter, limits: { ...defaultLimits, ...options.limits } }
  const addressOf = (at: string): Address => ({
    url: `${options.server}${at}`,
    trustedOrigin: new URL(options.server).origin,
    authorization: () => options.authorize(at),
  })
  const fetchFile = async (at: string, file: FetchedFile, { signal, onBytes }: FetchOptions): Promise<Result<void>> => {
    for (let tries = 1; ; tries += 1) {
      const fetched = await download(tools, { ...addressOf(at), ...file, isChecked: true, signal, onBytes })
      if (!fetched.ok) return fetched
      const sha256 = (await hashFile(file.partPath, 'sha256', signal)).toString('hex')
      if (sha256 === file.sha256) return ok(undefined)
      await dropPart(file.partPath)
      const name = path.basename(at)
      if (tries >= MAX_TRIES || !fetched.value.isContinued)
        return fail('wrong_digest', { name, sha256, expectedSha256: file.sha256 })
    }
  }
  return {
    engineImage: async (signal) => {
      const request = {
        ...addressOf(ENGINE_IMAGE_PATH),
        accept: 'application/json',
        limitBytes: MAX_FACTS_BYTES,
        signal,
      }
      const answer = await downloadJson(tools, request)
      if (!answer.ok) return answer
      const facts = engineImageFacts.safeParse(answer.value)
      if (facts.success) return ok(facts.data)
      return fail('bad_answer', { url: request.url, cause: 'an unknown description of its image' })
    },
    fetchEngineImage: async ({ tag, bytes, sha256 }, folder, fetchOptions) => {
      await fs.mkdir(folder, { recursive: true, mode: 0o700 })
      const partPath = path.join(folder, `${sha256}.part`)
      const fetched = await fetchFile(
        `${ENGINE_IMAGE_PATH}/${tag}`,
        { partPath, bytes, sha256, room: anyRoom },
        fetchOptions,
      )
      return fetched.ok ? ok(partPath) : fetched
    },
    fetchWeights: (workloadId, file, fetchOptions) =>
      fetchFile(`${WEIGHTS_PATH}/${encodeURIComponent(workloadId)}/${file.sha256}`, file, fetchOptions),
    openDisk: async (workloadId, signal) => {
      const { url, ...address } = addressOf(`${DISK_PATH}/${encodeURIComponent(workloadId)}`)
      const answer = await getter.get(url, { ...address, headers: {}, signal })
      if (!answer.ok) return answer
      const { status, body } = answer.value
      if (status === 200) return ok(body)
      body.destroy()
      return fail('bad_answer', { url, cause: `the status ${status}` })
    },
    close: () => getter.close(),
  }
}
