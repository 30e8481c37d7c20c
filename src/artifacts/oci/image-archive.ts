/**
 * Writes an OCI image into one file that `docker load`, `podman load` and `ctr images import` read. It needs neither
 * Docker nor a registry, and the same files always make the same image.
 */
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { pack, type Pack } from 'tar-stream'
import { USER_ID, writeLayer, type ImageFiles, type Layer } from './image-layer.ts'

export interface ImageOrder {
  readonly name: string
  readonly version: string
  /** The file to write. */
  readonly target: string
  /** The level from 1, fast, to 9, small. */
  readonly gzipLevel: number
  readonly layers: readonly ImageFiles[]
  /** The program that the image runs, in the form of the OCI specification. */
  readonly config: Readonly<Record<string, unknown>>
  /** The command that made the image, for its history. */
  readonly madeBy: string
}

export interface Image {
  /** The name with its version. */
  readonly name: string
  readonly digest: string
  readonly bytes: number
  readonly unpackedBytes: number
  /** The digests of its layers before compression. */
  readonly diffIds: readonly string[]
}

const TIME = '1980-01-01T00:00:00Z'

export async function writeImage({ target, gzipLevel, layers: fileSets, ...order }: ImageOrder): Promise<Image> {
  if (process.platform !== 'linux') throw new Error('images are made on Linux, from its libraries')
  const work = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-image-'))
  try {
    const layers: Layer[] = []
    for (const files of fileSets) layers.push(await writeLayer(work, files, gzipLevel))
    const config = JSON.stringify(configOf(order, layers))
    const manifest = JSON.stringify({
      schemaVersion: 2,
      mediaType: 'application/vnd.oci.image.manifest.v1+json',
      config: { mediaType: 'application/vnd.oci.image.config.v1+json', ...describe(config) },
      layers: layers.map(({ digest, bytes }) => ({
        mediaType: 'application/vnd.oci.image.layer.v1.tar+gzip',
        digest: `sha256:${digest}`,
        size: bytes,
      })),
    })
    const name = `${order.name}:${order.version}`
    await writeArchive(target, { name, version: order.version, config, manifest, layers })
    const unpackedBytes = layers.reduce((sum, layer) => sum + layer.unpackedBytes, 0)
    const diffIds = layers.map(({ diffId }) => diffId)
    return { name, digest: describe(manifest).digest, bytes: fs.statSync(target).size, unpackedBytes, diffIds }
  } finally {
    fs.rmSync(work, { recursive: true, force: true })
  }
}

function configOf({ config, madeBy }: Pick<ImageOrder, 'config' | 'madeBy'>, layers: readonly Layer[]) {
  return {
    created: TIME,
    architecture: process.arch === 'x64' ? 'amd64' : process.arch,
    os: 'linux',
    config: { User: `${USER_ID}:${USER_ID}`, StopSignal: 'SIGTERM', ...config },
    rootfs: { type: 'layers', diff_ids: layers.map(({ diffId }) => `sha256:${diffId}`) },
    history: layers.map(() => ({ created: TIME, created_by: madeBy })),
  }
}

function describe(text: string): { digest: string; size: number } {
  return { digest: `sha256:${createHash('sha256').update(text).digest('hex')}`, size: Buffer.byteLength(text) }
}

interface ArchiveParts {
  readonly name: string
  readonly version: string
  readonly config: string
  readonly manifest: string
  readonly layers: readonly Layer[]
}

/** Writes the OCI layout, and beside it the list that older versions of `docker load` read. */
async function writeArchive(target: string, { name, version, config, manifest, layers }: ArchiveParts): Promise<void> {
  const [configBlob, manifestBlob] = [describe(config), describe(manifest)]
  const index = {
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.index.v1+json',
    manifests: [
      {
        mediaType: 'application/vnd.oci.image.manifest.v1+json',
        ...manifestBlob,
        annotations: { 'org.opencontainers.image.ref.name': version, 'io.containerd.image.name': fullName(name) },
      },
    ],
  }
  const list = [
    {
      Config: blobAt(configBlob.digest),
      RepoTags: [name],
      Layers: layers.map(({ digest }) => blobAt(`sha256:${digest}`)),
    },
  ]
  const archive = pack()
  const fill = async (): Promise<void> => {
    await addText(archive, 'oci-layout', JSON.stringify({ imageLayoutVersion: '1.0.0' }))
    await addText(archive, 'index.json', JSON.stringify(index))
    await addText(archive, 'manifest.json', JSON.stringify(list))
    await addText(archive, blobAt(configBlob.digest), config)
    await addText(archive, blobAt(manifestBlob.digest), manifest)
    for (const { digest, bytes, file } of layers) {
      const entry = archive.entry({ name: blobAt(`sha256:${digest}`), size: bytes, mtime: new Date(Date.UTC(1980, 0)) })
      await pipeline(fs.createReadStream(file), entry)
    }
    archive.finalize()
  }
  await Promise.all([pipeline(archive, fs.createWriteStream(target)), fill()])
}

/** Completes the name, since Kubernetes looks for `berth:0.1.0` on a node only under its full name. */
function fullName(name: string): string {
  return `docker.io/${name.includes('/') ? '' : 'library/'}${name}`
}

function blobAt(digest: string): string {
  return `blobs/${digest.replace(':', '/')}`
}

function addText(archive: Pack, name: string, text: string): Promise<void> {
  const header = { name, size: Buffer.byteLength(text), mtime: new Date(Date.UTC(1980, 0)) }
  return new Promise((resolve, reject) => {
    archive.entry(header, text, (error) => (error ? reject(error) : resolve()))
  })
}
