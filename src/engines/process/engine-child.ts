/**
 * One run of an engine process. Nothing is ever written to its standard input: an engine exits when it closes, which
 * happens even when we are killed.
 */
import { spawn } from 'node:child_process'
import http from 'node:http'
import os from 'node:os'
import { parseEngineLine, type EngineLine } from './engine-line.ts'
import type { ModelLog } from '../../artifacts/log.ts'
import { limitLines, readLines } from './text-lines.ts'

const MAX_STDOUT_LINE_CHARS = 65_536
const MAX_STDERR_LINE_CHARS = 2_000
const stderrRate = { lines: 50, everyMs: 10_000 } as const
const MAX_REPORTED_CHARS = 300
const HEALTH_PATH = '/health'
/** Lower priority than the server, which must respond while an engine uses every core. */
const NICENESS = 5
/** Variables that an engine gets. The others contain secrets. */
const inheritedVariables = /^(PATH|HOME|TMPDIR|LANG|LC_ALL|TZ|LD_LIBRARY_PATH|CUDA_VISIBLE_DEVICES)$/

export interface EngineCommand {
  readonly entry: string
  /** Node's own arguments. */
  readonly execArgv: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
}

export interface EngineChild {
  readonly pid: number | undefined
  /** Why it exited, for the operator. */
  readonly exited: Promise<string>
  /** Sends SIGTERM, then SIGKILL after the grace period. */
  end(graceMs: number): Promise<void>
}

export function startEngineChild(options: {
  readonly model: string
  readonly command: EngineCommand
  readonly config: object
  readonly log: ModelLog
  readonly onLine: (line: EngineLine) => void
}): EngineChild {
  const { model, command, config, log } = options
  const env = Object.fromEntries(Object.entries(command.env).filter(([name]) => inheritedVariables.test(name)))
  const args = [...command.execArgv, command.entry, JSON.stringify(config)]
  const child = spawn(process.execPath, args, { env, stdio: ['pipe', 'pipe', 'pipe'] })
  // The process may exit before we close it.
  child.stdin.on('error', () => {})
  let lastLine = ''
  const write = limitLines(stderrRate, (line, leftOut) =>
    log.info({ model, line, ...(leftOut === 0 ? {} : { leftOut }) }, 'engine output'),
  )
  readLines(child.stderr, MAX_STDERR_LINE_CHARS, (line) => {
    if (line === '') return
    lastLine = line.slice(0, MAX_REPORTED_CHARS)
    write(line)
  })
  readLines(child.stdout, MAX_STDOUT_LINE_CHARS, (text) => {
    const line = parseEngineLine(text)
    if (line === undefined) return write(text.slice(0, MAX_STDERR_LINE_CHARS))
    if (line.event === 'failed') lastLine = line.message.slice(0, MAX_REPORTED_CHARS)
    options.onLine(line)
  })
  const exited = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(`Cannot start the engine: ${error.message}`))
    // Not `close`, which waits for every process that inherited its pipes.
    child.once('exit', (code, signal) => resolve(whyItEnded(code, signal, lastLine)))
  })
  if (child.pid !== undefined) lowerPriority(child.pid, log)
  return { pid: child.pid, exited, end: (graceMs) => endChild(child, exited, graceMs) }
}

/** Whether an engine responds on its socket. */
export function isHealthy(socketPath: string, timeoutMs: number): Promise<boolean> {
  return new Promise((resolve) => {
    const request = http.get({ socketPath, path: HEALTH_PATH, agent: false }, (response) => {
      response.on('error', () => resolve(false))
      response.on('end', () => resolve(response.statusCode === 200))
      response.resume()
    })
    const timer = setTimeout(() => request.destroy(), timeoutMs)
    request.on('error', () => resolve(false))
    request.on('close', () => {
      clearTimeout(timer)
      resolve(false)
    })
  })
}

async function endChild(child: ReturnType<typeof spawn>, exited: Promise<string>, graceMs: number): Promise<void> {
  child.stdin?.end()
  child.kill('SIGTERM')
  const timer = setTimeout(() => child.kill('SIGKILL'), graceMs)
  await exited
  clearTimeout(timer)
}

function lowerPriority(pid: number, log: ModelLog): void {
  try {
    os.setPriority(pid, NICENESS)
  } catch (error) {
    // The process may have exited, or the system does not allow the change. The engine runs anyway.
    log.debug({ err: error, pid }, 'cannot lower the priority of an engine')
  }
}

function whyItEnded(code: number | null, signal: NodeJS.Signals | null, lastLine: string): string {
  const how = signal === null ? `exited with status ${code ?? '?'}` : `was killed by ${signal}`
  // The kernel's OOM killer leaves no other trace.
  const guess = signal === 'SIGKILL' ? ', possibly out of memory' : ''
  return `The engine ${how}${guess}${lastLine === '' ? '' : `: ${lastLine}`}`
}
