/** The log and metrics formats that operators' tools parse. */
import { spawn } from 'node:child_process'
import { mkdtemp, readFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterEach, expect, inject, it } from 'vitest'
import { writeTinyGguf } from './sim/tiny-gguf.ts'
import { openLog } from '../src/server/log.ts'
import { testDatabase } from './harness/database.ts'
import { removeFolder } from './harness/leftover.ts'
import { caller } from './harness/server.ts'
import { parseMetrics } from './harness/metrics.ts'
import { waitFor } from './harness/wait.ts'
import { needs } from './needs.ts'

needs('build')

const cleanUp: Array<() => Promise<unknown>> = []
afterEach(async () => {
  for (const step of cleanUp.splice(0).toReversed()) await step()
})

async function folder(): Promise<string> {
  const dir = await mkdtemp(path.join(os.tmpdir(), 'berth-operations-'))
  cleanUp.push(() => removeFolder(dir))
  return dir
}

/** Keeps stdout and stderr separate. */
async function startServer(env: Record<string, string>) {
  const dir = await folder()
  const database = await testDatabase()
  cleanUp.push(() => database.drop())
  const child = spawn(process.execPath, [inject('serverBundle')], {
    env: {
      PATH: process.env.PATH ?? '',
      HOME: process.env.HOME ?? '',
      DATABASE_URL: database.url,
      BERTH_DATA_DIR: dir,
      BERTH_PORT: '0',
      BERTH_DRIVERS: 'mock',
      ...env,
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let [out, err] = ['', '']
  child.stdout.on('data', (chunk: Buffer) => (out += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (err += chunk.toString()))
  const ended = new Promise((resolve) => child.once('close', resolve))
  cleanUp.push(async () => {
    child.kill('SIGKILL')
    await ended
  })
  const url = await waitFor('the server', () => /Berth is ready at (\S+)\s/.exec(err)?.[1])
  const operator = caller(url, (await readFile(path.join(dir, 'operator.key'), 'utf8')).trim())
  const stop = async (): Promise<string[]> => {
    child.kill('SIGTERM')
    await ended
    return out.split('\n').filter((line) => line !== '')
  }
  return { url, dir, operator, stop }
}

/** The keys of every object in a JSON text, in written order and with duplicates. */
function keysAsWritten(text: string): string[][] {
  const stack: string[][] = []
  const all: string[][] = []
  for (const [token, key] of text.matchAll(/"(?:[^"\\]|\\.)*"(\s*:)?|[{}]/g)) {
    if (token === '{') stack.push([])
    else if (token === '}') all.push(stack.pop() ?? [])
    else if (key !== undefined) stack.at(-1)?.push(token)
  }
  return all
}

function expectLogLine(line: string): void {
  expect(JSON.parse(line)).toMatchObject({ level: expect.any(Number), time: expect.any(Number) })
  for (const keys of keysAsWritten(line)) expect({ line, keys }).toEqual({ line, keys: [...new Set(keys)] })
}

it('logs one JSON object per line without duplicate keys, engines included', async () => {
  const file = path.join(await folder(), 'tiny.gguf')
  await writeTinyGguf(file)
  const server = await startServer({ BERTH_LOG_LEVEL: 'trace' })
  const added = await server.operator('POST', '/v2/operator/models', {
    name: 'tiny',
    kind: 'chat',
    engine: 'llama',
    files: [{ source: `file:${file}`, file: 'tiny.gguf', bytes: null, sha256: null }],
    contextTokens: 2_048,
  })
  expect(added).toMatchObject({ status: 200 })
  await waitFor('the engine', async () => {
    const { body } = await server.operator('GET', '/v2/operator/models')
    return JSON.stringify(body).includes('"ready"')
  })
  await server.operator('GET', '/v2/nothing-here')
  const lines = await server.stop()
  expect(lines.length).toBeGreaterThan(3)
  for (const line of lines) expectLogLine(line)
  expect(lines.some((line) => line.includes('"model":"tiny"'))).toBe(true)
})

it('keeps log fields from overwriting the line’s own keys', () => {
  const lines: string[] = []
  const log = openLog('info', { write: (line) => void lines.push(line) })
  log.info({ pid: 1, time: 'noon', hostname: 'h', level: 'low', msg: 'other', reqId: 'r' }, 'engine\nready')
  log.child({ reqId: 'req_1' }).warn({ reqId: 'req_2', err: new Error('no\nway') }, 'twice')
  for (const line of lines) {
    expectLogLine(line)
    expect(line.trimEnd().split('\n')).toHaveLength(1)
  }
  expect(JSON.parse(lines[0] ?? '')).toMatchObject({ pid: process.pid, pid_: 1, time_: 'noon', msg_: 'other' })
  expect(JSON.parse(lines[1] ?? '')).toMatchObject({ reqId: 'req_1', reqId_: 'req_2' })
})

it('exports the documented metrics in Prometheus format, with counters that only grow', async () => {
  const server = await startServer({ BERTH_LOCAL_ENGINES: 'false' })
  const scrape = async () => {
    const key = (await readFile(path.join(server.dir, 'operator.key'), 'utf8')).trim()
    const answer = await fetch(`${server.url}/metrics`, { headers: { Authorization: `Bearer ${key}` } })
    expect(answer.headers.get('content-type')).toContain('version=0.0.4')
    return parseMetrics(await answer.text())
  }
  const late = ['berth_ledger_check_timestamp_seconds', 'berth_event_loop_lag_seconds_count']
  await waitFor('the first recount and the first measured lag', async () => {
    const seen = await scrape()
    return late.every((name) => (seen.value(name) ?? 0) > 0)
  })
  const first = await scrape()
  await server.operator('GET', '/v2/operator/ledger/verify')
  const second = await scrape()
  const fallen = [...first.counters].filter(([series, value]) => !((second.counters.get(series) ?? -1) >= value))
  expect(fallen).toEqual([])
  const above = [
    'berth_build_info',
    'berth_database_bytes',
    'berth_disk_bytes',
    'berth_disk_free_bytes',
    'berth_event_loop_lag_seconds_count',
    'berth_ledger_check_timestamp_seconds',
    'berth_process_resident_bytes',
  ]
  expect(above.filter((name) => !((first.value(name) ?? 0) > 0))).toEqual([])
  const there = ['berth_hosts', 'berth_journal_bytes', 'berth_ledger_check_findings', 'berth_volume_bytes']
  expect(there.filter((name) => first.value(name) === undefined)).toEqual([])
  for (const name of [
    'berth_deployment_faults_total',
    'berth_meter_capped_costs_total',
    'berth_deployment_affinity_total',
  ])
    expect(first.types.get(name)).toBe('counter')
  const documented = await readFile('docs/operator/watch.md', 'utf8')
  expect([...first.types.keys()].filter((name) => !documented.includes(`\`${name}\``))).toEqual([])
})
