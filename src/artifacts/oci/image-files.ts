/**
 * Collects the files of container images: Node with its libraries, and the packages that a bundle loads at run time.
 * Images have no package manager.
 */
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { LIBRARIES_FILE, USER_ID, type ImageFiles } from './image-layer.ts'
import { findNodeLicense } from './node-license.ts'

export interface InstalledPackage {
  readonly dependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
  readonly peerDependenciesMeta?: Readonly<Record<string, { readonly optional?: boolean }>>
  readonly os?: readonly string[]
  readonly cpu?: readonly string[]
}

/** The folder of the program in an image. */
export const APP = '/app'
/**
 * Matches files that are not needed to run: maps, types, documents except licenses, and the sources that llama.cpp
 * could be built from.
 */
const LEFT_OUT =
  /(?<!\/licen[cs]e)\.(map|md|markdown|d\.[cm]?ts|ts|flow)$|\/(test|tests|docs|example|examples)\/|\/gitRelease\.bundle$/i

/** Collects Node, and the libraries of this system that it and the packages need. */
export function baseFiles(packages: ImageFiles, node = fs.realpathSync(process.execPath)): ImageFiles {
  const files: ImageFiles = new Map([
    ['/usr/local/bin/node', { kind: 'file', from: node, mode: 0o755 }],
    ['/usr/local/LICENSE', { kind: 'file', from: licenseOf(node) }],
    [
      '/etc/passwd',
      { kind: 'text', text: `root:x:0:0:root:/:/none\nberth:x:${USER_ID}:${USER_ID}:Berth:/data:/none\n` },
    ],
    ['/etc/group', { kind: 'text', text: `root:x:0:\nberth:x:${USER_ID}:\n` }],
    // Without this file, names in /etc/hosts are not found.
    ['/etc/nsswitch.conf', { kind: 'text', text: 'hosts: files dns\n' }],
    ['/data', { kind: 'folder', isWritable: true, mode: 0o700 }],
    ['/tmp', { kind: 'folder', mode: 0o1777 }],
  ])
  const libraries = librariesOf([node, ...nativeFiles(packages)])
  for (const library of libraries) files.set(library, { kind: 'file', from: fs.realpathSync(library), mode: 0o755 })
  // The list is stored in the image, since an image may itself build images and has no `ldd`.
  files.set(LIBRARIES_FILE, { kind: 'text', text: `${JSON.stringify(libraries)}\n` })
  return files
}

/** Skips PostgreSQL's modules for other languages, which are never loaded and lack their libraries. */
function nativeFiles(packages: ImageFiles): string[] {
  const isNative = (file: string): boolean => /\.node$|\.so(\.[\d.]+)?$|\/native\/bin\/postgres$/.test(file)
  return [...packages.values()].flatMap((one) =>
    one.kind === 'file' && isNative(one.from) && !one.from.includes('/native/lib/postgresql/') ? [one.from] : [],
  )
}

function licenseOf(node: string): string {
  const license = findNodeLicense(node)
  if (license === undefined) throw new Error(`the license of ${node} is not beside it`)
  return license
}

/** Lists libraries of this system, with the loader. Libraries of packages come with the packages. */
function librariesOf(programs: readonly string[]): string[] {
  if (fs.existsSync(LIBRARIES_FILE)) return JSON.parse(fs.readFileSync(LIBRARIES_FILE, 'utf8')) as string[]
  const libraries = new Set<string>()
  for (const program of programs) {
    const text = execFileSync('ldd', [program], { encoding: 'utf8' })
    if (text.includes('not found')) throw new Error(`a library of ${program} is missing:\n${text}`)
    for (const [, file = ''] of text.matchAll(/(\/\S+) \(0x/g))
      if (!file.includes('/node_modules/')) libraries.add(file)
  }
  return [...libraries].toSorted()
}

/** Collects packages installed below `root`, with all their dependencies. */
export function packageFiles(root: string, names: readonly string[]): ImageFiles {
  const places = new Set<string>()
  for (const name of names) follow(root, '', name, places)
  const files: ImageFiles = new Map()
  for (const place of [...places].toSorted()) addPackage(files, root, place)
  return files
}

/** Looks a package up as Node does: in the folder of the package that imports it, then above. */
export function placeOf(root: string, from: string, name: string): string {
  let dir = from
  while (!fs.existsSync(path.join(root, inside(dir, name))) && dir !== '')
    dir = dir.replace(/(^|\/)node_modules\/(@[^/]+\/)?[^/]+$/, '')
  return inside(dir, name)
}

function follow(root: string, from: string, name: string, places: Set<string>): void {
  const place = placeOf(root, from, name)
  const installed = readPackage(path.join(root, place))
  // An optional package may not be installed.
  if (installed === undefined || places.has(place) || !isForThisPlatform(name, installed)) return
  places.add(place)
  for (const next of neededNames(installed)) follow(root, place, next, places)
}

/**
 * Lists dependencies. Optional ones may be missing; an optional peer is never needed, since it only serves programs
 * that use it themselves.
 */
export function neededNames(one: InstalledPackage): string[] {
  const peers = Object.keys(one.peerDependencies ?? {}).filter(
    (name) => one.peerDependenciesMeta?.[name]?.optional !== true,
  )
  return [...Object.keys({ ...one.dependencies, ...one.optionalDependencies }), ...peers]
}

function inside(dir: string, name: string): string {
  return `${dir === '' ? '' : `${dir}/`}node_modules/${name}`
}

function readPackage(folder: string): InstalledPackage | undefined {
  const file = path.join(folder, 'package.json')
  return fs.existsSync(file) ? (JSON.parse(fs.readFileSync(file, 'utf8')) as InstalledPackage) : undefined
}

/** Some packages name their platform, but can be installed on others. */
function isForThisPlatform(name: string, { os, cpu }: InstalledPackage): boolean {
  const [named] = /\b(linux|linuxmusl|darwin|win|win32)-(x64|arm64|armv7l)\b.*$/.exec(name) ?? []
  if (named !== undefined && named !== `${process.platform}-${process.arch}`) return false
  return (os?.includes(process.platform) ?? true) && (cpu?.includes(process.arch) ?? true)
}

function addPackage(files: ImageFiles, root: string, place: string): void {
  const folder = path.join(root, place)
  for (const name of fs.readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    const from = path.join(folder, name)
    // Nested packages are followed separately. npm packs no links; PostgreSQL's are made when it starts.
    if (name.split('/').includes('node_modules') || !fs.lstatSync(from).isFile()) continue
    const target = `${APP}/${place}/${name}`
    if (!LEFT_OUT.test(target) && isOwnBinary(target)) files.set(target, { kind: 'file', from })
  }
}

/** Tells whether the binary is for this platform, since this package has the libraries of all platforms. */
function isOwnBinary(target: string): boolean {
  const [, platform, arch] = /\/onnxruntime-node\/bin\/napi-v\d+\/([^/]+)\/([^/]+)\//.exec(target) ?? []
  return platform === undefined || (platform === process.platform && arch === process.arch)
}

/** Adds a file or folder, without maps and archives. */
export function addTree(files: ImageFiles, from: string, to: string): void {
  const names = fs.statSync(from).isFile() ? [''] : fs.readdirSync(from, { recursive: true, encoding: 'utf8' })
  for (const name of names) {
    const file = path.join(from, name)
    if (fs.statSync(file).isFile() && !/\.(map|tar)$/.test(file))
      files.set(path.posix.join(APP, to, name), { kind: 'file', from: file })
  }
}
