/**
 * The built console in memory: a map of its paths, so that no request path ever reaches the file system. A file is
 * compressed once, when a client first asks for that encoding.
 */
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { limits } from '../../base/limits.ts'
import { compress, type Encoding } from '../http/encoding.ts'

export const INDEX = '/index.html'

export interface ConsoleFile {
  readonly type: string
  /** The file's name contains a hash of its content, so browsers may cache it forever. */
  readonly isForever: boolean
  /** The hash of the uncompressed file, without quotes. */
  readonly hash: string
  readonly plain: Buffer
  /** Undefined: compression does not make it smaller. */
  as(encoding: Encoding): Promise<Buffer> | undefined
}

/** The key is the path on the server. */
export type ConsoleFiles = ReadonlyMap<string, ConsoleFile>

export async function readConsoleFiles(dir: string): Promise<ConsoleFiles> {
  const entries = await readdir(dir, { recursive: true, withFileTypes: true })
  const names = entries.filter((one) => one.isFile()).map((one) => path.join(one.parentPath, one.name))
  if (names.length > limits.consoleFiles) throw new Error(`the console has more than ${limits.consoleFiles} files`)
  const files = new Map<string, ConsoleFile>()
  for (const name of names) {
    const plain = await readFile(name)
    if (plain.length > limits.consoleFileBytes) throw new Error(`${name} is too large a file for the console`)
    const at = `/${path.relative(dir, name).split(path.sep).join('/')}`
    files.set(at, makeFile(at, plain))
  }
  return files
}

/** Beside the bundle in dist/, or in dist/ above the sources. Undefined: not built. */
export function findConsoleFolder(chosenFolder: string | undefined): string | undefined {
  const isThere = (folder: string): boolean => existsSync(path.join(folder, INDEX))
  if (chosenFolder !== undefined) return isThere(chosenFolder) ? chosenFolder : undefined
  let dir = path.dirname(fileURLToPath(import.meta.url))
  if (isThere(path.join(dir, 'console'))) return path.join(dir, 'console')
  while (!isThere(path.join(dir, 'dist', 'console'))) {
    const parent = path.dirname(dir)
    if (parent === dir) return undefined
    dir = parent
  }
  return path.join(dir, 'dist', 'console')
}

const types: Readonly<Record<string, string>> = {
  '.css': 'text/css; charset=utf-8',
  '.html': 'text/html; charset=utf-8',
  '.ico': 'image/x-icon',
  '.jpg': 'image/jpeg',
  '.js': 'text/javascript; charset=utf-8',
  '.json': 'application/json; charset=utf-8',
  '.map': 'application/json; charset=utf-8',
  '.png': 'image/png',
  '.svg': 'image/svg+xml',
  '.txt': 'text/plain; charset=utf-8',
  '.wasm': 'application/wasm',
  '.webmanifest': 'application/manifest+json',
  '.webp': 'image/webp',
  '.woff2': 'font/woff2',
}

/** Images and fonts are compressed already. */
const compressible = /^(text\/|application\/|image\/svg)/
/** Below this, the headers are longer than the saving. */
const COMPRESS_FROM_BYTES = 512
/** Most of the best compression at a tenth of its time. */
const BROTLI_QUALITY = 9

function makeFile(at: string, plain: Buffer): ConsoleFile {
  const type = types[path.extname(at).toLowerCase()] ?? 'application/octet-stream'
  const isCompressible =
    compressible.test(type) && type !== 'application/octet-stream' && plain.length >= COMPRESS_FROM_BYTES
  const compressed = new Map<Encoding, Promise<Buffer>>()
  return {
    type,
    isForever: at.startsWith('/assets/'),
    hash: createHash('sha256').update(plain).digest('base64url').slice(0, 22),
    plain,
    as: (encoding) => {
      if (!isCompressible) return undefined
      const cached = compressed.get(encoding)
      if (cached !== undefined) return cached
      const bytes = compress(plain, encoding, BROTLI_QUALITY)
      compressed.set(encoding, bytes)
      return bytes
    },
  }
}
