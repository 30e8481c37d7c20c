/**
 * A real registry with images built on the spot: busybox with its links, and the same with an SFTP server. They are
 * pushed over the registry's protocol, so no daemon is needed.
 */
import { execFile, spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { copyFile, mkdir, mkdtemp, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { gzipSync } from 'node:zlib'
import { removeFolder } from '../harness/leftover.ts'
import { waitFor } from '../harness/wait.ts'

const execFileAsync = promisify(execFile)

export interface LabImage {
  readonly name: string
  readonly tag: string
}

export interface LabImages {
  /** A shell that stays up, with all of busybox, including `httpd`, `nc` and `wget`. */
  readonly busybox: LabImage
  /** The same with an SFTP server and a few megabytes of noise in separate layers. */
  readonly sftp: LabImage
}

export interface RegistryLab {
  /** As in image names: `10.1.2.1:34567`. */
  readonly address: string
  readonly images: LabImages
  /** A base for other images. */
  readonly busyboxLayer: Buffer
  /** Pushes an image: its layers from the bottom up, its command, and more of its configuration. */
  push(
    repository: string,
    tag: string,
    layers: readonly Buffer[],
    command: readonly string[],
    config?: object,
  ): Promise<LabImage>
  /** A small layer with these files. */
  layer(files: Readonly<Record<string, string>>): Promise<Buffer>
  /** A layer with a program of this machine and its libraries, at the same paths. */
  programLayer(file: string): Promise<Buffer>
  /** A layer with these symbolic links. */
  linkLayer(links: Readonly<Record<string, string>>): Promise<Buffer>
  close(): Promise<void>
}

const REGISTRY_UP_MS = 20_000
const NOISE_BYTES = 6_000_000
const SFTP_SERVER = '/usr/lib/openssh/sftp-server'
const architectures: Readonly<Record<string, string>> = { x64: 'amd64', arm64: 'arm64' }

export async function startRegistryLab(host: string): Promise<RegistryLab> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-registry-'))
  const port = await freePort(host)
  const address = `${host}:${port}`
  await writeFile(
    path.join(folder, 'registry.yml'),
    `version: 0.1\nlog: {level: error}\nstorage: {filesystem: {rootdirectory: ${folder}/data}}\nhttp: {addr: ${address}}\n`,
  )
  const child = spawn('docker-registry', ['serve', path.join(folder, 'registry.yml')], { stdio: 'ignore' })
  const ended = new Promise((resolve) => child.once('exit', resolve))
  const close = async (): Promise<void> => {
    if (child.exitCode === null) child.kill('SIGKILL')
    await ended
    await removeFolder(folder)
  }
  try {
    const isUp = (): Promise<boolean> =>
      fetch(`http://${address}/v2/`).then(
        ({ ok }) => ok,
        () => false,
      )
    await waitFor('the registry', isUp, REGISTRY_UP_MS)
    const push: RegistryLab['push'] = async (repository, tag, layers, command, config = {}) => {
      await pushImage(`http://${address}/v2/${repository}`, tag, layers, command, config)
      return { name: `${address}/${repository}`, tag }
    }
    const busyboxLayer = await layerOf(folder, (root) => writeBusybox(root))
    const sftp = await layerOf(folder, (root) => writeProgram(root, SFTP_SERVER))
    const noise = await layerOf(folder, (root) => writeFile(path.join(root, 'noise'), randomBytes(NOISE_BYTES)))
    const images = {
      busybox: await push('lab/busybox', '1', [busyboxLayer], ['/bin/sh']),
      sftp: await push('lab/sftp', '1', [busyboxLayer, sftp, noise], ['/bin/sh']),
    }
    return {
      address,
      images,
      busyboxLayer,
      push,
      layer: (files) => layerOf(folder, (root) => writeFiles(root, files)),
      programLayer: (file) => layerOf(folder, (root) => writeProgram(root, file)),
      linkLayer: (links) => layerOf(folder, (root) => writeLinks(root, links)),
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

async function writeBusybox(root: string): Promise<void> {
  for (const name of ['bin', 'etc', 'tmp', 'root', 'var', 'proc', 'sys', 'dev']) await mkdir(path.join(root, name))
  await copyFile('/usr/bin/busybox', path.join(root, 'bin/busybox')).catch(() =>
    copyFile('/bin/busybox', path.join(root, 'bin/busybox')),
  )
  const { stdout } = await execFileAsync('busybox', ['--list'])
  const applets = stdout.split('\n').filter((name) => name !== '' && name !== 'busybox')
  for (const name of applets) await symlink('busybox', path.join(root, 'bin', name))
  await writeFile(path.join(root, 'etc/passwd'), 'root:x:0:0:root:/root:/bin/sh\n')
  await writeFile(path.join(root, 'etc/group'), 'root:x:0:\n')
}

/** Includes the libraries it is linked with. */
async function writeProgram(root: string, program: string): Promise<void> {
  const { stdout } = await execFileAsync('ldd', [program])
  const libraries = stdout.split('\n').flatMap((line) => /(\/\S+) \(0x/.exec(line)?.[1] ?? [])
  for (const file of [program, ...libraries]) {
    await mkdir(path.join(root, path.dirname(file)), { recursive: true })
    await copyFile(file, path.join(root, file))
  }
}

async function writeFiles(root: string, files: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, text] of Object.entries(files)) {
    await mkdir(path.join(root, path.dirname(name)), { recursive: true })
    await writeFile(path.join(root, name), text, { mode: 0o755 })
  }
}

async function writeLinks(root: string, links: Readonly<Record<string, string>>): Promise<void> {
  for (const [name, target] of Object.entries(links)) {
    await mkdir(path.join(root, path.dirname(name)), { recursive: true })
    await symlink(target, path.join(root, name))
  }
}

/** As a tar. */
async function layerOf(folder: string, fill: (root: string) => Promise<void>): Promise<Buffer> {
  const root = await mkdtemp(path.join(folder, 'layer-'))
  await fill(root)
  await execFileAsync('tar', ['-C', root, '--owner=0', '--group=0', '-cf', `${root}.tar`, '.'])
  const tar = await readFile(`${root}.tar`)
  await rm(root, { recursive: true })
  await rm(`${root}.tar`)
  return tar
}

async function pushImage(
  url: string,
  tag: string,
  layers: readonly Buffer[],
  command: readonly string[],
  more: object,
): Promise<void> {
  const packed = layers.map((tar) => ({ tar: digestOf(tar), gzip: gzipSync(tar, { level: 1 }) }))
  const config = Buffer.from(
    JSON.stringify({
      architecture: architectures[process.arch] ?? process.arch,
      os: 'linux',
      // A shell on a terminal ignores SIGTERM, and a stopping daemon would wait for it.
      config: { Cmd: command, StopSignal: 'SIGHUP', Env: ['PATH=/bin:/sbin:/usr/bin:/usr/sbin'], ...more },
      rootfs: { type: 'layers', diff_ids: packed.map(({ tar }) => tar) },
    }),
  )
  for (const blob of [config, ...packed.map(({ gzip }) => gzip)]) await pushBlob(url, blob)
  const type = 'application/vnd.docker.distribution.manifest.v2+json'
  const manifest = {
    schemaVersion: 2,
    mediaType: type,
    config: entryOf('application/vnd.docker.container.image.v1+json', config),
    layers: packed.map(({ gzip }) => entryOf('application/vnd.docker.image.rootfs.diff.tar.gzip', gzip)),
  }
  const headers = { 'content-type': type }
  await expectOk(await fetch(`${url}/manifests/${tag}`, { method: 'PUT', headers, body: JSON.stringify(manifest) }))
}

async function pushBlob(url: string, blob: Buffer): Promise<void> {
  const begun = await expectOk(await fetch(`${url}/blobs/uploads/`, { method: 'POST' }))
  const target = new URL(begun.headers.get('location') ?? '', url)
  target.searchParams.set('digest', digestOf(blob))
  const headers = { 'content-type': 'application/octet-stream' }
  await expectOk(await fetch(target, { method: 'PUT', headers, body: new Uint8Array(blob) }))
}

async function expectOk(response: Response): Promise<Response> {
  if (!response.ok) throw new Error(`the registry answered ${response.status}: ${await response.text()}`)
  return response
}

function entryOf(mediaType: string, blob: Buffer): { mediaType: string; size: number; digest: string } {
  return { mediaType, size: blob.length, digest: digestOf(blob) }
}

function digestOf(blob: Buffer): string {
  return `sha256:${createHash('sha256').update(blob).digest('hex')}`
}

function freePort(host: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = net.createServer()
    server.once('error', reject)
    server.listen(0, host, () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0))
    })
  })
}
