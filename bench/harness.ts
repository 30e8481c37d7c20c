/**
 * Measurement. Machines are shared and noisy, so both sides of a comparison run interleaved in several short rounds,
 * and the median counts; CPU time of the measured processes (/proc, user + system) is reported next to wall time. The
 * load generator is this process and is not counted.
 */
import { spawn, type ChildProcess } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { Agent, request } from 'undici'
import { startEmbeddedPostgres, type EmbeddedPostgres } from '../src/server/data/embedded-postgres.ts'
import { summarizeProfile } from './profile.ts'

export interface Figure {
  readonly name: string
  readonly value: number
  readonly unit: string
  /** The baseline, measured in the same run or stated. */
  readonly against?: string
  /** The samples whose median is `value`. */
  readonly rounds?: readonly number[]
}

export interface Bench {
  readonly name: string
  readonly about: string
  run(): Promise<Figure[]>
}

export interface BenchServer {
  readonly url: string
  readonly pid: number
  readonly dataDir: string
  readonly databaseUrl: string
  readonly postgresPid: number
  stop(): Promise<void>
}

const agent = new Agent({ connections: 128, pipelining: 1, keepAliveTimeout: 60_000 })

/** A server process on the bench's own PostgreSQL, so that the bench can fill tables with SQL. */
export async function startServer(
  env: Readonly<Record<string, string>> = {},
  postgresSettings: Readonly<Record<string, string>> = {},
  program: string = process.execPath,
): Promise<BenchServer> {
  const dataDir = await mkdtemp(path.join(os.tmpdir(), 'berth-bench-'))
  const settings = { max_connections: '200', ...postgresSettings }
  const postgres = await startEmbeddedPostgres({ dataDir, log: () => {}, settings })
  const profiled = program === process.execPath ? process.env['BERTH_BENCH_PROFILE'] : undefined
  const profiles = path.join(dataDir, 'profiles')
  const child = startProcess(
    { BERTH_DATA_DIR: path.join(dataDir, 'server'), DATABASE_URL: postgres.url, ...env },
    program,
    profiled === undefined ? [] : ['--cpu-prof', '--cpu-prof-interval=500', `--cpu-prof-dir=${profiles}`],
  )
  const url = await readyUrl(child)
  return {
    url,
    pid: child.pid ?? 0,
    dataDir: path.join(dataDir, 'server'),
    databaseUrl: postgres.url,
    postgresPid: postgres.pid,
    stop: async () => {
      await stopAll(child, postgres)
      if (profiled !== undefined) summarizeProfile(profiles, `bench/profiles/${profiled}.txt`, profiled)
      await rm(dataDir, { recursive: true, force: true })
    },
  }
}

export function startProcess(
  env: Readonly<Record<string, string>>,
  program: string = process.execPath,
  flags: readonly string[] = [],
): ChildProcess {
  // Like `npm start` and the command itself.
  return spawn(program, ['--max-semi-space-size=64', ...flags, 'bin/berth.mjs', 'serve'], {
    env: { PATH: process.env.PATH ?? '', BERTH_PORT: '0', BERTH_LOG_LEVEL: 'error', ...env },
    stdio: ['ignore', 'inherit', 'pipe'],
  })
}

export async function readyUrl(child: ChildProcess): Promise<string> {
  let text = ''
  return new Promise((resolve, reject) => {
    child.stderr?.on('data', (chunk: Buffer) => {
      text += chunk.toString()
      const match = /ready at (\S+)/.exec(text)
      if (match?.[1] !== undefined) resolve(match[1])
    })
    child.once('exit', () => reject(new Error(`the server did not start: ${text}`)))
  })
}

async function stopAll(child: ChildProcess, postgres: EmbeddedPostgres): Promise<void> {
  const ended = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGTERM')
  await ended
  await postgres.stop()
}

export function readKey(server: BenchServer, name: 'operator' | 'demo'): string {
  return readFileSync(path.join(server.dataDir, `${name}.key`), 'utf8').trim()
}

/** One JSON call; returns status and body. */
export async function call(
  url: string,
  key: string | null,
  method: 'GET' | 'POST' | 'PATCH' | 'PUT',
  pathname: string,
  body?: unknown,
): Promise<{ status: number; body: unknown }> {
  const response = await request(`${url}${pathname}`, {
    method,
    dispatcher: agent,
    headers: {
      ...(key === null ? {} : { authorization: `Bearer ${key}` }),
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
    },
    ...(body === undefined ? {} : { body: JSON.stringify(body) }),
  })
  return { status: response.statusCode, body: await response.body.json() }
}

/** One POST whose response is read but not parsed, to leave out the client's own time. */
export async function fetchBytes(url: string, pathname: string, body: unknown): Promise<number> {
  const response = await request(`${url}${pathname}`, {
    method: 'POST',
    dispatcher: agent,
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
  })
  if (response.statusCode !== 200) throw new Error(`unexpected answer ${response.statusCode}`)
  return (await response.body.arrayBuffer()).byteLength
}

const TICKS_PER_SECOND = 100

/** User and system time of a process and its children, in milliseconds. */
export function cpuMs(root: number): number {
  const children = new Map<number, number[]>()
  const times = new Map<number, number>()
  for (const name of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
    try {
      const stat = readFileSync(`/proc/${name}/stat`, 'utf8')
      const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
      const pid = Number.parseInt(name, 10)
      const parent = Number.parseInt(fields[1] ?? '0', 10)
      children.set(parent, [...(children.get(parent) ?? []), pid])
      times.set(pid, Number.parseInt(fields[11] ?? '0', 10) + Number.parseInt(fields[12] ?? '0', 10))
    } catch {
      // Ended in the meantime.
    }
  }
  let ticks = 0
  const queue = [root]
  for (let pid = queue.shift(); pid !== undefined; pid = queue.shift()) {
    ticks += times.get(pid) ?? 0
    queue.push(...(children.get(pid) ?? []))
  }
  return (ticks * 1_000) / TICKS_PER_SECOND
}

export function residentMb(pid: number): number {
  const match = /VmRSS:\s+(\d+) kB/.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))
  return Number.parseInt(match?.[1] ?? '0', 10) / 1_024
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

/** `part` of 0.95: the value that 95 % do not exceed. */
export function percentile(values: readonly number[], part: number): number {
  const sorted = [...values].sort((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * part))] ?? Number.NaN
}

/** Runs `work` for every item, `width` at a time; returns the wall time. */
export async function inParallel<T>(
  items: readonly T[],
  width: number,
  work: (item: T) => Promise<void>,
): Promise<number> {
  const startedAt = performance.now()
  const queue = [...items]
  const worker = async (): Promise<void> => {
    for (let item = queue.shift(); item !== undefined; item = queue.shift()) await work(item)
  }
  await Promise.all(Array.from({ length: width }, worker))
  return performance.now() - startedAt
}
