/** Taking away what a test has left while it may still be dying: a process, the folder it writes in, what it mounted. */
import { execFile } from 'node:child_process'
import fs from 'node:fs/promises'
import { promisify } from 'node:util'
import { waitFor } from './wait.ts'

/** After 100 ms, after 200 ms more, and so on: twenty seconds in all, and a killed process is gone much sooner. */
const TRIES = 20

/** Whoever was killed just now may still make a file there, and then the folder is not empty when it should go. */
export async function removeFolder(folder: string): Promise<void> {
  await fs.rm(folder, { recursive: true, force: true, maxRetries: TRIES, retryDelay: 100 })
}

/** Whoever was killed just now holds what it had open and mounted until the last of its threads is gone. */
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

/** SIGKILL. One that has ended by itself since it was looked for is no fault. */
export function killProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error
  }
}
