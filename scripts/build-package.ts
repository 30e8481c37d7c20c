/**
 * `npm run package`: Berth as one npm package that brings the packages it runs on, for machines of this platform.
 *
 * `npm pack` would name them instead. npm then ignores our overrides and lock file, which apply only in a checkout, and
 * installs 1,456 MB with CUDA libraries and browser runtimes that Berth never loads.
 */
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import packageJson from '../package.json' with { type: 'json' }
import { APP, neededNames, packageFiles, placeOf, type InstalledPackage } from '../src/artifacts/oci/image-files.ts'
import { writeLayer, type ImageFiles } from '../src/artifacts/oci/image-layer.ts'
import { appFiles, externalPackages, type ImageOptions } from './build-image.ts'

interface Manifest extends InstalledPackage {
  readonly name: string
  readonly version: string
}

const GZIP_LEVEL = 6
/** npm expects everything in a folder of this name. */
const FOLDER = '/package'
/** The manifest of a package in node_modules/, and not one of the others that packages have inside. */
const MANIFEST = new RegExp(`^${APP}/((?:node_modules/(?:@[^/]+/)?[^/]+/)+)package\\.json$`)
/** Stands in for packages that are declared and never loaded. */
const ABSENT = 'absent'

export async function buildPackage(options: ImageOptions): Promise<{ bytes: number; unpackedBytes: number }> {
  const { target, gzipLevel = GZIP_LEVEL } = options
  // Beside the target, so that the archive can be moved there.
  const work = fs.mkdtempSync(path.join(path.dirname(target), '.berth-package-'))
  try {
    const { file, bytes, unpackedBytes } = await writeLayer(work, packedFiles(options), gzipLevel)
    fs.renameSync(file, target)
    return { bytes, unpackedBytes }
  } finally {
    fs.rmSync(work, { recursive: true, force: true })
  }
}

export function packedFiles({ root, dist }: Pick<ImageOptions, 'root' | 'dist'>): ImageFiles {
  const packages = packageFiles(root, externalPackages())
  const manifests = readManifests(root, packages)
  const files: ImageFiles = new Map()
  for (const [name, file] of [...appFiles(root, dist), ...packages]) files.set(name.replace(APP, FOLDER), file)
  for (const [place, manifest] of manifests)
    setManifest(files, `${FOLDER}/${place}`, withExactDependencies(root, place, manifest, manifests))
  setManifest(files, FOLDER, ownManifest(manifests))
  return files
}

function setManifest(files: ImageFiles, folder: string, manifest: Readonly<Record<string, unknown>>): void {
  files.set(`${folder}/package.json`, { kind: 'text', text: `${JSON.stringify(manifest, null, 2)}\n` })
}

/** By place, without the stand-ins, whose files are dropped. */
function readManifests(root: string, packages: ImageFiles): Map<string, Manifest> {
  const manifests = new Map<string, Manifest>()
  for (const name of packages.keys()) {
    const place = MANIFEST.exec(name)?.[1]?.slice(0, -1)
    if (place === undefined) continue
    const manifest = JSON.parse(fs.readFileSync(path.join(root, place, 'package.json'), 'utf8')) as Manifest
    if (manifest.name === ABSENT) packages.delete(name)
    else manifests.set(place, manifest)
  }
  return manifests
}

/** Only what is in the package: npm would download the rest. */
function withExactDependencies(
  root: string,
  place: string,
  manifest: Manifest,
  manifests: ReadonlyMap<string, Manifest>,
): Record<string, unknown> {
  const found = neededNames(manifest).flatMap((name) => {
    const version = manifests.get(placeOf(root, place, name))?.version
    return version === undefined ? [] : [[name, version] as const]
  })
  const replaced = { optionalDependencies: undefined, peerDependencies: undefined, devDependencies: undefined }
  return { ...manifest, ...replaced, dependencies: Object.fromEntries(found) }
}

function ownManifest(manifests: ReadonlyMap<string, Manifest>): Record<string, unknown> {
  const { name, version, description, license, bin, type, engines } = packageJson
  const direct = [...manifests].flatMap(([place, one]) => {
    const [, top] = /^node_modules\/((?:@[^/]+\/)?[^/]+)$/.exec(place) ?? []
    return top === undefined ? [] : [[top, one.version] as const]
  })
  const bundled = direct.map(([top]) => top)
  const platform = { os: [os.platform()], cpu: [os.arch()] }
  const dependencies = Object.fromEntries(direct)
  return {
    name,
    version,
    description,
    license,
    bin,
    type,
    engines,
    ...platform,
    dependencies,
    bundleDependencies: bundled,
  }
}
