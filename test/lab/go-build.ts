/** Programs built from Go modules, kept in a folder outside the checkout, so that only the first run builds. */
import { spawn } from 'node:child_process'
import { accessSync, constants } from 'node:fs'
import { mkdir, rm, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { cacheFolder } from '../../scripts/cache-folder.ts'
import { systemClock } from '../../src/base/instant.ts'
import { waitFor } from '../harness/wait.ts'

const BUILD_MS = 60 * 60_000
/** A builder touches its lock this often; an older lock was left by one that was killed. */
const LOCK_BEAT_MS = 5_000
const LOCK_DEAD_MS = 60_000

/** `build` gets a folder to work in and the one that it fills; of the processes that ask, one builds. */
export async function buildOnce(
  name: string,
  folder: string,
  isBuilt: () => boolean,
  build: (work: string, folder: string) => Promise<void>,
): Promise<void> {
  const [lock, work] = [`${folder}.lock`, `${folder}.work`]
  await mkdir(cacheFolder(), { recursive: true })
  await waitFor(
    `${name} to be built`,
    async () => {
      if (isBuilt()) return true
      if (!(await takeLock(lock))) return false
      const beat = setInterval(() => void writeFile(path.join(lock, 'beat'), ''), LOCK_BEAT_MS)
      try {
        if (isBuilt()) return true
        process.stderr.write(`Building ${name} into ${folder}; this takes some minutes, once.\n`)
        // One that was killed may have left it.
        await rm(work, { recursive: true, force: true })
        for (const needed of [work, folder]) await mkdir(needed, { recursive: true })
        await build(work, folder)
      } finally {
        clearInterval(beat)
        for (const left of [work, lock]) await rm(left, { recursive: true, force: true })
      }
      return true
    },
    BUILD_MS,
  )
}

async function takeLock(lock: string): Promise<boolean> {
  try {
    await mkdir(lock)
    return true
  } catch {
    const beat = await stat(path.join(lock, 'beat')).catch(() => stat(lock).catch(() => undefined))
    if (beat !== undefined && systemClock.now() - beat.mtimeMs > LOCK_DEAD_MS)
      await rm(lock, { recursive: true, force: true })
    return false
  }
}

export function goProgram(): string | undefined {
  return [...(process.env['PATH'] ?? '').split(':'), '/usr/local/go/bin']
    .map((folder) => path.join(folder, 'go'))
    .find(isProgram)
}

/**
 * Without inlining and debug information a large package takes half of the compiler's time. Go's own packages, whose
 * speed all others depend on, keep inlining.
 */
export const cheapBuild: readonly string[] = [
  '-trimpath',
  '-p=2',
  '-gcflags=all=-l -dwarf=false',
  '-gcflags=std=-dwarf=false',
]

/** Garbage collection was a fifth of the compiler's time. The largest package needs 0.8 GB without. */
const compilerEnv = { GOGC: 'off', GOMEMLIMIT: '2GiB' }

/** Nicely: tests that need no cluster go on meanwhile. */
export function go(work: string, args: readonly string[]): Promise<string> {
  const program = goProgram() ?? 'go'
  const fixed = { CGO_ENABLED: '0', GOTOOLCHAIN: 'local', GOFLAGS: '-buildvcs=false' }
  const env = { ...process.env, ...compilerEnv, ...fixed }
  return new Promise((resolve, reject) => {
    const child = spawn('nice', ['-n', '5', program, ...args], { cwd: work, env, stdio: ['ignore', 'pipe', 'pipe'] })
    let out = ''
    let error = ''
    child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => (error = (error + chunk.toString()).slice(-20_000)))
    const stop = (): void => void child.kill()
    process.once('exit', stop)
    child.once('close', () => process.off('exit', stop))
    child.once('error', reject)
    child.once('exit', (code) =>
      code === 0 ? resolve(out) : reject(new Error(`go ${args[0] ?? ''} ended with ${code}:\n${error}`)),
    )
  })
}

export function isProgram(file: string): boolean {
  try {
    accessSync(file, constants.X_OK)
    return true
  } catch {
    return false
  }
}
