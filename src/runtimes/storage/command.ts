/** Runs a system program with a timeout and without a shell. */
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

const TIMEOUT_MS = 60_000
const MAX_OUTPUT_BYTES = 1_048_576
const MAX_MESSAGE_CHARS = 500

/** Some programs are in sbin, which is not in every user's path. */
export const systemEnv = {
  PATH: '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin',
  LC_ALL: 'C',
} as const

const execute = promisify(execFile)

export async function runCommand(command: string, args: readonly string[], signal?: AbortSignal): Promise<string> {
  try {
    const { stdout } = await execute(command, [...args], {
      env: systemEnv,
      timeout: TIMEOUT_MS,
      killSignal: 'SIGKILL',
      maxBuffer: MAX_OUTPUT_BYTES,
      ...(signal === undefined ? {} : { signal }),
    })
    return stdout
  } catch (error) {
    throw new Error(`${command} failed: ${errorTextOf(error)}`, { cause: error })
  }
}

function errorTextOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  if ('code' in error && error.code === 'ENOENT') return 'it is not installed'
  const stderr = 'stderr' in error && typeof error.stderr === 'string' ? error.stderr.trim() : ''
  return (stderr === '' ? error.message : stderr).slice(0, MAX_MESSAGE_CHARS)
}
