/**
 * One run of an engine process. Its standard input is its life line: nothing is ever written to it, and an engine ends
 * when it closes. So it also ends with us when we are killed and can close nothing ourselves.
 */
import { spawn } from 'node:child_process'
import http from 'node:http'
import os from 'node:os'
import { parseEngineLine, type EngineLine } from './engine-line.ts'
import type { ModelLog } from './log.ts'
import { limitLines, readLines } from './text-lines.ts'

const STDOUT_LINE_CHARS = 65_536
const STDERR_LINE_CHARS = 2_000
const stderrRate = { lines: 50, everyMs: 10_000 } as const
const TOLD_CHARS = 300
const HEALTH_PATH = '/health'
/** Behind the server, which must go on answering while an engine uses every core. */
const NICENESS = 5
/** What an engine gets of our environment. The rest holds secrets. */
const passedOn = /^(PATH|HOME|TMPDIR|LANG|LC_ALL|TZ|LD_LIBRARY_PATH|CUDA_VISIBLE_DEVICES)$/

export interface EngineCommand {
  readonly entry: string
  /** For Node, before the entry. */
  readonly execArgv: readonly string[]
  readonly env: Readonly<Record<string, string | undefined>>
}

export interface EngineChild {
  readonly pid: number | undefined
  /** Why it ended, in words for the operator. */
  readonly exited: Promise<string>
  /** Asks it to end, and makes it end when it has not after so long. */
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
  const env = Object.fromEntries(Object.entries(command.env).filter(([name]) => passedOn.test(name)))
  const args = [...command.execArgv, command.entry, JSON.stringify(config)]
  const child = spawn(process.execPath, args, { env, stdio: ['pipe', 'pipe', 'pipe'] })
  // It may be gone before we close it.
  child.stdin.on('error', () => {})
  let lastWords = ''
  const write = limitLines(stderrRate, (line, leftOut) =>
    log.info({ model, line, ...(leftOut === 0 ? {} : { leftOut }) }, 'an engine says'),
  )
  readLines(child.stderr, STDERR_LINE_CHARS, (line) => {
    if (line === '') return
    lastWords = line.slice(0, TOLD_CHARS)
    write(line)
  })
  readLines(child.stdout, STDOUT_LINE_CHARS, (text) => {
    const line = parseEngineLine(text)
    if (line === undefined) return write(text.slice(0, STDERR_LINE_CHARS))
    if (line.event === 'failed') lastWords = line.message.slice(0, TOLD_CHARS)
    options.onLine(line)
  })
  const exited = new Promise<string>((resolve) => {
    child.once('error', (error) => resolve(`The engine could not be started: ${error.message}`))
    // Not `close`, which waits for every process that has its pipes.
    child.once('exit', (code, signal) => resolve(whyItEnded(code, signal, lastWords)))
  })
  if (child.pid !== undefined) lowerPriority(child.pid, log)
  return { pid: child.pid, exited, end: (graceMs) => endChild(child, exited, graceMs) }
}

/** Whether an engine answers on its socket. */
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
    // It may have ended already; and some systems let nobody change it. It runs all the same.
    log.debug({ err: error, pid }, 'the priority of an engine could not be lowered')
  }
}

function whyItEnded(code: number | null, signal: NodeJS.Signals | null, lastWords: string): string {
  const how = signal === null ? `ended with status ${code ?? '?'}` : `was ended by ${signal}`
  // The kernel leaves no other trace of this in the process itself.
  const guess = signal === 'SIGKILL' ? ', perhaps because memory ran out' : ''
  return `The engine ${how}${guess}${lastWords === '' ? '' : `: ${lastWords}`}`
}
