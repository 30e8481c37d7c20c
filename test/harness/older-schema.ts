/** The schema of versions before the baseline: every migration, one after the other. */
import { copyFile, mkdtemp, readdir } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'

/** A new folder with the migrations whose names sort before `before`; all of them without it. */
export async function olderSchema(before = '9999'): Promise<string> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-schema-'))
  for (const from of ['schema/before-baseline', 'schema']) {
    const names = (await readdir(from)).filter((name) => name.endsWith('.sql') && name < before)
    for (const name of names) await copyFile(path.join(from, name), path.join(folder, name))
  }
  return folder
}
