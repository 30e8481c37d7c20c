/** The journals of workers, each in a folder of its own inside the server's journal. */
import path from 'node:path'

export const WORKER_JOURNAL = /^worker-\d+$/

/** `worker` counts from 0. */
export function workerJournal(dataDir: string, worker: number): string {
  return path.join(dataDir, 'journal', `worker-${worker + 1}`)
}
