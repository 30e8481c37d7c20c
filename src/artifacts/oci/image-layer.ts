/** Writes the layers of an image. Times and owners are fixed, so that the same files make the same layer. */
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { Transform } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { createGzip } from 'node:zlib'
import { pack, type Pack } from 'tar-stream'

/** The user that programs in our images run as. */
export const USER_ID = 10_001
/** The file in an image that lists its libraries. */
export const LIBRARIES_FILE = '/usr/local/libraries.json'

export type ImageFile =
  | { readonly kind: 'file'; readonly from: string; readonly mode?: number }
  | { readonly kind: 'text'; readonly text: string }
  /** `isWritable`: the user of the image owns the folder and can write to it. */
  | { readonly kind: 'folder'; readonly isWritable?: true; readonly mode?: number }

/** Files by absolute path. */
export type ImageFiles = Map<string, ImageFile>

export interface Layer {
  readonly file: string
  /** The digest of the compressed file. */
  readonly digest: string
  readonly bytes: number
  /** The digest of the uncompressed archive. */
  readonly diffId: string
  readonly unpackedBytes: number
}

type HeaderArgument = Parameters<Pack['entry']>[0]

const MODE = { file: 0o644, folder: 0o755 }

export async function writeLayer(folder: string, files: ImageFiles, gzipLevel: number): Promise<Layer> {
  const file = path.join(folder, `layer-${files.size}-${[...files.keys()][0]?.replaceAll('/', '_')}`)
  const archive = pack()
  const [uncompressed, compressed] = [makeCounter(), makeCounter()]
  const output = fs.createWriteStream(file)
  const writing = pipeline(archive, uncompressed.stream, createGzip({ level: gzipLevel }), compressed.stream, output)
  await Promise.all([writing, fill(archive, files)])
  const [{ digest: diffId, bytes: unpackedBytes }, { digest, bytes }] = [uncompressed.read(), compressed.read()]
  return { file, digest, bytes, diffId, unpackedBytes }
}

/** Returns the digest of a layer with these files before compression, which takes most of the time of a layer. */
export async function diffIdOf(files: ImageFiles): Promise<string> {
  const archive = pack()
  const uncompressed = makeCounter()
  await Promise.all([pipeline(archive, uncompressed.stream.resume()), fill(archive, files)])
  return uncompressed.read().digest
}

async function fill(archive: Pack, files: ImageFiles): Promise<void> {
  for (const [name, entry] of withFolders(files)) await add(archive, name, entry)
  archive.finalize()
}

function makeCounter() {
  const hash = createHash('sha256')
  let bytes = 0
  const stream = new Transform({
    transform: (chunk: Buffer, _, callback) => {
      hash.update(chunk)
      bytes += chunk.length
      callback(null, chunk)
    },
  })
  return { stream, read: () => ({ digest: hash.digest('hex'), bytes }) }
}

/** Adds the folders above each file, and sorts all by path. */
function withFolders(files: ImageFiles): Array<[string, ImageFile]> {
  const all = new Map(files)
  for (const name of files.keys()) {
    for (let dir = path.dirname(name); dir !== '/'; dir = path.dirname(dir)) {
      if (!all.has(dir)) all.set(dir, { kind: 'folder' })
    }
  }
  return [...all].toSorted(([one], [other]) => (one < other ? -1 : 1))
}

async function add(archive: Pack, name: string, entry: ImageFile): Promise<void> {
  const header = { name: name.slice(1), uid: 0, gid: 0, mtime: new Date(Date.UTC(1980, 0)) }
  switch (entry.kind) {
    case 'file':
      return addFile(archive, { ...header, mode: entry.mode ?? modeOf(entry.from) }, entry.from)
    case 'text':
      return addPlain(archive, { ...header, mode: MODE.file }, entry.text)
    case 'folder': {
      const owner = entry.isWritable === true ? { uid: USER_ID, gid: USER_ID } : {}
      return addPlain(archive, { ...header, ...owner, type: 'directory', mode: entry.mode ?? MODE.folder })
    }
  }
}

/** Keeps only whether the file is executable, since the other bits depend on who checked it out. */
function modeOf(file: string): number {
  return fs.statSync(file).mode & 0o100 ? 0o755 : MODE.file
}

function addPlain(archive: Pack, header: HeaderArgument, text = ''): Promise<void> {
  const size = Buffer.byteLength(text)
  return new Promise((resolve, reject) => {
    archive.entry({ ...header, size }, text, (error) => (error ? reject(error) : resolve()))
  })
}

async function addFile(archive: Pack, header: HeaderArgument, from: string): Promise<void> {
  const { size } = fs.statSync(from)
  await pipeline(fs.createReadStream(from), archive.entry({ ...header, size }))
}
