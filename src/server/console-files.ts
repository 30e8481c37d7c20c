/**
 * The console as it was built, in memory: a map of the paths that there are, so that no path of a request ever meets
 * the file system. A file is compressed when it is first asked for in that form, once.
 */
import { createHash } from 'node:crypto'
import { existsSync } from 'node:fs'
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { limits } from '../base/limits.ts'
import { pack, type Encoding } from './encoding.ts'

export const INDEX = '/index.html'

export interface ConsoleFile {
  readonly type: string
  /** Its name has a hash of its content in it. */
  readonly isForever: boolean
  /** Without quotes; of the plain form. */
  readonly hash: string
  readonly plain: Buffer
  /** Undefined: it does not get smaller. */
  as(encoding: Encoding): Promise<Buffer> | undefined
}

/** By their paths on the server. */
export type ConsoleFiles = ReadonlyMap<string, ConsoleFile>

export async function readConsoleFiles(dir: string): Promise<ConsoleFiles> {
  const found = await readdir(dir, { recursive: true, withFileTypes: true })
  const names = found.filter((one) => one.isFile()).map((one) => path.join(one.parentPath, one.name))
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

/** Beside the bundle in dist/, or in dist/ above the sources. Undefined: it was not built. */
export function findConsoleFolder(given: string | undefined): string | undefined {
  const isThere = (folder: string): boolean => existsSync(path.join(folder, INDEX))
  if (given !== undefined) return isThere(given) ? given : undefined
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

/** Pictures and fonts are packed already. */
const packable = /^(text\/|application\/|image\/svg)/
/** Below it, the headers are longer than what is saved. */
const PACK_FROM_BYTES = 512
/** Most of what can be had, at a tenth of the time of the best. */
const BROTLI_QUALITY = 9

function makeFile(at: string, plain: Buffer): ConsoleFile {
  const type = types[path.extname(at).toLowerCase()] ?? 'application/octet-stream'
  const isPackable = packable.test(type) && type !== 'application/octet-stream' && plain.length >= PACK_FROM_BYTES
  const packed = new Map<Encoding, Promise<Buffer>>()
  return {
    type,
    isForever: at.startsWith('/assets/'),
    hash: createHash('sha256').update(plain).digest('base64url').slice(0, 22),
    plain,
    as: (encoding) => {
      if (!isPackable) return undefined
      const known = packed.get(encoding)
      if (known !== undefined) return known
      const made = pack(plain, encoding, BROTLI_QUALITY)
      packed.set(encoding, made)
      return made
    },
  }
}
