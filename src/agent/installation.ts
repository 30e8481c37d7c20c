/**
 * This program is installed in `<prefix>/versions/<build>/`, with the link `<prefix>/current` to the one in use. A
 * running program keeps its own version when the link changes.
 */
import { randomBytes } from 'node:crypto'
import fs from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import packageJson from '../../package.json' with { type: 'json' }

const bundleFacts = z.object({ build: z.string(), platform: z.string() })

export interface Installation {
  readonly prefix: string
  readonly build: string
  /** `any`: with the Node of this machine. */
  readonly platform: string
}

const VERSIONS = 'versions'
const CURRENT = 'current'

/** undefined: a checkout or an npm package. */
export function findInstallation(): Installation | undefined {
  // The bundle is in dist/.
  const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..')
  if (path.basename(path.dirname(root)) !== VERSIONS) return undefined
  const text = readIfExists(path.join(root, 'bundle.json'))
  if (text === undefined) return undefined
  return { prefix: path.dirname(path.dirname(root)), ...bundleFacts.parse(JSON.parse(text)) }
}

export function agentVersion(): string {
  return findInstallation()?.build ?? packageJson.version
}

/** The command and its first arguments; it stays the same over updates. */
export function programWords(): readonly string[] {
  const installation = findInstallation()
  if (installation !== undefined) return [path.join(installation.prefix, CURRENT, 'bin', 'berth')]
  return [process.execPath, path.resolve(process.argv[1] ?? '')]
}

export function versionFolder({ prefix }: Installation, build: string): string {
  return path.join(prefix, VERSIONS, build)
}

/** Atomic: there is a version at every instant. */
export function useVersion({ prefix }: Installation, build: string): void {
  const link = path.join(prefix, `${CURRENT}.new-${randomBytes(4).toString('hex')}`)
  fs.symlinkSync(path.join(VERSIONS, build), link)
  fs.renameSync(link, path.join(prefix, CURRENT))
}

/** Keeps only these versions, and removes what an interrupted update left behind. */
export function removeVersions({ prefix }: Installation, versions: readonly string[]): void {
  const folder = path.join(prefix, VERSIONS)
  for (const name of fs.readdirSync(folder).filter((one) => !versions.includes(one)))
    fs.rmSync(path.join(folder, name), { recursive: true, force: true })
}

function readIfExists(file: string): string | undefined {
  try {
    return fs.readFileSync(file, 'utf8')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
}
