/**
 * Runs a program of the host: arguments as a list, a timeout, and an error that names the Debian package of a missing
 * program. The environment is fixed, so that output does not depend on the caller's locale and /sbin is in the path.
 */
import { spawn } from 'node:child_process'
import { existsSync } from 'node:fs'
import path from 'node:path'

const FOLDERS = ['/usr/local/sbin', '/usr/local/bin', '/usr/sbin', '/usr/bin', '/sbin', '/bin'] as const
const MAX_OUTPUT_BYTES = 4 * 1_048_576
const MAX_STDERR_CHARS = 600

export const programEnvironment = { PATH: FOLDERS.join(':'), LC_ALL: 'C', HOME: '/' } as const

const packages: Readonly<Record<string, string>> = {
  bridge: 'iproute2',
  'apt-cache': 'apt',
  'apt-get': 'apt',
  busybox: 'busybox-static',
  cpio: 'cpio',
  depmod: 'kmod',
  modprobe: 'kmod',
  'dpkg-deb': 'dpkg',
  dropbear: 'dropbear-bin',
  du: 'coreutils',
  fallocate: 'util-linux',
  filefrag: 'e2fsprogs',
  dropbearkey: 'dropbear-bin',
  genisoimage: 'genisoimage',
  ip: 'iproute2',
  ldd: 'libc-bin',
  mke2fs: 'e2fsprogs',
  nft: 'nftables',
  'qemu-img': 'qemu-utils',
  'qemu-system-x86_64': 'qemu-system-x86',
  'qemu-system-aarch64': 'qemu-system-arm',
  xz: 'xz-utils',
  zstd: 'zstd',
}

export class ProgramMissing extends Error {
  constructor(program: string) {
    super(`${program} is not installed: install the Debian package ${packages[program] ?? program}`)
  }
}

export interface RunOptions {
  readonly signal: AbortSignal
  readonly timeoutMs: number
  readonly cwd?: string
  readonly input?: string
  /** Passes our environment on, for proxy settings. */
  readonly keepsEnvironment?: boolean
}

/** The path of a program. Throws `ProgramMissing`. */
export function findProgram(program: string): string {
  const file = FOLDERS.map((folder) => path.join(folder, program)).find((candidate) => existsSync(candidate))
  if (file === undefined) throw new ProgramMissing(program)
  return file
}

/** Returns its output. Throws with the end of its stderr when it fails. */
export function runProgram(program: string, args: readonly string[], options: RunOptions): Promise<string> {
  options.signal.throwIfAborted()
  const child = spawn(findProgram(program), args, {
    stdio: ['pipe', 'pipe', 'pipe'],
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    ...(options.keepsEnvironment === true ? {} : { env: programEnvironment }),
  })
  return new Promise((resolve, reject) => {
    const written: Buffer[] = []
    let bytes = 0
    let stderr = ''
    let ended: Error | undefined
    const end = (error: Error): void => {
      ended ??= error
      child.kill('SIGKILL')
    }
    const timer = setTimeout(
      () => end(new Error(`${program} took more than ${options.timeoutMs} ms`)),
      options.timeoutMs,
    )
    const aborted = (): void => end(new Error(`${program} was aborted`))
    options.signal.addEventListener('abort', aborted, { once: true })
    child.stdout.on('data', (chunk: Buffer) => {
      bytes += chunk.length
      if (bytes > MAX_OUTPUT_BYTES) end(new Error(`${program} wrote more than ${MAX_OUTPUT_BYTES} bytes`))
      else written.push(chunk)
    })
    child.stderr.on('data', (chunk: Buffer) => {
      stderr = (stderr + chunk.toString()).slice(-MAX_STDERR_CHARS)
    })
    // A program that exits before it has read its input reports that by its status.
    child.stdin.on('error', () => {})
    child.stdin.end(options.input ?? '')
    child.once('error', (error) => end(error))
    child.once('close', (code, signal) => {
      clearTimeout(timer)
      options.signal.removeEventListener('abort', aborted)
      if (ended === undefined && code === 0) return resolve(Buffer.concat(written).toString())
      reject(ended ?? new Error(`${program} ended with ${code ?? signal}: ${stderr.trim()}`))
    })
  })
}
