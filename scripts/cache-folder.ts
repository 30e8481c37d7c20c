/** The user's cache folder, outside the checkout, for programs that are downloaded or built once. */
import { execFileSync } from 'node:child_process'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'

export function cacheFolder(): string {
  return path.join(process.env['XDG_CACHE_HOME'] ?? path.join(os.homedir(), '.cache'), 'berth')
}

/**
 * A folder of the cache that an npm package fills, once. `fill` gets a new folder and the archive in it. It works beside the
 * final folder: one that is cut off, or another at the same time, leaves nothing half done.
 */
export function npmFolder(name: string, packageName: string, fill: (work: string, archive: string) => void): string {
  const folder = path.join(cacheFolder(), name)
  if (fs.existsSync(folder)) return folder
  fs.mkdirSync(cacheFolder(), { recursive: true })
  const work = fs.mkdtempSync(`${folder}-`)
  try {
    const pack = ['pack', '--silent', '--pack-destination', work, packageName]
    const archive = path.join(work, execFileSync('npm', pack, { encoding: 'utf8' }).trim())
    fill(work, archive)
    fs.rmSync(archive)
    fs.chmodSync(work, 0o755)
    if (!fs.existsSync(folder)) fs.renameSync(work, folder)
  } finally {
    fs.rmSync(work, { recursive: true, force: true })
  }
  return folder
}
