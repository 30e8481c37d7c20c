/** `npm run image`: the server as an OCI image. */
import fs from 'node:fs'
import path from 'node:path'
import packageJson from '../package.json' with { type: 'json' }
import { serverConfig } from '../rolldown.config.ts'
import { writeImage, type Image } from '../src/artifacts/oci/image-archive.ts'
import { addTree, APP, baseFiles, packageFiles } from '../src/artifacts/oci/image-files.ts'
import type { ImageFiles } from '../src/artifacts/oci/image-layer.ts'
import { releaseNode } from './release-node.ts'
import { linkLibraries } from '../src/server/data/embedded-postgres.ts'

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

const PORT = 8420
const GZIP_LEVEL = 6
const SECOND_NS = 1_000_000_000
const HEALTH = `fetch('http://127.0.0.1:' + (process.env.BERTH_PORT || ${PORT}) + '/healthz').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))`
/** For PostgreSQL alone: `initdb` runs its programs through it. Nothing else of a system is there. */
const SHELL = '/bin/sh'

export async function buildImage({ root, dist, target, gzipLevel = GZIP_LEVEL }: ImageOptions): Promise<Image> {
  return writeImage({
    name: 'berth',
    version: packageJson.version,
    target,
    gzipLevel,
    layers: layerFiles({ root, dist }),
    config,
    madeBy: 'npm run image',
  })
}

/** From the bottom up: what changes least first. */
export function layerFiles({ root, dist }: Pick<ImageOptions, 'root' | 'dist'>): ImageFiles[] {
  // `ldd` would miss libraries of PostgreSQL without them.
  linkLibraries()
  const packages = packageFiles(root, externalPackages())
  const base = baseFiles(packages, releaseNode())
  base.set(SHELL, { kind: 'file', from: fs.realpathSync(SHELL), mode: 0o755 })
  return [base, packages, appFiles(root, dist)]
}

const config = {
  WorkingDir: '/data',
  Env: ['PATH=/usr/local/bin', 'HOME=/data', 'NODE_ENV=production', 'BERTH_DATA_DIR=/data', 'BERTH_HOST=0.0.0.0'],
  Entrypoint: ['/usr/local/bin/node', '--max-semi-space-size=64', '/app/bin/berth.mjs'],
  Cmd: ['serve'],
  ExposedPorts: { [`${PORT}/tcp`]: {} },
  Volumes: { '/data': {} },
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
}

/** The packages that the bundle loads at run time. The others are in it. */
export function externalPackages(): string[] {
  return Object.keys({ ...packageJson.dependencies, ...packageJson.optionalDependencies }).filter(isExternal)
}

function isExternal(name: string): boolean {
  return serverConfig.external.some((one) => (typeof one === 'string' ? one === name : one.test(`${name}/`)))
}

export function appFiles(root: string, dist: string): ImageFiles {
  const files: ImageFiles = new Map()
  for (const name of [...packageJson.files, 'package.json', 'LICENSE'].filter((one) => !one.startsWith('!')))
    addTree(files, name === 'dist' ? dist : path.join(root, name), name)
  // A package of its own, where `npm run sdk` writes it.
  for (const name of files.keys()) if (name.startsWith(`${APP}/dist/sdk/`)) files.delete(name)
  return files
}
