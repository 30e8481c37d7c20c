/** Why a container ended or does not start, in words for its customer. */
import { isExitCode } from '../../domain/workload.ts'
import { NeverStarts } from '../runtime.ts'
import { DockerRefused } from './client.ts'
import type { Container } from './reply.ts'
import type { WorkloadEnd } from './workload-file.ts'

/** Killed by SIGKILL. */
const KILLED_EXIT_CODE = 137

export const lost = { failure: 'vanished', message: 'The machine disappeared from its host.' } as const

/** `restarts`: how often in a row it was started again before. */
export function endOf(container: Container, restarts: number): WorkloadEnd {
  const { ExitCode, OOMKilled, Error: reason, FinishedAt } = container.State
  const after = restarts === 0 ? '' : ` after ${restarts} ${restarts === 1 ? 'restart' : 'restarts'}`
  const endedAt = Date.parse(FinishedAt)
  const exit = {
    ...(isExitCode(ExitCode) ? { exitCode: ExitCode } : {}),
    ...(endedAt > 0 ? { endedAt } : {}),
  }
  if (OOMKilled && ExitCode === KILLED_EXIT_CODE) {
    const message = `The container exceeded its memory limit and was killed${after}.`
    return { failure: 'out_of_memory', message, ...exit }
  }
  const why = reason === '' ? '' : ` (${reason.slice(0, 200)})`
  const message = `The process exited with code ${ExitCode}${after}${why}.`
  return { failure: 'process_exited', message, ...exit }
}

/** Refusals because of the image or the machine would repeat: they are final. */
export function startFault(error: unknown): unknown {
  if (!(error instanceof DockerRefused)) return error
  if (/no command specified/i.test(error.message)) {
    return new NeverStarts('image_without_command', 'The image has no command to run.')
  }
  if (/could not select device driver|unresolvable CDI devices|nvidia-container-cli/i.test(error.message)) {
    return new NeverStarts('gpu_unavailable', 'The container engine of this host cannot attach its GPUs.')
  }
  return error
}

/** The path of a file is a folder of the image, or leads through one of its files. */
export function fileFault(error: unknown): unknown {
  const isRefused = error instanceof DockerRefused && error.status >= 400 && error.status < 500 && error.status !== 409
  const isFolder = error instanceof DockerRefused && /non-directory|not a directory|is a directory/i.test(error.message)
  if (!isRefused && !isFolder) return error
  return new NeverStarts('bad_file_path', 'A file of the order cannot be written: its path does not fit the image.')
}
