/**
 * `npm run image`: the server as an OCI image, in one file that `docker load`, `podman load` and `ctr images import`
 * read. It needs neither Docker nor a registry, and the same files make the same image.
 */
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { pipeline } from 'node:stream/promises'
import { pack, type Pack } from 'tar-stream'
import packageJson from '../package.json' with { type: 'json' }
import { appFiles, baseFiles, packageFiles } from './image-files.ts'
import { USER_ID, writeLayer, type ImageFiles, type Layer } from './image-layer.ts'

export interface ImageOptions {
  /** The checkout. */
  readonly root: string
  /** The folder of the build. */
  readonly dist: string
  /** The file to write. */
  readonly target: string
  /** From 1, fast, to 9, small. */
  readonly gzipLevel?: number
}

export interface Image {
  readonly name: string
  readonly digest: string
  readonly bytes: number
  readonly unpackedBytes: number
  /** Of its layers before compression. */
  readonly diffIds: readonly string[]
}

const PORT = 8420
const GZIP_LEVEL = 6
const SECOND_NS = 1_000_000_000
const HEALTH = `fetch('http://127.0.0.1:' + (process.env.BERTH_PORT || ${PORT}) + '/healthz').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))`

export async function buildImage({ root, dist, target, gzipLevel = GZIP_LEVEL }: ImageOptions): Promise<Image> {
  if (process.platform !== 'linux') throw new Error('images are made on Linux, from its libraries')
  const work = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-image-'))
  try {
    const layers: Layer[] = []
    for (const files of layerFiles({ root, dist })) layers.push(await writeLayer(work, files, gzipLevel))
    const config = JSON.stringify(configOf(layers))
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
    const name = `berth:${packageJson.version}`
    await writeArchive(target, { name, config, manifest, layers })
    const unpackedBytes = layers.reduce((sum, layer) => sum + layer.unpackedBytes, 0)
    const diffIds = layers.map(({ diffId }) => diffId)
    return { name, digest: describe(manifest).digest, bytes: fs.statSync(target).size, unpackedBytes, diffIds }
  } finally {
    fs.rmSync(work, { recursive: true, force: true })
  }
}

/** From the bottom up: what changes least first. */
export function layerFiles({ root, dist }: Pick<ImageOptions, 'root' | 'dist'>): ImageFiles[] {
  const packages = packageFiles(root)
  return [baseFiles(nativeFiles(packages)), packages, appFiles(root, dist)]
}

function nativeFiles(packages: ImageFiles): string[] {
  return [...packages.values()].flatMap((one) =>
    one.kind === 'file' && /\.node$|\.so(\.[\d.]+)?$/.test(one.from) ? [one.from] : [],
  )
}

function configOf(layers: readonly Layer[]) {
  return {
    created: '1980-01-01T00:00:00Z',
    architecture: process.arch === 'x64' ? 'amd64' : process.arch,
    os: 'linux',
    config: {
      User: `${USER_ID}:${USER_ID}`,
      WorkingDir: '/data',
      Env: ['PATH=/usr/local/bin', 'HOME=/data', 'NODE_ENV=production', 'BERTH_DATA_DIR=/data', 'BERTH_HOST=0.0.0.0'],
      Entrypoint: ['/usr/local/bin/node', '--max-semi-space-size=64', '/app/bin/berth.mjs'],
      Cmd: ['serve'],
      ExposedPorts: { [`${PORT}/tcp`]: {} },
      Volumes: { '/data': {} },
      StopSignal: 'SIGTERM',
      // Not in the OCI specification, but Docker and Podman read it.
      Healthcheck: {
        Test: ['CMD', '/usr/local/bin/node', '-e', HEALTH],
        Interval: 10 * SECOND_NS,
        Timeout: 5 * SECOND_NS,
        StartPeriod: 60 * SECOND_NS,
        Retries: 3,
      },
      Labels: {
        'org.opencontainers.image.title': 'berth',
        'org.opencontainers.image.version': packageJson.version,
        'org.opencontainers.image.licenses': packageJson.license,
      },
    },
    rootfs: { type: 'layers', diff_ids: layers.map(({ diffId }) => `sha256:${diffId}`) },
    history: layers.map(() => ({ created: '1980-01-01T00:00:00Z', created_by: 'npm run image' })),
  }
}

function describe(text: string): { digest: string; size: number } {
  return { digest: `sha256:${createHash('sha256').update(text).digest('hex')}`, size: Buffer.byteLength(text) }
}

/** The OCI layout, and beside it the list that older versions of `docker load` read. */
async function writeArchive(
  target: string,
  { name, config, manifest, layers }: { name: string; config: string; manifest: string; layers: readonly Layer[] },
): Promise<void> {
  const [configBlob, manifestBlob] = [describe(config), describe(manifest)]
  const index = {
    schemaVersion: 2,
    mediaType: 'application/vnd.oci.image.index.v1+json',
    manifests: [
      {
        mediaType: 'application/vnd.oci.image.manifest.v1+json',
        ...manifestBlob,
        annotations: {
          'org.opencontainers.image.ref.name': packageJson.version,
          // In full: Kubernetes looks for `berth:0.1.0` on a node under this name only.
          'io.containerd.image.name': `docker.io/library/${name}`,
        },
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

function blobAt(digest: string): string {
  return `blobs/${digest.replace(':', '/')}`
}

function addText(archive: Pack, name: string, text: string): Promise<void> {
  const header = { name, size: Buffer.byteLength(text), mtime: new Date(Date.UTC(1980, 0)) }
  return new Promise((resolve, reject) => {
    archive.entry(header, text, (error) => (error ? reject(error) : resolve()))
  })
}
