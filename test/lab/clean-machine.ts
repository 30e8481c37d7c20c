/**
 * A machine with nothing on it: a root folder with a static busybox and the C and C++ libraries, without Node, curl or
 * systemd. Commands run in a mount namespace of their own, so that nothing stays mounted.
 */
import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { copyFile, mkdir, mkdtemp, realpath, symlink } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { killProcess, removeFolder } from '../harness/leftover.ts'
import { descendants } from './process.ts'

const run = promisify(execFile)

export interface CleanMachine {
  readonly root: string
  /** Runs a shell command to its end. */
  sh(command: string): Promise<{ code: number; out: string; error: string }>
  /** Runs it in the background until the machine is closed. */
  start(command: string): { output(): string; stop(): Promise<void> }
  close(): Promise<void>
}

export interface CleanMachineOptions {
  /** Folders of this machine that it sees at the same path. */
  readonly shares: readonly string[]
}

export async function makeCleanMachine({ shares }: CleanMachineOptions): Promise<CleanMachine> {
  const root = await mkdtemp(path.join(os.tmpdir(), 'berth-clean-'))
  const at = (name: string): string => path.join(root, name)
  for (const name of ['bin', 'usr/bin', 'proc', 'dev', 'tmp', 'root', 'etc', 'var', ...shares])
    await mkdir(at(name), { recursive: true })
  const { stdout: busybox } = await run('sh', ['-c', 'command -v busybox'])
  await copyFile(busybox.trim(), at('bin/busybox'))
  const { stdout: applets } = await run(at('bin/busybox'), ['--list'])
  for (const name of applets.split('\n').filter((one) => !['', 'busybox'].includes(one)))
    await symlink('busybox', at(`bin/${name}`))
  await copyLibraries(process.execPath, at)
  const mounts = ['/proc', '/dev', ...shares].map((name) => `mount --rbind '${name}' '${at(name)}'`)
  const words = (command: string): string[] => [
    '--mount',
    'sh',
    '-c',
    `${mounts.join(' && ')} && exec chroot '${root}' /bin/sh -c "$1"`,
    'sh',
    command,
  ]
  const env = { PATH: '/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin', HOME: '/root' }
  const started: ChildProcess[] = []
  const stop = async (child: ChildProcess): Promise<void> => {
    if (child.exitCode !== null || child.signalCode !== null) return
    const ended = new Promise((resolve) => child.once('close', resolve))
    for (const pid of descendants(child.pid ?? 0)) killProcess(pid)
    await ended
  }
  return {
    root,
    sh: (command) =>
      new Promise((resolve) => {
        const child = execFile('unshare', words(command), { env }, (_, out, error) =>
          resolve({ code: child.exitCode ?? -1, out, error }),
        )
      }),
    start: (command) => {
      const child = spawn('unshare', words(command), { env, stdio: ['ignore', 'pipe', 'pipe'] })
      started.push(child)
      let output = ''
      for (const stream of [child.stdout, child.stderr]) stream.on('data', (chunk: Buffer) => (output += String(chunk)))
      return { output: () => output, stop: () => stop(child) }
    },
    close: async () => {
      for (const child of started) await stop(child)
      await removeFolder(root)
    },
  }
}

/** The libraries of a program, and its loader. */
async function copyLibraries(program: string, at: (name: string) => string): Promise<void> {
  const { stdout } = await run('ldd', [program])
  for (const [, file = ''] of stdout.matchAll(/(\/\S+) \(0x/g)) {
    await mkdir(path.dirname(at(file)), { recursive: true })
    await copyFile(await realpath(file), at(file))
  }
}
