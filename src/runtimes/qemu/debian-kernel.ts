/**
 * The newest cloud kernel of the host's Debian: downloaded once by apt, which checks signatures, and unpacked into a
 * folder. It is never installed, so the host boots as before.
 */
import { randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import fs from 'node:fs/promises'
import path from 'node:path'
import { runProgram, type RunOptions } from '../run-program.ts'

export type Architecture = 'amd64' | 'arm64'

const ASK_MS = 60_000
const DOWNLOAD_MS = 240_000
/** Changes when `apt-get update` brings other lists. */
const PACKAGE_LISTS = '/var/lib/apt/lists'

export interface KernelPackage {
  /** Package and version. */
  readonly name: string
  /** The file. */
  readonly package: string
}

export async function cloudKernel(
  folder: string,
  arch: Architecture,
  progress: (message: string) => void,
  signal: AbortSignal,
): Promise<KernelPackage> {
  const packages = path.join(folder, 'packages')
  await fs.mkdir(packages, { recursive: true })
  const newest = await newestKernel(packages, arch, signal)
  if (newest === undefined) return downloadedKernel(packages, arch)
  const name = `${newest.package}_${newest.version}`
  const file = path.join(packages, `${fileNameOf(name)}.deb`)
  if (existsSync(file)) return { name, package: file }
  progress(`downloading ${newest.package}`)
  const work = path.join(packages, `.downloading-${randomBytes(6).toString('hex')}`)
  await fs.mkdir(work)
  try {
    const args = ['-o', 'APT::Sandbox::User=root', 'download', `${newest.package}=${newest.version}`]
    await runProgram('apt-get', args, { cwd: work, signal, timeoutMs: DOWNLOAD_MS, keepsEnvironment: true })
    const [downloaded] = (await fs.readdir(work)).filter((one) => one.endsWith('.deb'))
    if (downloaded === undefined) throw new Error(`apt-get did not download the package ${newest.package}`)
    await fs.rename(path.join(work, downloaded), file)
  } finally {
    await fs.rm(work, { recursive: true, force: true })
  }
  return { name, package: file }
}

interface KernelVersion {
  readonly package: string
  readonly version: string
}

/** Asks apt once per state of its lists: it reads all of them, which takes over a second of CPU time. */
async function newestKernel(
  packages: string,
  arch: Architecture,
  signal: AbortSignal,
): Promise<KernelVersion | undefined> {
  const note = path.join(packages, 'newest')
  const lists = await fs.stat(PACKAGE_LISTS).then(
    ({ mtimeMs }) => String(mtimeMs),
    () => undefined,
  )
  const [from, name, noted] = (await fs.readFile(note, 'utf8').catch(() => '')).trim().split(' ')
  if (from === lists && name !== undefined && noted !== undefined) return { package: name, version: noted }
  const options = { signal, timeoutMs: ASK_MS }
  const description = await runProgram('apt-cache', ['show', '--no-all-versions', metaPackage(arch)], options).catch(
    () => '',
  )
  const [, linuxImage, version] = /^Depends: (linux-image-\S+) \(= (\S+)\)/m.exec(description) ?? []
  if (linuxImage === undefined || version === undefined) return undefined
  if (lists !== undefined) {
    const newNote = `${note}.${randomBytes(6).toString('hex')}`
    await fs.writeFile(newNote, `${lists} ${linuxImage} ${version}\n`)
    await fs.rename(newNote, note)
  }
  return { package: linuxImage, version }
}

/** Without package lists a previously downloaded package still works. */
async function downloadedKernel(packages: string, arch: Architecture): Promise<KernelPackage> {
  const [file] = (await fs.readdir(packages))
    .filter((one) => one.endsWith('.deb'))
    .toSorted((a, b) => b.localeCompare(a, 'en', { numeric: true }))
  if (file === undefined) throw new Error(`The package ${metaPackage(arch)} is unknown: run apt-get update`)
  return { name: path.basename(file, '.deb'), package: path.join(packages, file) }
}

function metaPackage(arch: Architecture): string {
  return `linux-image-cloud-${arch}`
}

function fileNameOf(name: string): string {
  return name.replaceAll(/[^A-Za-z0-9._~+-]/g, '-')
}

export interface UnpackedKernel {
  readonly kernel: string
  readonly release: string
  /** The folder of this release's modules. */
  readonly modules: string
  /** Files of a module and its dependencies in load order; none if built in. */
  filesOf(module: string): Promise<string[]>
}

export async function unpackKernel(file: string, folder: string, step: RunOptions): Promise<UnpackedKernel> {
  await fs.mkdir(folder, { recursive: true })
  await runProgram('dpkg-deb', ['-x', file, folder], step)
  // Newer packages keep modules below usr/.
  if (!existsSync(path.join(folder, 'lib'))) await fs.symlink('usr/lib', path.join(folder, 'lib'))
  const [release] = await fs.readdir(path.join(folder, 'lib/modules'))
  if (release === undefined) throw new Error(`${path.basename(file)} has no modules`)
  await runProgram('depmod', ['-b', folder, release], step)
  return {
    kernel: path.join(folder, 'boot', `vmlinuz-${release}`),
    release,
    modules: path.join(folder, 'lib/modules', release),
    filesOf: async (module) => {
      const output = await runProgram('modprobe', ['-d', folder, '-S', release, '--show-depends', module], step)
      return [...output.matchAll(/^insmod (\S+)/gm)].map(([, one]) => one ?? '')
    },
  }
}
