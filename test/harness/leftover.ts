/** Taking away what a test has left, where it may still be dying: a process that ends by itself, a folder it writes in. */
import fs from 'node:fs/promises'

/** Times 100 ms, then 200 ms, and so on: some twenty seconds, which is more than a killed process needs to be gone. */
const TRIES = 20

/** Whoever was killed just now may still make a file there, and then the folder is not empty when it should go. */
export async function removeFolder(folder: string): Promise<void> {
  await fs.rm(folder, { recursive: true, force: true, maxRetries: TRIES, retryDelay: 100 })
}

/** SIGKILL. One that has ended by itself since it was looked for is no fault. */
export function killProcess(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error
  }
}
