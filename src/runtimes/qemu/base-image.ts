/**
 * Base images registered by the operator: downloaded once, verified, and cached by digest. A machine's disk is an overlay,
 * so the file is never written. It must not refer to another file: the tenant could read that file of the host.
 */
import { createHash, randomBytes } from 'node:crypto'
import { createReadStream, createWriteStream } from 'node:fs'
import fs from 'node:fs/promises'
import http from 'node:http'
import https from 'node:https'
import path from 'node:path'
import { Transform, type Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { answerTo } from '../../base/net/http-answer.ts'
import { checkOutboundUrl, guardedLookup } from '../../base/net/outbound.ts'
import type { Workload } from '../../contract/agent.ts'
import { NeverStarts } from '../runtime.ts'
import { isThere } from './machine-files.ts'
import { runProgram } from '../run-program.ts'

type RegisteredImage = NonNullable<Workload['baseImage']>

const MAX_HOPS = 5
const SILENCE_MS = 60_000
const MAX_IMAGE_BYTES = 200 * 1_073_741_824
const PROGRESS_EVERY_BYTES = 16 * 1_048_576
const INFO_MS = 30_000
const DIGEST = /^[0-9a-f]{64}$/

export interface BaseImage {
  readonly file: string
  readonly format: 'qcow2' | 'raw'
  readonly sizeBytes: number
}

export async function fetchBaseImage(
  folder: string,
  image: RegisteredImage,
  allowPrivateAddresses: boolean,
  progress: (message: string) => void,
  signal: AbortSignal,
): Promise<BaseImage> {
  const sha256 = image.sha256.toLowerCase()
  if (!DIGEST.test(sha256))
    throw new NeverStarts('bad_base_image', `The base image ${image.name} has no SHA-256 digest.`)
  const file = path.join(folder, sha256)
  if (!(await isThere(file))) {
    await fs.mkdir(folder, { recursive: true })
    const part = path.join(folder, `.part-${randomBytes(6).toString('hex')}`)
    try {
      const digest = await download(part, image, allowPrivateAddresses, progress, signal)
      if (digest !== sha256) {
        throw new NeverStarts(
          'bad_base_image',
          `The base image ${image.name} does not match its registered digest: got ${digest}.`,
        )
      }
      await fs.rename(part, file)
    } finally {
      await fs.rm(part, { force: true })
    }
  }
  return examine(file, image.name, signal)
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

/** Returns the digest of the download. */
async function download(
  part: string,
  image: RegisteredImage,
  allowPrivate: boolean,
  progress: (message: string) => void,
  signal: AbortSignal,
): Promise<string> {
  const { stream, sizeBytes } = await openSource(image, allowPrivate, signal)
  const digest = createHash('sha256')
  let bytes = 0
  let reported = -PROGRESS_EVERY_BYTES
  const count = new Transform({
    transform: (chunk: Buffer, _, done) => {
      digest.update(chunk)
      bytes += chunk.length
      if (bytes - reported >= PROGRESS_EVERY_BYTES) {
        reported = bytes
        progress(
          `fetching ${image.name}, ${megabytes(bytes)}${sizeBytes === null ? '' : ` of ${megabytes(sizeBytes)}`} MB`,
        )
      }
      if (bytes > MAX_IMAGE_BYTES)
        done(new Error(`The base image ${image.name} is larger than ${megabytes(MAX_IMAGE_BYTES)} MB`))
      else done(null, chunk)
    },
  })
  await pipeline(stream, count, createWriteStream(part, { mode: 0o600 }), { signal })
  return digest.digest('hex')
}

interface Source {
  readonly stream: Readable
  /** null: unknown. */
  readonly sizeBytes: number | null
}

async function openSource(image: RegisteredImage, allowPrivate: boolean, signal: AbortSignal): Promise<Source> {
  if (!URL.canParse(image.source)) throw noSource(image, 'its address is not a URL')
  let url = new URL(image.source)
  if (url.protocol === 'file:') {
    const file = fileURLToPath(url)
    if (!(await isThere(file))) throw noSource(image, `there is no file ${file} on this host`)
    return { stream: createReadStream(file), sizeBytes: (await fs.stat(file)).size }
  }
  for (let hop = 0; hop <= MAX_HOPS; hop += 1) {
    const refused = await checkOutboundUrl(url.href, allowPrivate)
    if (refused !== undefined) throw noSource(image, refused)
    const answer = await get(url, allowPrivate, signal)
    const status = answer.statusCode ?? 0
    if (status === 200) {
      const length = Number(answer.headers['content-length'])
      return { stream: answer, sizeBytes: Number.isSafeInteger(length) ? length : null }
    }
    answer.destroy()
    const to = answer.headers.location
    if (status < 300 || status > 399 || to === undefined || !URL.canParse(to, url.href)) {
      if (status === 404 || status === 410) throw noSource(image, `its address answered ${status}`)
      throw new Error(`The server of the base image ${image.name} answered ${status}`)
    }
    url = new URL(to, url)
  }
  throw noSource(image, `its address redirects more than ${MAX_HOPS} times`)
}

function get(url: URL, allowPrivate: boolean, signal: AbortSignal): Promise<http.IncomingMessage> {
  const request = (url.protocol === 'https:' ? https : http).get(url, {
    lookup: guardedLookup(allowPrivate),
    signal,
    agent: false,
    headers: { 'accept-encoding': 'identity' },
  })
  // Restarts with every byte.
  request.setTimeout(SILENCE_MS, () => request.destroy(new Error(`no data for ${SILENCE_MS} ms`)))
  return answerTo(request)
}

function noSource(image: RegisteredImage, why: string): NeverStarts {
  return new NeverStarts('bad_base_image', `The base image ${image.name} could not be downloaded: ${why}.`)
}

function megabytes(bytes: number): number {
  return Math.ceil(bytes / 1_000_000)
}
