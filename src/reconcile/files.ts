/** Removes the bytes of files that were deleted, have expired, or were never fully uploaded. */
import type { App } from '../app/app.ts'
import { eraseBytes } from '../app/file/file.ts'
import { MINUTE_MS } from '../base/instant.ts'
import { listUnneededFiles } from '../store/file/file.ts'
import { eachOf, type Reconciler } from './loop.ts'

const FILES = 100
const WIDTH = 4

export function removeFiles(app: App): Reconciler {
  return {
    name: 'files',
    everyMs: MINUTE_MS,
    run: async () => {
      const files = await listUnneededFiles(app.database.db, app.clock.now(), FILES)
      await eachOf(files, WIDTH, (file) => eraseBytes(app, file))
      return files.length === FILES
    },
  }
}
