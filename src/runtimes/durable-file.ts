/** Writes small files atomically: after a power loss they hold either the old text or the new one. */
import fs from 'node:fs/promises'
import path from 'node:path'

const OWNER_ONLY = 0o600

export async function writeDurably(file: string, text: string, mode = OWNER_ONLY): Promise<void> {
  const fresh = `${file}.new`
  try {
    const handle = await fs.open(fresh, 'w', OWNER_ONLY)
    try {
      if (mode !== OWNER_ONLY) await handle.chmod(mode)
      await handle.writeFile(text)
      await handle.sync()
    } finally {
      await handle.close()
    }
    await fs.rename(fresh, file)
  } catch (error) {
    await fs.rm(fresh, { force: true })
    throw error
  }
  await syncFolder(path.dirname(file))
}

export async function removeDurably(file: string): Promise<void> {
  await fs.rm(file, { force: true })
  await syncFolder(path.dirname(file))
}

/** A new file name survives a power loss only once its folder is synced. */
export async function syncFolder(folder: string): Promise<void> {
  const handle = await fs.open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}
