/**
 * Files for hosts: the image of our engines, the weights of models, and the disks of machines that move between hosts. A host signs each request with its key, and gets
 * only what its workloads need; a pod has a token for its own weights (server/hosts/pod-download.ts). Weights elsewhere are redirects, so a host downloads them directly and never sees a key.
 */
import fs from 'node:fs'
import path from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from 'pino'
import packageJson from '../../../package.json' with { type: 'json' }
import type { App } from '../../app/app.ts'
import { awaitsOutput, collectOutput } from '../../app/job/output.ts'
import { limits } from '../../base/limits.ts'
import { objectUrl, presign } from '../../base/net/object-store.ts'
import { checkOutboundUrl } from '../../base/net/outbound.ts'
import {
  AGENT_SCHEME,
  DISK_PATH,
  downloadStatement,
  ENGINE_IMAGE_PATH,
  OUTPUT_PATH,
  WEIGHTS_PATH,
} from '../../contract/agent.ts'
import { fail, failField, ok, type Failure, type Result } from '../../contract/result.ts'
import type { WeightsFile, WeightsSource } from '../../contract/weights.ts'
import { makeEngineImages, type EngineImage } from '../../artifacts/oci/engine-image.ts'
import type { LocalEngines } from '../../engines/process/local-engine.ts'
import { findHost } from '../../store/host/host.ts'
import { findModel } from '../../store/model/model.ts'
import { findWeightsFile } from '../../store/host/workload.ts'
import { findDiskSource } from '../../store/host/workload-copy.ts'
import { isSignedBy } from '../hosts/agent-sockets.ts'
import { send } from '../http/answer.ts'
import { errorText } from '../data/data-folder.ts'
import type { HostLinks } from '../hosts/host-links.ts'
import { freeOnClose, makeDownloadPlaces } from './download-places.ts'
import { requestFailurePage } from '../http/error-page.ts'
import { findPodFile, isPod } from '../hosts/pod-download.ts'
import type { Settings } from '../settings.ts'

export interface AgentFilesOptions {
  readonly app: App
  readonly settings: Pick<Settings, 'engineDir' | 'objectStore'>
  readonly dataDir: string
  readonly links: Pick<HostLinks, 'open'>
  /** undefined: this server has no model store. */
  readonly engines: LocalEngines | undefined
  readonly log: Logger
}

/** A host's clock may be off by this much. */
const MAX_SKEW_MS = 5 * 60_000
/** A link is used at once; a download that has begun may go on. */
const LINK_SECONDS = 900
const RETRY_MS = 5_000
const DISK_IDLE_MS = 30 * 60_000
/** How long a host waits for this server to download the files of a model. */
const WAIT_MS = 10_000
const HEADER = new RegExp(
  `^${AGENT_SCHEME} (?<hostId>[a-z0-9-]{1,63}):(?<timeMs>\\d{1,15}):(?<signature>[\\w-]{1,100})$`,
)

/** A file on this server, or where it is. */
type Found =
  | { readonly kind: 'file'; readonly file: string; readonly bytes: number; readonly sha256: string }
  | { readonly kind: 'elsewhere'; readonly url: string }

export function addAgentFiles(server: FastifyInstance, options: AgentFilesOptions): void {
  const places = makeDownloadPlaces({ all: limits.agentDownloads, each: limits.agentDownloadsEach })
  const images = makeEngineImages({
    folder: path.join(options.dataDir, 'engine-image'),
    programDir: options.settings.engineDir ?? path.dirname(fileURLToPath(import.meta.url)),
    version: packageJson.version,
  })
  const openImage = async (): Promise<Result<EngineImage>> => {
    try {
      return ok(await images.open())
    } catch (error) {
      options.log.error({ err: error }, 'cannot make the image of the engines')
      return fail('engine_image_unavailable', { cause: errorText(error) })
    }
  }
  const route = (
    path: string,
    answer: (hostId: string, request: FastifyRequest, reply: FastifyReply) => unknown,
  ): void => {
    server.get(path, { exposeHeadRoute: false }, async (request, reply) => {
      const host = await readHost(options.app, request)
      return host.ok ? answer(host.value, request, reply) : refuse(reply, host)
    })
  }
  route(ENGINE_IMAGE_PATH, async (_, __, reply) => {
    const image = await openImage()
    if (!image.ok) return refuse(reply, image)
    const { tag, sha256, bytes } = image.value
    return { tag, sha256, bytes }
  })
  route(`${ENGINE_IMAGE_PATH}/:tag`, async (hostId, request, reply) => {
    const image = await openImage()
    if (!image.ok) return refuse(reply, image)
    const { tag } = request.params as { tag: string }
    if (tag !== image.value.tag) return refuse(reply, fail('download_not_found'))
    return sendFile(request, reply, image.value, places.take(hostId))
  })
  route(`${DISK_PATH}/:workloadId`, async (hostId, request, reply) => {
    const { workloadId } = request.params as { workloadId: string }
    const source = await findDiskSource(options.app.database.db, { hostId, workloadId })
    if (source === undefined) return refuse(reply, fail('download_not_found'))
    const release = places.take(hostId)
    if (release === undefined) return refuse(reply, fail('too_many_downloads', { retryAfterMs: RETRY_MS }))
    freeOnClose(reply.raw, release)
    const stream = options.links.open(source, { kind: 'disk', workloadId })
    if (stream === undefined) return refuse(reply, fail('host_not_connected'))
    // The receiver may take long to unpack before it reads on.
    reply.raw.setTimeout(DISK_IDLE_MS, () => reply.raw.destroy())
    return reply.type('application/octet-stream').send(stream)
  })
  addOutputRoutes(server, options.app, (hostId) => places.take(hostId))
  addWeightsRoute(server, options, (client) => places.take(client))
}

function addWeightsRoute(
  server: FastifyInstance,
  options: AgentFilesOptions,
  takePlace: (client: string) => (() => void) | undefined,
): void {
  const weightsRoute = { exposeHeadRoute: false, config: { operation: 'downloadWeights' } }
  server.get(`${WEIGHTS_PATH}/:workloadId/:sha256`, weightsRoute, async (request, reply) => {
    const { workloadId, sha256 } = request.params as { workloadId: string; sha256: string }
    const { app } = options
    const { authorization } = request.headers
    let file: WeightsFile | undefined
    let client = workloadId
    if (isPod(authorization)) file = await findPodFile(app, authorization, { tag: workloadId, sha256 })
    else {
      const host = await readHost(app, request)
      if (!host.ok) return refuse(reply, host)
      client = host.value
      file = await findWeightsFile(app.database.db, { hostId: host.value, workloadId, sha256 })
    }
    const download = file === undefined ? fail('download_not_found') : await locate(options, file)
    if (!download.ok) return refuse(reply, download)
    if (download.value.kind === 'elsewhere') return reply.redirect(download.value.url, 307)
    return sendFile(request, reply, download.value, takePlace(client))
  })
}

/** A host asks whether the output of a job is awaited, and sends it. Sending it twice keeps the first. */
function addOutputRoutes(
  server: FastifyInstance,
  app: App,
  takePlace: (hostId: string) => (() => void) | undefined,
): void {
  const path = `${OUTPUT_PATH}/:workloadId`
  // The handler reads it as it comes.
  server.addContentTypeParser('application/x-tar', async () => undefined)
  server.get(path, { exposeHeadRoute: false }, async (request, reply) => {
    const host = await readHost(app, request)
    if (!host.ok) return refuse(reply, host)
    const { workloadId } = request.params as { workloadId: string }
    return { isAwaited: await awaitsOutput(app, host.value, workloadId) }
  })
  server.put(path, async (request, reply) => {
    const host = await readHost(app, request)
    if (!host.ok) return refuse(reply, host)
    const release = takePlace(host.value)
    if (release === undefined) return refuse(reply, fail('too_many_downloads', { retryAfterMs: RETRY_MS }))
    freeOnClose(reply.raw, release)
    const { workloadId } = request.params as { workloadId: string }
    request.raw.setTimeout(limits.weightsIdleMs, () => request.raw.destroy())
    const collected = await collectOutput(app, { hostId: host.value, workloadId }, request.raw)
    return collected.ok ? {} : refuse(reply, collected)
  })
}

/** The host that signed the request. */
async function readHost(app: App, request: FastifyRequest): Promise<Result<string>> {
  const { hostId = '', timeMs = '', signature = '' } = HEADER.exec(request.headers.authorization ?? '')?.groups ?? {}
  const signedAt = Number(timeMs)
  if (hostId === '' || Math.abs(app.clock.now() - signedAt) > MAX_SKEW_MS) return fail('not_a_host')
  const host = await findHost(app.database.db, hostId)
  if (host === undefined || host.public_key === null || host.state === 'left') return fail('not_a_host')
  const statement = downloadStatement(app.installationId, request.url, signedAt)
  return isSignedBy(host.public_key, statement, signature) ? ok(hostId) : fail('not_a_host')
}

async function locate(options: AgentFilesOptions, { source, bytes, sha256 }: WeightsFile): Promise<Result<Found>> {
  switch (source.kind) {
    case 'https': {
      const refused = await checkOutboundUrl(source.url, options.app.allowPrivateAddresses)
      if (refused !== undefined) return failField(['url'], 'address_refused', { url: source.url, cause: refused })
      return ok({ kind: 'elsewhere', url: source.url })
    }
    case 's3': {
      const { app } = options
      const { objectStore: store } = options.settings
      if (store === undefined) return fail('no_object_store')
      const url = presign(store, objectUrl(store, source.bucket, source.object), app.clock.now(), LINK_SECONDS)
      return ok({ kind: 'elsewhere', url })
    }
    case 'server':
      return locateHere(options, source, { bytes, sha256 })
  }
}

/** In the model store of this server, which downloads it first if another server has it. */
async function locateHere(
  { app, engines }: AgentFilesOptions,
  { model: name, file }: Extract<WeightsSource, { kind: 'server' }>,
  { bytes, sha256 }: Pick<WeightsFile, 'bytes' | 'sha256'>,
): Promise<Result<Found>> {
  if (engines === undefined) return fail('no_model_store')
  const model = await findModel(app.database.db, name)
  if (model === undefined || model.files === null) return fail('model_not_found', { model: name })
  // The download goes on; the host asks again.
  const paths = await Promise.race([engines.files(name, model.files), delay(WAIT_MS, undefined, { ref: false })])
  if (paths === undefined) return fail('still_downloading', { model: name, retryAfterMs: WAIT_MS })
  if (!paths.ok) return paths
  const place = paths.value.get(file)
  if (place === undefined) return fail('file_not_found', { source: file, code: undefined })
  // The host checks the digest; a size that differs saves it the download.
  if (fs.statSync(place).size !== bytes) return fail('weights_mismatch', { file, model: name })
  return ok({ kind: 'file', file: place, bytes, sha256 })
}

/** Sends a file from where the host's copy ends. `release`: undefined if there is no place for another download. */
function sendFile(
  request: FastifyRequest,
  reply: FastifyReply,
  { file, bytes, sha256 }: Omit<EngineImage, 'tag'>,
  release: (() => void) | undefined,
): FastifyReply {
  if (release === undefined) return refuse(reply, fail('too_many_downloads', { retryAfterMs: RETRY_MS }))
  freeOnClose(reply.raw, release)
  const { range, 'if-range': version } = request.headers
  const tag = `"${sha256}"`
  const [, text] = /^bytes=(\d{1,15})-$/.exec(range ?? '') ?? []
  const from = text === undefined || (version !== undefined && version !== tag) ? 0 : Number(text)
  reply.header('ETag', tag).header('Accept-Ranges', 'bytes').type('application/octet-stream')
  if (from > 0 && from >= bytes) return reply.code(416).header('Content-Range', `bytes */${bytes}`).send()
  // A host that stops reading would keep its place forever; a slow one may take its time.
  reply.raw.setTimeout(limits.weightsIdleMs, () => reply.raw.destroy())
  if (from > 0) reply.code(206).header('Content-Range', `bytes ${from}-${bytes - 1}/${bytes}`)
  return reply.header('Content-Length', bytes - from).send(fs.createReadStream(file, { start: from }))
}

function refuse(reply: FastifyReply, failure: Failure): FastifyReply {
  return send(reply, requestFailurePage('v2', failure), failure)
}
