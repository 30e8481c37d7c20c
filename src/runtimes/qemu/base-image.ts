/**
 * Base images registered by the operator: downloaded once, verified, and cached by digest. A machine's disk is an
 * overlay, so the image file is never written. It must not refer to another file: the tenant could read that file of
 * the host.
 */
import fs from 'node:fs/promises'
import path from 'node:path'
import { z } from 'zod'
import { makeDiskBudget } from '../../artifacts/download/disk-budget.ts'
import { makeDownloader, partPathOf } from '../../artifacts/download/downloader.ts'
import { hashFile } from '../../artifacts/download/file-digest.ts'
import type { DownloadLimits, FileRequest } from '../../artifacts/download/request.ts'
import { findSourceFile } from '../../artifacts/model/source-file.ts'
import type { Workload } from '../../contract/agent.ts'
import { fail, ok, type Result } from '../../contract/result.ts'
import { byteProgress } from '../byte-progress.ts'
import { NeverStarts } from '../runtime.ts'
import { isThere } from './machine-files.ts'
import { runProgram } from '../run-program.ts'

type RegisteredImage = NonNullable<Workload['baseImage']>

const INFO_MS = 30_000
const DIGEST = /^[0-9a-f]{64}$/

export interface BaseImage {
  readonly file: string
  readonly format: 'qcow2' | 'raw'
  readonly sizeBytes: number
}

export interface BaseImagesOptions {
  readonly folder: string
  /** Allows images from private addresses. */
  readonly allowPrivate: boolean
  readonly limits?: Partial<DownloadLimits>
  /** Free disk space; from the system by default. */
  readonly freeBytes?: () => Promise<number>
}

export interface BaseImages {
  fetch(image: RegisteredImage, progress: (message: string) => void, signal: AbortSignal): Promise<BaseImage>
}

export function makeBaseImages(options: BaseImagesOptions): BaseImages {
  const { folder } = options
  const downloader = makeDownloader(options)
  // Only the disk limits the cache, since the operator chooses the images.
  const budget = makeDiskBudget({ ...options, dir: folder, limitBytes: Infinity })

  const download = async (request: Pick<FileRequest, 'name' | 'url' | 'target' | 'digest' | 'signal' | 'onBytes'>) => {
    const room = budget.open()
    try {
      return await downloader.file({ ...request, trustedOrigin: null, authorization: null, bytes: null, room })
    } finally {
      room.close()
    }
  }

  return {
    fetch: async (image, progress, signal) => {
      const { name, source } = image
      const hex = image.sha256.toLowerCase()
      if (!DIGEST.test(hex)) throw new NeverStarts('bad_base_image', `The base image ${name} has no SHA-256 digest.`)
      const target = path.join(folder, hex)
      await fs.mkdir(folder, { recursive: true })
      const digest = { algorithm: 'sha256', hex } as const
      const onBytes = byteProgress(`fetching ${name}`, progress)
      const stored = source.startsWith('file:')
        ? await copyImage(image, target, hex, signal)
        : await download({ name, url: source, target, digest, signal, onBytes })
      if (stored.ok) return examine(target, name, signal)
      const message = `The base image ${name} could not be downloaded: ${stored.message}`
      // After a server that does not answer or a full disk, the next attempt may succeed.
      if (stored.kind === 'unavailable' || stored.kind === 'no_capacity') throw new Error(message)
      throw new NeverStarts('bad_base_image', message)
    },
  }
}

/** Copies a file of this host, since the original may change. */
async function copyImage(
  { name, source }: RegisteredImage,
  target: string,
  sha256: string,
  signal: AbortSignal,
): Promise<Result<unknown>> {
  if (await isThere(target)) return ok(undefined)
  const original = await findSourceFile(source)
  if (!original.ok) return original
  const copy = `${partPathOf(target)}-${process.pid}-${performance.now()}`
  try {
    await fs.copyFile(original.value.path, copy)
    const digest = await hashFile(copy, 'sha256', signal)
    if (digest !== sha256) return fail('wrong_digest', { name, algorithm: 'sha256', digest, expectedDigest: sha256 })
    await fs.rename(copy, target)
    return ok(undefined)
  } finally {
    await fs.rm(copy, { force: true })
  }
}

const info = z.object({
  format: z.string(),
  'virtual-size': z.number(),
  'backing-filename': z.string().optional(),
  'format-specific': z.object({ data: z.object({ 'data-file': z.string().optional() }).optional() }).optional(),
})

async function examine(file: string, name: string, signal: AbortSignal): Promise<BaseImage> {
  const text = await runProgram('qemu-img', ['info', '-U', '--output=json', file], { signal, timeoutMs: INFO_MS })
  const imageInfo = info.parse(JSON.parse(text))
  const { format } = imageInfo
  if (format !== 'qcow2' && format !== 'raw') {
    throw new NeverStarts('bad_base_image', `The base image ${name} has the format ${format}; use qcow2 or raw.`)
  }
  if (imageInfo['backing-filename'] !== undefined || imageInfo['format-specific']?.data?.['data-file'] !== undefined) {
    throw new NeverStarts('bad_base_image', `The base image ${name} refers to another file.`)
  }
  return { file, format, sizeBytes: imageInfo['virtual-size'] }
}
