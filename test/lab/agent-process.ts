/** The agent as a supplier runs it: the built command in its own process on a lab host, which a test can kill. */
import { spawn, type ChildProcess } from 'node:child_process'
import path from 'node:path'
import { inject } from 'vitest'

export interface AgentProcess {
  readonly pid: number
  output(): string
  /** Ends it by SIGTERM or SIGKILL. Tenants keep running. */
  stop(): Promise<number | null>
  kill(): Promise<void>
}

export interface AgentProcessOptions {
  /** The network namespace of its host. */
  readonly netns: string
  /** After `berth agent run`. */
  readonly args: readonly string[]
}

export function startAgentProcess({ netns, args }: AgentProcessOptions): AgentProcess {
  const command = [process.execPath, agentProgram(), 'agent', 'run', ...args]
  const child = spawn('nsenter', [`--net=/run/netns/${netns}`, ...command], {
    env: { PATH: process.env.PATH ?? '', HOME: process.env.HOME ?? '' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  const read = (chunk: Buffer): void => {
    output = (output + chunk.toString()).slice(-50_000)
  }
  child.stdout.on('data', read)
  child.stderr.on('data', read)
  const ended = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)))
  const send = (signal: NodeJS.Signals): void => {
    if (isAlive(child)) child.kill(signal)
  }
  return {
    pid: child.pid ?? 0,
    output: () => output,
    stop: async () => {
      send('SIGTERM')
      return ended
    },
    kill: async () => {
      send('SIGKILL')
      await ended
    },
  }
}

/** For `node`. */
export function agentProgram(): string {
  return path.join(path.dirname(inject('serverBundle')), 'cli.mjs')
}

function isAlive(child: ChildProcess): boolean {
  return child.exitCode === null && child.signalCode === null
}
