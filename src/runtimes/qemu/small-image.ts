/**
 * Builds the small base image on the host that will run it: a kernel and an initramfs of about ten megabytes from Debian
 * packages. The kernel package is only unpacked, never installed; busybox, dropbear and mke2fs are the host's own, with
 * their libraries. Machines boot it when no base image is registered: SSH, a shell, ext4 and NFS, nothing else.
 *
 * An image is stored under the digest of its inputs, so it is rebuilt when a package changes. It is renamed into place
 * when complete; concurrent builders are harmless.
 */
import { createHash, randomBytes } from 'node:crypto'
import { existsSync } from 'node:fs'
import fs from 'node:fs/promises'
import path from 'node:path'
import { signalWithin } from '../../base/signal-within.ts'
import { cloudKernel, unpackKernel, type Architecture, type UnpackedKernel } from './debian-kernel.ts'
import { findProgram, runProgram, type RunOptions } from '../run-program.ts'
import { bootModules, rootFiles, rootFolders, spareModules } from './small-image-root.ts'

const BUILD_MS = 300_000
/** Part of the digest: a change to the layout of the image raises it, so that older images are built again. */
const FORMAT_VERSION = 2
const STEP_MS = 60_000

/** The path of each program in the image. */
const programs = {
  busybox: 'bin/busybox',
  dropbear: 'usr/sbin/dropbear',
  dropbearkey: 'usr/bin/dropbearkey',
  mke2fs: 'sbin/mke2fs',
} as const

export interface SmallImage {
  readonly kernel: string
  readonly initrd: string
  /** Kernel release and digest of all inputs. */
  readonly version: string
}

export interface BuildSmallImageOptions {
  /** Folder for images and downloaded packages. */
  readonly folder: string
  /** The host's architecture, since its programs are copied. */
  readonly arch: Architecture
  readonly progress: (message: string) => void
  readonly signal: AbortSignal
}

export async function buildSmallImage(options: BuildSmallImageOptions): Promise<SmallImage> {
  const signal = signalWithin(options.signal, BUILD_MS)
  const step = { signal, timeoutMs: STEP_MS }
  const hostArch = process.arch === 'arm64' ? 'arm64' : 'amd64'
  if (options.arch !== hostArch)
    throw new Error(`An image for ${options.arch} must be built on an ${options.arch} host; this host is ${hostArch}`)
  const files = await hostFiles(step)
  for (const tool of ['cpio', 'depmod', 'modprobe', 'dpkg-deb']) findProgram(tool)
  await fs.mkdir(options.folder, { recursive: true })
  const kernel = await cloudKernel(options.folder, options.arch, options.progress, signal)
  const digest = await digestOf(kernel.name, files)
  const folder = path.join(options.folder, digest)
  const image = { kernel: path.join(folder, 'vmlinuz'), initrd: path.join(folder, 'initrd') }
  const version = `${kernel.name}-${digest}`
  if (existsSync(image.initrd)) return { ...image, version }
  const work = path.join(options.folder, `.building-${randomBytes(6).toString('hex')}`)
  try {
    options.progress('unpacking the kernel')
    const kernelFiles = await unpackKernel(kernel.package, path.join(work, 'kernel'), step)
    options.progress('building the small image')
    await makeRoot(path.join(work, 'root'), files, kernelFiles, step)
    await fs.mkdir(path.join(work, 'image'))
    await fs.copyFile(kernelFiles.kernel, path.join(work, 'image/vmlinuz'))
    await packRoot(path.join(work, 'root'), path.join(work, 'image/initrd'), step)
    await fs.rename(path.join(work, 'image'), folder).catch((error: unknown) => {
      // Another builder was faster, with the same result.
      if (!existsSync(image.initrd)) throw error
    })
  } finally {
    await fs.rm(work, { recursive: true, force: true })
  }
  return { ...image, version }
}

interface HostFile {
  readonly from: string
  readonly to: string
}

/** The host's programs, and their libraries at the paths where the loader looks for them. */
async function hostFiles(step: RunOptions): Promise<HostFile[]> {
  const hostPrograms = Object.entries(programs).map(([name, to]) => ({ from: findProgram(name), to }))
  const libraries = new Set<string>()
  for (const { from } of hostPrograms) {
    // ldd fails for static programs.
    const output = await runProgram('ldd', [from], step).catch(() => '')
    for (const [, library] of output.matchAll(/(?:=> |^\s*)(\/\S+) \(0x/gm)) if (library) libraries.add(library)
  }
  return [...hostPrograms, ...[...libraries].sort().map((library) => ({ from: library, to: library.slice(1) }))]
}

async function digestOf(kernel: string, files: readonly HostFile[]): Promise<string> {
  const digest = createHash('sha256')
  digest.update(JSON.stringify([FORMAT_VERSION, kernel, rootFiles, rootFolders, bootModules, spareModules]))
  for (const { from, to } of files) digest.update(`\0${to}\0`).update(await fs.readFile(from))
  return digest.digest('hex').slice(0, 16)
}

async function makeRoot(
  root: string,
  files: readonly HostFile[],
  kernel: UnpackedKernel,
  step: RunOptions,
): Promise<void> {
  for (const folder of rootFolders) await fs.mkdir(path.join(root, folder), { recursive: true })
  for (const { from, to } of files) {
    await fs.mkdir(path.dirname(path.join(root, to)), { recursive: true })
    await fs.copyFile(await fs.realpath(from), path.join(root, to))
    await fs.chmod(path.join(root, to), 0o755)
  }
  const applets = (await runProgram('busybox', ['--list'], step)).split('\n').filter(Boolean)
  for (const applet of applets) {
    // The busybox applet only makes ext2.
    if (applet !== 'busybox' && applet !== 'mke2fs') await fs.symlink('busybox', path.join(root, 'bin', applet))
  }
  for (const name of ['init', 'modprobe', 'reboot', 'poweroff', 'halt']) {
    await fs.symlink('../bin/busybox', path.join(root, 'sbin', name))
  }
  await fs.symlink('mke2fs', path.join(root, 'sbin/mkfs.ext4'))
  await fs.symlink('mount.nfs4', path.join(root, 'sbin/mount.nfs'))
  for (const file of rootFiles) {
    await fs.writeFile(path.join(root, file.path), file.text)
    await fs.chmod(path.join(root, file.path), file.mode)
  }
  await fs.chmod(path.join(root, 'root'), 0o700)
  await fs.chmod(path.join(root, 'root/.ssh'), 0o700)
  await addModules(root, kernel, step)
}

async function addModules(root: string, kernel: UnpackedKernel, step: RunOptions): Promise<void> {
  const base = path.join(root, 'lib/modules')
  const order: string[] = []
  for (const module of [...bootModules, ...spareModules]) {
    for (const file of await kernel.filesOf(module)) {
      const to = path.join(base, kernel.release, path.relative(kernel.modules, file).replace(/\.(xz|zst|gz)$/, ''))
      if (existsSync(to)) continue
      await fs.mkdir(path.dirname(to), { recursive: true })
      await fs.copyFile(file, to + path.extname(file).replace('.ko', ''))
      if (file.endsWith('.xz')) await runProgram('xz', ['-d', `${to}.xz`], step)
      if (file.endsWith('.zst')) await runProgram('zstd', ['-q', '-d', '--rm', `${to}.zst`], step)
      if (bootModules.includes(module)) order.push(`/${path.relative(root, to)}`)
    }
  }
  await fs.copyFile(path.join(kernel.modules, 'modules.builtin'), path.join(base, kernel.release, 'modules.builtin'))
  await fs.copyFile(path.join(kernel.modules, 'modules.order'), path.join(base, kernel.release, 'modules.order'))
  await runProgram('depmod', ['-b', root, kernel.release], step)
  await fs.writeFile(path.join(base, 'boot-order'), order.map((file) => `${file}\n`).join(''))
}

async function packRoot(root: string, to: string, step: RunOptions): Promise<void> {
  const entries = (await fs.readdir(root, { recursive: true })).sort()
  const args = ['-o', '-H', 'newc', '-R', '0:0', '--quiet', '-F', to]
  await runProgram('cpio', args, { ...step, cwd: root, input: ['.', ...entries].map((entry) => `${entry}\n`).join('') })
}
