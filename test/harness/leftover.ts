/** Cleans up after processes that may still be exiting: the process, its folder, its mounts. */
import { execFile } from 'node:child_process'
import fs from 'node:fs/promises'
import { promisify } from 'node:util'
import { waitFor } from './wait.ts'

/** After 100 ms, then 200 ms more, and so on: twenty seconds in total, far longer than a killed process needs. */
const TRIES = 20

/** A process that was just killed may still create a file, and then the folder is not empty. */
export async function removeFolder(folder: string): Promise<void> {
  await fs.rm(folder, { recursive: true, force: true, maxRetries: TRIES, retryDelay: 100 })
}

/** A process that was just killed keeps its files and mounts open until its last thread is gone. */
export async function unmount(at: string): Promise<void> {
  let said = ''
  await waitFor(
    () => `${at} to be let go: ${said}`,
    () =>
      promisify(execFile)('umount', [at]).then(
        () => true,
        (error: unknown) => {
          said = String(error)
          return false
        },
      ),
  )
}

/** SIGKILL. A process that has already ended is not an error. */
export function killProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error
  }
}
