/** The benches' child processes, controlled by lines of text. Each is ended by its pid, and none outlives the bench. */
import { spawn, type ChildProcess } from 'node:child_process'
import net from 'node:net'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'

export interface BenchChild {
  readonly pid: number
  /** Resolves when the process has ended, for any reason. */
  readonly ended: Promise<void>
  /** The next line it prints; rejects if it ends first. */
  nextLine(): Promise<string>
  send(line: string): void
  stop(signal?: NodeJS.Signals): Promise<void>
}

const END_WITHIN_MS = 5_000

/** Runs a file of this folder the same way this process was run. */
export function startChild(file: string, args: readonly string[] = [], program: string = process.execPath): BenchChild {
  const child = spawn(program, [...process.execArgv, fileURLToPath(new URL(file, import.meta.url)), ...args], {
    stdio: ['pipe', 'pipe', 'inherit'],
  })
  const { pid, ended } = watchProcess(child, file)
  const lines: string[] = []
  const waiting: Array<{ resolve: (line: string) => void; reject: (error: Error) => void }> = []
  let isGone = false
  const gone = (): Error => new Error(`${file} has ended`)
  createInterface({ input: child.stdout }).on('line', (line) => {
    const waiter = waiting.shift()
    if (waiter === undefined) lines.push(line)
    else waiter.resolve(line)
  })
  // Writes to a killed child are discarded.
  child.stdin.on('error', () => {})
  // Not on `exit`: lines may still be in the pipe then.
  child.once('close', () => {
    isGone = true
    for (const { reject } of waiting.splice(0)) reject(gone())
  })
  return {
    pid,
    ended,
    nextLine: () =>
      new Promise((resolve, reject) => {
        const line = lines.shift()
        if (line !== undefined) resolve(line)
        else if (isGone) reject(gone())
        else waiting.push({ resolve, reject })
      }),
    send: (line) => void child.stdin.write(`${line}\n`),
    stop: (signal = 'SIGTERM') => stopProcess(child, ended, signal),
  }
}

export function watchProcess(child: ChildProcess, name: string): { pid: number; ended: Promise<void> } {
  const { pid } = child
  const ended = new Promise<void>((resolve) => {
    child.once('exit', () => resolve())
    child.once('error', () => resolve())
  })
  if (pid === undefined) throw new Error(`${name} cannot be started`)
  running.add(child)
  void ended.then(() => running.delete(child))
  return { pid, ended }
}

/** They end with the bench. */
const running = new Set<ChildProcess>()
process.once('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

/** SIGTERM first, then SIGKILL. */
export async function stopProcess(child: ChildProcess, ended: Promise<void>, signal: NodeJS.Signals): Promise<void> {
  child.kill(signal)
  const late = setTimeout(() => child.kill('SIGKILL'), END_WITHIN_MS)
  await ended
  clearTimeout(late)
}

/** A free port. */
export async function freePort(): Promise<number> {
  const server = net.createServer()
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(0, '127.0.0.1', resolve))
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  if (address === null || typeof address === 'string') throw new Error('no port was given')
  return address.port
}

const LISTEN_WITHIN_MS = 15_000
const LOOK_EVERY_MS = 50

/** Waits until the port accepts connections or its process has ended. */
export async function untilListening(
  port: number,
  ended: Promise<void>,
  name: string,
  withinMs = LISTEN_WITHIN_MS,
): Promise<void> {
  let isGone = false
  const leave = (): boolean => (isGone = true)
  void ended.then(leave)
  const giveUpAt = performance.now() + withinMs
  while (!(await accepts(port))) {
    if (isGone) throw new Error(`${name} ended at its start`)
    if (performance.now() > giveUpAt) throw new Error(`${name} does not listen after ${withinMs} ms`)
    await pause(LOOK_EVERY_MS)
  }
}

function accepts(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect(port, '127.0.0.1')
    const end = (answer: boolean): void => {
      socket.destroy()
      resolve(answer)
    }
    socket.once('connect', () => end(true)).once('error', () => end(false))
  })
}

export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
