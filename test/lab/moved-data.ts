/** Bytes through `berth exec` and `berth cp`, the same for every engine: what comes out is what went in. */
import { spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import { chmod, mkdir, mkdtemp, readdir, readFile, readlink, rm, stat, symlink, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { expect } from 'vitest'
import { agentProgram } from './agent-process.ts'

const MOVED_BYTES = 12_000_000
const UNREAD_BYTES = 20_000_000
const READ_BYTES = 1_000_000

export interface Piped {
  readonly code: number | null
  readonly out: Buffer
  readonly error: string
}

/** The built command as in a script: nothing is a terminal. */
export function berthInPipes(
  env: Readonly<Record<string, string>>,
  args: readonly string[],
  input: Buffer | 'open' = Buffer.alloc(0),
): Promise<Piped> {
  const child = spawn(process.execPath, [agentProgram(), ...args], { env: { PATH: process.env['PATH'] ?? '', ...env } })
  const out: Buffer[] = []
  let error = ''
  child.stdout.on('data', (chunk: Buffer) => void out.push(chunk))
  child.stderr.on('data', (chunk: Buffer) => (error += chunk.toString()))
  // A command may end before it has read everything.
  child.stdin.on('error', () => {})
  if (input !== 'open') child.stdin.end(input)
  return new Promise((resolve) => {
    child.once('close', (code) => resolve({ code, out: Buffer.concat(out), error }))
  })
}

export function digestOf(bytes: Buffer): string {
  return createHash('sha256').update(bytes).digest('hex')
}

/** `name`: of a machine with a shell, `cat`, `sha256sum` and `tar`. */
export async function checkPipes(env: Readonly<Record<string, string>>, name: string): Promise<void> {
  const exec = (command: readonly string[], input?: Buffer | 'open', ...flags: string[]): Promise<Piped> =>
    berthInPipes(env, ['exec', ...flags, name, '--', ...command], input)
  const bytes = randomBytes(MOVED_BYTES)
  const stored = await exec(['sh', '-c', 'cat >/tmp/moved && sha256sum </tmp/moved'], bytes)
  expect(stored).toMatchObject({ code: 0, error: '' })
  expect(stored.out.toString()).toBe(`${digestOf(bytes)}  -\n`)
  const read = await exec(['cat', '/tmp/moved'], 'open')
  expect(read).toMatchObject({ code: 0, error: '' })
  expect(digestOf(read.out)).toBe(digestOf(bytes))
  const both = await exec(['cat'], bytes)
  expect({ code: both.code, digest: digestOf(both.out) }).toEqual({ code: 0, digest: digestOf(bytes) })

  const apart = await exec(['sh', '-c', 'echo answer; echo problem >&2; exit 7'])
  expect(apart).toMatchObject({ code: 7, error: 'problem\n' })
  expect(apart.out.toString()).toBe('answer\n')
  const controls = Buffer.from(Array.from({ length: 256 }, (_, n) => n))
  expect((await exec(['cat'], controls)).out).toEqual(controls)

  expect((await exec(['sh', '-c', 'test -t 0'])).code).toBe(1)
  expect((await exec(['sh', '-c', 'test -t 0'], undefined, '-T')).code).toBe(1)
  expect((await exec(['sh', '-c', 'test -t 0 && test -t 1'], 'open', '-t')).code).toBe(0)
}

/** A command that ends before it has read its input: what it wrote, and its exit code. */
export async function checkUnreadInput(env: Readonly<Record<string, string>>, name: string): Promise<void> {
  const unread = randomBytes(UNREAD_BYTES)
  const command = ['exec', name, '--', 'sh', '-c', `head -c ${READ_BYTES}; exit 9`]
  const { code, out } = await berthInPipes(env, command, unread)
  expect({ code, digest: digestOf(out) }).toEqual({ code: 9, digest: digestOf(unread.subarray(0, READ_BYTES)) })
}

export async function checkCopies(
  env: Readonly<Record<string, string>>,
  name: string,
  flags: readonly string[] = [],
): Promise<void> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'berth-cp-'))
  const here = (...parts: string[]): string => path.join(folder, ...parts)
  const copy = async (from: string, to: string): Promise<void> => {
    const { code, error } = await berthInPipes(env, ['cp', ...flags, from, to])
    expect({ code, error }).toEqual({ code: 0, error: '' })
  }
  const failure = async (from: string, to: string): Promise<string> => {
    const { code, error } = await berthInPipes(env, ['cp', ...flags, from, to])
    expect(code).toBe(1)
    return error
  }
  const run = async (script: string): Promise<string> =>
    (await berthInPipes(env, ['exec', ...flags, name, '--', 'sh', '-c', script])).out.toString()
  try {
    const bytes = randomBytes(MOVED_BYTES)
    await writeFile(here('one file'), bytes)
    await chmod(here('one file'), 0o750)
    await run('rm -rf /tmp/cp && mkdir /tmp/cp')
    await copy(here('one file'), `${name}:/tmp/cp/`)
    expect(await run('stat -c %a "/tmp/cp/one file"; sha256sum <"/tmp/cp/one file"; ls /tmp/cp')).toBe(
      `750\n${digestOf(bytes)}  -\none file\n`,
    )
    await copy(`${name}:/tmp/cp/one file`, here('back'))
    expect(digestOf(await readFile(here('back')))).toBe(digestOf(bytes))
    expect((await stat(here('back'))).mode & 0o111).not.toBe(0)

    await mkdir(here('tree', 'deep', 'er'), { recursive: true })
    await writeFile(here('tree', 'deep', 'er', 'data'), bytes)
    await writeFile(here('tree', '-empty'), '')
    await symlink('deep/er/data', here('tree', 'link'))
    await copy(here('tree'), `${name}:/tmp/cp/new`)
    expect(await run('cd /tmp/cp/new && sha256sum <link && ls -A')).toBe(`${digestOf(bytes)}  -\n-empty\ndeep\nlink\n`)
    await copy(here('tree'), `${name}:/tmp/cp/new`)
    expect(await run('ls -A /tmp/cp/new/tree')).toBe('-empty\ndeep\nlink\n')
    await mkdir(here('into'))
    await copy(`${name}:/tmp/cp/new/deep`, here('into'))
    expect(digestOf(await readFile(here('into', 'deep', 'er', 'data')))).toBe(digestOf(bytes))
    await copy(`${name}:/tmp/cp/new/tree`, here('whole'))
    expect(await readlink(here('whole', 'link'))).toBe('deep/er/data')

    expect(await failure(`${name}:/tmp/cp/none`, here('none'))).toContain('There is no file or folder /tmp/cp/none')
    expect(await failure(here('none'), `${name}:/tmp/cp/`)).toContain(`There is no file or folder ${here('none')}`)
    expect(await failure(here('back'), `${name}:/tmp/cp/none/`)).toContain('There is no folder /tmp/cp/none/')
    expect(await failure(here('back'), `${name}:/proc/cp`)).toMatch(/The copy failed on .*\/proc\/cp/)
    expect(await failure(`${name}:/tmp/cp/one file`, '/proc/cp')).toContain('/proc/cp')
    expect((await readdir(folder)).sort()).toEqual(['back', 'into', 'one file', 'tree', 'whole'])
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}
