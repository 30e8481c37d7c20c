/** A login with a key that exists only for one test, in a temporary folder. */
import { execFile } from 'node:child_process'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import type { Ssh } from '../../view/own-machine.ts'
import { CliError, exitCodes } from '../kit/shell.ts'

const CONNECT_TIMEOUT_S = 10
const LOGIN_MS = 60_000
const MAX_OUTPUT_BYTES = 64 * 1024
/** The exit code of ssh itself: the machine does not answer, or does not know the key yet. */
const NO_CONNECTION = 255

/** A line per GPU. Without NVIDIA's driver there is at least a kernel. */
const PROBE =
  'if command -v nvidia-smi >/dev/null 2>&1; then echo nvidia-smi; nvidia-smi --query-gpu=name,memory.total --format=csv,noheader; else echo uname; uname -srm; fi'

export interface Login {
  readonly program: 'nvidia-smi' | 'uname'
  readonly output: readonly string[]
}

export interface TestKey {
  readonly publicKey: string
  /** undefined: the machine does not accept the login yet. */
  tryLogin(ssh: Ssh, signal: AbortSignal): Promise<Login | undefined>
  remove(): Promise<void>
}

export async function makeTestKey(comment: string): Promise<TestKey> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-smoke-'))
  const file = path.join(folder, 'key')
  const remove = (): Promise<void> => rm(folder, { recursive: true, force: true })
  try {
    await run('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-C', comment, '-f', file])
    const publicKey = (await readFile(`${file}.pub`, 'utf8')).trim()
    return { publicKey, remove, tryLogin: (ssh, signal) => tryLogin(file, ssh, signal) }
  } catch (error) {
    await remove()
    throw error
  }
}

async function tryLogin(file: string, { user, host, port }: Ssh, signal: AbortSignal): Promise<Login | undefined> {
  const options = [
    'BatchMode=yes',
    'IdentitiesOnly=yes',
    `ConnectTimeout=${CONNECT_TIMEOUT_S}`,
    // The machine is minutes old, and its address may have belonged to another one.
    'StrictHostKeyChecking=no',
    'UserKnownHostsFile=/dev/null',
    'LogLevel=ERROR',
  ]
  const flags = options.flatMap((option) => ['-o', option])
  const args = ['-F', 'none', '-i', file, '-p', String(port), ...flags, `${user}@${host}`, PROBE]
  const { code, out, error } = await run('ssh', args, signal)
  if (code === NO_CONNECTION) return undefined
  const [program, ...output] = out.trim().split('\n')
  if (code !== 0 || (program !== 'nvidia-smi' && program !== 'uname'))
    throw new CliError(
      exitCodes.failed,
      `The login works, but ${program ?? 'the shell'} fails: ${lastLine(error, out)}.`,
    )
  return { program, output }
}

function lastLine(...texts: readonly string[]): string {
  const lines = texts.flatMap((text) => text.trim().split('\n')).filter((line) => line !== '')
  return (lines[0] ?? 'there is no output').replace(/\.$/, '')
}

interface Ran {
  readonly code: number
  readonly out: string
  readonly error: string
}

function run(program: string, args: readonly string[], signal?: AbortSignal): Promise<Ran> {
  const limits = { timeout: LOGIN_MS, maxBuffer: MAX_OUTPUT_BYTES, ...(signal === undefined ? {} : { signal }) }
  return new Promise((resolve, reject) => {
    execFile(program, args, limits, (fault, out, error) => {
      if (fault === null) return resolve({ code: 0, out, error })
      if (fault.code === 'ENOENT')
        return reject(new CliError(exitCodes.failed, `${program} is not installed on this machine.`))
      // A timeout or an abort counts as if the machine had not answered.
      resolve({ code: typeof fault.code === 'number' ? fault.code : NO_CONNECTION, out, error })
    })
  })
}
