/**
 * Keeps the newest build of the programs and of the console between runs, under the digest of their sources: a run of
 * one test file, a retry and the second part of a run then do not build again what has not changed, which takes longer
 * than most tests. Each run gets a copy, so it may do with it what it likes.
 */
import { createHash } from 'node:crypto'
import { cp, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import path from 'node:path'

const KEPT = path.resolve('node_modules', '.cache', 'berth-builds')
/** Of the repository: whatever a build may read, besides packages, which the lock file stands for. */
const settings = [
  'LICENSE',
  'package.json',
  'package-lock.json',
  'rolldown.config.ts',
  'vite.config.ts',
  'tsconfig.json',
]
const folders = ['src', 'scripts']

export interface Build {
  readonly name: string
  /** Folders that it reads besides the common ones. */
  readonly from: readonly string[]
  readonly to: string
  readonly build: () => Promise<void>
}

export async function buildOrReuse({ name, from, to, build }: Build): Promise<void> {
  const kept = path.join(KEPT, `${name}-${await digestOf([...folders, ...from, ...settings])}`)
  // Another run may remove it at any time, in favour of its own.
  const isReused = await cp(kept, to, { recursive: true }).then(
    () => true,
    () => false,
  )
  if (isReused) return
  await rm(to, { recursive: true, force: true })
  await build()
  const copy = path.join(KEPT, `.${name}-${process.pid}`)
  await cp(to, copy, { recursive: true })
  for (const older of await readdir(KEPT)) {
    if (older.startsWith(`${name}-`)) await rm(path.join(KEPT, older), { recursive: true, force: true })
  }
  // Two runs may build the same at the same time.
  await rename(copy, kept).catch(() => rm(copy, { recursive: true, force: true }))
}

async function digestOf(places: readonly string[]): Promise<string> {
  const digest = createHash('sha256').update(process.version)
  for (const place of places) {
    for (const file of await filesOf(place)) digest.update(`\0${file}\0`).update(await readFile(file))
  }
  return digest.digest('hex').slice(0, 16)
}

/** Without tests, which no build contains. */
async function filesOf(place: string): Promise<string[]> {
  if ((await stat(place)).isFile()) return [place]
  const entries = await readdir(place, { recursive: true, withFileTypes: true })
  const files = entries.filter((entry) => entry.isFile() && !/\.test\.tsx?$/.test(entry.name))
  return files.map((entry) => path.join(entry.parentPath, entry.name)).sort()
}
