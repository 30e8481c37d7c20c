/**
 * The image of containers on hosts that cannot reach a registry: busybox, made of the host's own static one or of the
 * Debian package, which is only unpacked. It has a shell, the usual small programs and a web server.
 */
import { copyFile, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { existsSync } from 'node:fs'
import path from 'node:path'
import { signalWithin } from '../../base/signal-within.ts'
import { findProgram, runProgram, type RunOptions } from '../run-program.ts'
import type { DockerClient } from './client.ts'
import { readJsonLines } from './json-lines.ts'
import { pullLine } from './reply.ts'

/** The tag changes with the content. */
const [REPOSITORY, TAG] = ['berth/small', '1']
export const SMALL_IMAGE = `${REPOSITORY}:${TAG}`

/** A note for the customer of a container that runs the small image. */
export function smallImageNote(defaultImage: string): string {
  return `Runs a small BusyBox image, because this host cannot reach the registry of its default image, ${defaultImage}.`
}

const STEP_MS = 60_000
const DOWNLOAD_MS = 240_000
const IMPORT_MS = 120_000
const PACKAGE = 'busybox-static'

const files = {
  'etc/passwd': 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n',
  'etc/group': 'root:x:0:\ntty:x:5:\nnogroup:x:65534:\n',
} as const

/** Makes it unless the engine has it, and returns its name. `folder` is for temporary files. */
export async function makeSmallImage(
  client: DockerClient,
  folder: string,
  progress: (message: string) => void,
  signal: AbortSignal,
): Promise<string> {
  if ((await client.image(SMALL_IMAGE, signal)) !== undefined) return SMALL_IMAGE
  await mkdir(folder, { recursive: true, mode: 0o700 })
  const work = await mkdtemp(path.join(folder, '.small-image-'))
  const step = { signal, timeoutMs: STEP_MS }
  try {
    const busybox = (await ownBusybox(step)) ?? (await downloadBusybox(path.join(work, 'package'), progress, signal))
    progress('building the small image')
    const root = path.join(work, 'root')
    await makeRoot(root, busybox, step)
    const archive = path.join(work, 'image.tar')
    await runProgram('tar', ['--numeric-owner', '--owner=0', '--group=0', '-cf', archive, '-C', root, '.'], step)
    await importImage(client, await readFile(archive), signal)
  } finally {
    await rm(work, { recursive: true, force: true })
  }
  return SMALL_IMAGE
}

/** The busybox of the host, if it needs no libraries: ldd fails for such programs. */
async function ownBusybox(step: RunOptions): Promise<string | undefined> {
  findProgram('ldd')
  const busybox = '/bin/busybox'
  if (!existsSync(busybox)) return undefined
  return runProgram('ldd', [busybox], step).then(
    () => undefined,
    () => busybox,
  )
}

/** apt checks its signature. */
async function downloadBusybox(
  folder: string,
  progress: (message: string) => void,
  signal: AbortSignal,
): Promise<string> {
  progress(`downloading ${PACKAGE}`)
  await mkdir(folder)
  const options = { cwd: folder, signal, timeoutMs: DOWNLOAD_MS, keepsEnvironment: true }
  await runProgram('apt-get', ['-o', 'APT::Sandbox::User=root', 'download', PACKAGE], options)
  const [file] = (await readdir(folder)).filter((one) => one.endsWith('.deb'))
  if (file === undefined) throw new Error(`apt-get did not download the package ${PACKAGE}`)
  await runProgram('dpkg-deb', ['-x', file, 'unpacked'], { cwd: folder, signal, timeoutMs: STEP_MS })
  const places = ['bin/busybox', 'usr/bin/busybox'].map((one) => path.join(folder, 'unpacked', one))
  const busybox = places.find((one) => existsSync(one))
  if (busybox === undefined) throw new Error(`the package ${PACKAGE} has no busybox`)
  return busybox
}

async function makeRoot(root: string, busybox: string, step: RunOptions): Promise<void> {
  for (const one of ['bin', 'etc', 'usr', 'var/log', 'srv', 'home', 'mnt'])
    await mkdir(path.join(root, one), { recursive: true, mode: 0o755 })
  await mkdir(path.join(root, 'root'), { mode: 0o700 })
  await runProgram('mkdir', ['-m', '1777', path.join(root, 'tmp'), path.join(root, 'var/tmp')], step)
  await copyFile(busybox, path.join(root, 'bin/busybox'))
  await runProgram('chmod', ['755', path.join(root, 'bin/busybox')], step)
  for (const applet of (await runProgram('env', [busybox, '--list'], step)).split('\n').filter(Boolean))
    if (applet !== 'busybox') await symlink('busybox', path.join(root, 'bin', applet))
  await symlink('bin', path.join(root, 'sbin'))
  for (const one of ['bin', 'sbin']) await symlink('../bin', path.join(root, 'usr', one))
  for (const [name, text] of Object.entries(files)) await writeFile(path.join(root, name), text, { mode: 0o644 })
}

async function importImage(client: DockerClient, archive: Buffer, signal: AbortSignal): Promise<void> {
  const query = { fromSrc: '-', repo: REPOSITORY, tag: TAG, changes: 'CMD ["/bin/sh"]' }
  const within = signalWithin(signal, IMPORT_MS)
  const body = await client.stream('POST', '/images/create', { query, archive, timeoutMs: IMPORT_MS, signal: within })
  for await (const value of readJsonLines(body)) {
    const { error } = pullLine.parse(value)
    if (error !== undefined) throw new Error(`the engine did not take the small image: ${error}`)
  }
}
