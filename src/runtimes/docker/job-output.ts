/** The remains of a job: how its program ended while nobody watched, and the files of its output folder. */
import { Readable } from 'node:stream'
import { DockerRefused, type DockerClient } from './client.ts'
import { endOf } from './container-end.ts'
import { nameOf } from './container-order.ts'
import { isGoing, type ContainerPower } from './container-power.ts'
import type { Container } from './reply.ts'
import type { WorkloadEnd, WorkloadFile, WorkloadFiles } from './workload-file.ts'

const OUTPUT_FOLDER = '/berth/output'
/** All that is handed over of a volume. */
const RESULT_FILE = `${OUTPUT_FOLDER}/result.json`
/** Many files take the daemon a while to find. */
const OPEN_TIMEOUT_MS = 120_000
/** Killed, ended by a signal of the daemon, or lost with it: nothing that the program decided. */
const INTERRUPTED: ReadonlySet<number> = new Set([137, 143, 255])

export interface JobOutputOptions {
  readonly client: DockerClient
  readonly files: WorkloadFiles
  readonly power: Pick<ContainerPower, 'halt'>
}

/**
 * Opens the output of a job as a tar, once its program has ended. undefined: the workload is not a job, or has no
 * container.
 */
export async function findOutput(
  { client, files, power }: JobOutputOptions,
  id: string,
  signal: AbortSignal,
): Promise<(() => Promise<Readable>) | undefined> {
  // A damaged file says nothing about its container, which is removed all the same.
  const file = await files.read(id).catch(() => undefined)
  if (file?.runsOnce !== true) return undefined
  const container = await client.container(nameOf(id), signal)
  if (container === undefined || isGoing(container.State.Status)) return undefined
  const isOnVolume = container.Mounts.some(({ Destination }) => Destination === OUTPUT_FOLDER)
  return async () => {
    await power.halt(id, signal)
    try {
      const path = `/containers/${encodeURIComponent(nameOf(id))}/archive`
      return await client.stream('GET', path, {
        query: { path: isOnVolume ? RESULT_FILE : OUTPUT_FOLDER },
        timeoutMs: OPEN_TIMEOUT_MS,
        signal,
      })
    } catch (error) {
      // The container has no such folder.
      if (error instanceof DockerRefused && error.status === 404) return Readable.from([])
      throw error
    }
  }
}

/** The end of a job that nobody watched, whose program is never started again. undefined: the workload is not a job. */
export function unwatchedEnd(file: WorkloadFile | undefined, container: Container): WorkloadEnd | undefined {
  if (file?.runsOnce !== true) return undefined
  if (!INTERRUPTED.has(container.State.ExitCode)) return endOf(container, 0)
  return { failure: 'ended', message: 'The container was interrupted while its host or its engine restarted.' }
}
