/**
 * Downloads files from the server to a host: the image of our engines, weights, and disks that move to it. The host
 * signs every request.
 */
import fs from 'node:fs/promises'
import path from 'node:path'
import type { Readable } from 'node:stream'
import { DISK_PATH, ENGINE_IMAGE_PATH, WEIGHTS_PATH } from '../../contract/agent.ts'
import { engineImageFacts, type EngineImageFacts } from '../../contract/engine-image.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import { anyRoom } from '../download/disk-budget.ts'
import { makeDownloader } from '../download/downloader.ts'
import type { Address, DownloadLimits, FileRequest } from '../download/request.ts'

export interface HostFilesOptions {
  /** The address at which the host reaches its server, without a slash at the end. */
  readonly server: string
  /** Returns the host's signature for one path. */
  readonly authorize: (path: string) => string
  /** Allows weights from private addresses other than the server. */
  readonly allowPrivate: boolean
  readonly limits?: Partial<DownloadLimits>
}

export interface FetchOptions {
  readonly signal: AbortSignal
  readonly onBytes: (doneBytes: number) => void
}

export type WeightsRequest = Pick<FileRequest, 'target' | 'room'> & { readonly bytes: number; readonly sha256: string }

export interface HostFiles {
  engineImage(signal: AbortSignal): Promise<Result<EngineImageFacts>>
  /** Downloads the image into `folder` and returns the path of the file, which the caller deletes. */
  fetchEngineImage(image: EngineImageFacts, folder: string, options: FetchOptions): Promise<Result<string>>
  /** Downloads a file that programs of any user can read and none can write. */
  fetchWeights(workloadId: string, file: WeightsRequest, options: FetchOptions): Promise<Result<void>>
  /** Reads the disk of a workload from the host that it moves from. */
  openDisk(workloadId: string, signal: AbortSignal): Promise<Result<Readable>>
  close(): Promise<void>
}

const MAX_FACTS_BYTES = 10_000
const READ_ONLY = 0o444

export function makeHostFiles(options: HostFilesOptions): HostFiles {
  const downloader = makeDownloader(options)
  const addressOf = (at: string): Address => ({
    url: `${options.server}${at}`,
    trustedOrigin: new URL(options.server).origin,
    authorization: () => options.authorize(at),
  })
  return {
    engineImage: async (signal) => {
      const request = {
        ...addressOf(ENGINE_IMAGE_PATH),
        accept: 'application/json',
        maxBytes: MAX_FACTS_BYTES,
        signal,
      }
      const answer = await downloader.json(request)
      if (!answer.ok) return answer
      const facts = engineImageFacts.safeParse(answer.value)
      if (facts.success) return ok(facts.data)
      return fail('bad_answer', { url: request.url, cause: 'an unknown description of its image' })
    },
    fetchEngineImage: async ({ tag, bytes, sha256 }, folder, fetchOptions) => {
      await fs.mkdir(folder, { recursive: true, mode: 0o700 })
      const target = path.join(folder, sha256)
      const digest = { algorithm: 'sha256', hex: sha256 } as const
      const address = addressOf(`${ENGINE_IMAGE_PATH}/${tag}`)
      const image = await downloader.file({ ...address, ...fetchOptions, target, bytes, digest, room: anyRoom })
      return image.ok ? ok(target) : image
    },
    fetchWeights: async (workloadId, { sha256, ...file }, fetchOptions) => {
      const digest = { algorithm: 'sha256', hex: sha256 } as const
      const address = addressOf(`${WEIGHTS_PATH}/${encodeURIComponent(workloadId)}/${sha256}`)
      const weights = await downloader.file({ ...address, ...fetchOptions, ...file, digest, mode: READ_ONLY })
      return weights.ok ? ok(undefined) : weights
    },
    openDisk: (workloadId, signal) =>
      downloader.open(addressOf(`${DISK_PATH}/${encodeURIComponent(workloadId)}`), signal),
    close: () => downloader.close(),
  }
}
