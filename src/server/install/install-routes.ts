/**
 * `curl -fsSL https://…/install.sh | sh`: the install script, and the archives that it downloads and that agents update
 * themselves with. They hold no secrets and need no key.
 */
import fs from 'node:fs'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Clock } from '../../base/instant.ts'
import { defaultRates, limits } from '../../base/limits.ts'
import { fail, type Failure } from '../../contract/result.ts'
import { tooMany } from '../http/access.ts'
import type { AgentBundles } from './agent-bundle.ts'
import { baseUrlOf, send } from '../http/answer.ts'
import { freeOnClose, makeDownloadPlaces } from './download-places.ts'
import { requestFailurePage } from '../http/error-page.ts'
import { renderInstallScript } from './install-script.ts'
import type { RateLimiter } from '../http/rate-limit.ts'

export interface InstallOptions {
  readonly bundles: AgentBundles
  readonly rates: RateLimiter
  readonly clock: Clock
}

const ARCHIVE = /^(?<platform>[a-z0-9-]{1,40})\.tar\.gz(?<isChecksum>\.sha256)?$/

export function addInstallRoutes(server: FastifyInstance, options: InstallOptions): void {
  const { bundles } = options
  const places = makeDownloadPlaces({ all: limits.agentDownloads, each: limits.agentDownloadsEach })

  server.get('/install.sh', async (request, reply) => {
    const release = bundles.release()
    if (release === undefined) return refuse(reply, fail('agent_not_built'))
    const script = renderInstallScript({ ...release, url: baseUrlOf(request) ?? '' })
    return reply.type('text/x-shellscript; charset=utf-8').send(script)
  })

  server.get('/agent/latest.json', async (_request, reply) => {
    const release = bundles.release()
    return release === undefined ? refuse(reply, fail('agent_not_built')) : release
  })

  server.get('/agent/:build/:file', { exposeHeadRoute: false }, async (request, reply) => {
    const refused = countDownload(options, request, reply)
    if (refused !== undefined) return refuse(reply, refused)
    const { build, file } = request.params as { build: string; file: string }
    const { platform, isChecksum } = ARCHIVE.exec(file)?.groups ?? {}
    const archive = platform === undefined ? undefined : await bundles.archive(build, platform)
    if (archive === undefined) return refuse(reply, fail('agent_version_not_found'))
    if (isChecksum !== undefined) return reply.type('text/plain; charset=utf-8').send(`${archive.sha256}\n`)
    const release = places.take(request.ip)
    if (release === undefined) return refuse(reply, fail('too_many_downloads', { retryAfterMs: 60_000 }))
    // A client that stops reading would keep its place forever.
    const deadline = setTimeout(() => reply.raw.destroy(), limits.agentDownloadMs)
    freeOnClose(reply.raw, () => {
      release()
      clearTimeout(deadline)
    })
    return reply
      .header('Content-Length', archive.bytes)
      .header('ETag', `"${archive.sha256}"`)
      .type('application/gzip')
      .send(fs.createReadStream(archive.file))
  })
}

function countDownload(
  { rates, clock }: InstallOptions,
  request: FastifyRequest,
  reply: FastifyReply,
): Failure | undefined {
  const rate = rates.takeByAddress('download', request.ip, defaultRates.perAddressUnauthenticated)
  return rate.allowed ? undefined : tooMany(reply, rate, clock.now())
}

function refuse(reply: FastifyReply, failure: Failure): FastifyReply {
  return send(reply, requestFailurePage('v2', failure), failure)
}
