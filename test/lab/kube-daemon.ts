/** One program of a test cluster, with the end of its output for errors. */
import { spawn, type ChildProcess } from 'node:child_process'
import { waitFor } from '../harness/wait.ts'

export interface KubeDaemon {
  readonly pid: number
  output(): string
  /** Waits until `isUp`, or throws when the program has ended. */
  ready(isUp: () => Promise<boolean>): Promise<void>
  signal(signal: NodeJS.Signals): void
  stop(): Promise<void>
}

const UP_MS = 90_000
const END_MS = 15_000
const MAX_OUTPUT_CHARS = 30_000

export function flagsOf(flags: Readonly<Record<string, string>>): string[] {
  return Object.entries(flags).map(([name, value]) => `--${name}=${value}`)
}

/** `netns`: the network namespace it runs in. Absent: that of the tests. */
export function startKubeDaemon(name: string, netns: string | undefined, command: readonly string[]): KubeDaemon {
  const inside = netns === undefined ? [] : ['nsenter', `--net=/run/netns/${netns}`]
  const child: ChildProcess = spawn('nice', ['-n', '5', ...inside, ...command], { stdio: ['ignore', 'pipe', 'pipe'] })
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()))
  let output = ''
  const read = (chunk: Buffer): void => {
    output = (output + chunk.toString()).slice(-MAX_OUTPUT_CHARS)
  }
  child.stdout?.on('data', read)
  child.stderr?.on('data', read)
  return {
    pid: child.pid ?? 0,
    output: () => output,
    ready: async (isUp) => {
      await waitFor(
        () => `${name}:\n${output}`,
        () => {
          if (child.exitCode !== null) throw new Error(`${name} ended at its start:\n${output}`)
          return isUp().catch(() => false)
        },
        UP_MS,
      )
    },
    signal: (signal) => void child.kill(signal),
    stop: async () => {
      if (child.exitCode !== null) return
      child.kill('SIGCONT')
      child.kill('SIGTERM')
      const late = setTimeout(() => child.kill('SIGKILL'), END_MS)
      await ended
      clearTimeout(late)
    },
  }
}
