import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import fs from 'node:fs'
import http from 'node:http'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { startReceiver, type Receiver } from '../../../test/harness/receiver.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { processStart } from '../../base/process-start.ts'
import { manualClock } from '../../../test/sim/clock.ts'
import { makeEngineHost, type EngineHostOptions } from './engine-host.ts'
import type { LocalEngines, LocalModel, LocalState } from './local-engine.ts'
import { makeModelStore, type ModelStore } from '../../artifacts/model/model-store.ts'

/**
 * A real engine process without a model. It records each start, takes commands over its socket, and is controlled by
 * files in its folder: `hold` keeps it loading, `broken` makes it fail, `stubborn` makes it ignore SIGTERM.
 */
const engineProgram = `
import fs from 'node:fs'
import http from 'node:http'
import path from 'node:path'
const folder = path.dirname(process.argv[1])
const has = (name) => fs.existsSync(path.join(folder, name))
const config = JSON.parse(process.argv[2])
const say = (line) => process.stdout.write(JSON.stringify(line) + '\\n')
const isStubborn = has('stubborn')
process.stdin.on('end', () => isStubborn || process.exit(0)).resume()
if (isStubborn) process.on('SIGTERM', () => {})
const start = { pid: process.pid, config, env: process.env, execArgv: process.execArgv }
fs.appendFileSync(path.join(folder, 'starts'), JSON.stringify(start) + '\\n')
process.stdout.write('a library says hello\\n')
say({ event: 'loading', progress: 0 })
if (has('broken')) {
  say({ event: 'failed', message: 'the weights are upside down' })
  process.exit(1)
}
while (has('hold')) await new Promise((resolve) => setTimeout(resolve, 5))
http.createServer((request, response) => {
  if (request.url === '/crash') {
    process.stderr.write('something went very wrong\\n', () => process.exit(3))
    return
  }
  if (request.url === '/hang') process.kill(process.pid, 'SIGSTOP')
  response.end('ok')
}).listen(config.socketPath, () => {
  say({ event: 'ready', contextTokens: config.contextTokens ?? null, concurrency: config.sequences ?? 1, supportsTools: false })
})
`

interface Start {
  readonly pid: number
  readonly config: { readonly [name: string]: unknown }
  readonly env: object
  readonly execArgv: readonly string[]
}

let root: string
let server: Receiver
let store: ModelStore
let host: LocalEngines
let crashes: Array<[string, string]>
beforeEach(async () => {
  root = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-engines-'))
  fs.writeFileSync(path.join(root, 'engine.mjs'), engineProgram)
  server = await startReceiver()
  store = makeModelStore({
    dir: path.join(root, 'models'),
    limitBytes: 1_000_000_000,
    allowPrivate: true,
    npmRegistry: () => Promise.reject(new Error('not asked for here')),
    hub: null,
    log,
    clock: manualClock(),
    limits: { stallMs: 20_000, retryMs: 1, maxRetryMs: 5 },
  })
  crashes = []
  host = openHost()
})
afterEach(async () => {
  for (const name of ['hold', 'broken']) set(name, false)
  await host.close()
  await store.close()
  await server.close()
  fs.rmSync(root, { recursive: true })
})

const log = { debug: () => {}, info: () => {}, warn: () => {} }
const restarts = { restartMs: 5, maxRestartMs: 40, permanentFailureRetryMs: 70_000 } as const
const limits = { ...restarts, healthEveryMs: 20, healthTimeoutMs: 5_000, unhealthyMs: 10_000 } as const

function openHost(more: Partial<EngineHostOptions> = {}): LocalEngines {
  const entry = path.join(root, 'engine.mjs')
  return makeEngineHost({
    store,
    socketDir: path.join(root, 's'),
    entries: { llama: entry, speech: entry, embedding: entry, picture: entry, transcription: entry },
    env: { PATH: '/usr/bin', HOME: root, BERTH_SECRET_KEY: 'hidden', DATABASE_URL: 'hidden' },
    log,
    onCrash: (model, why) => crashes.push([model, why]),
    limits,
    ...more,
  })
}

function set(name: string, isThere: boolean): void {
  if (isThere) fs.writeFileSync(path.join(root, name), '')
  else fs.rmSync(path.join(root, name), { force: true })
}

const starts = (): Start[] => {
  const file = path.join(root, 'starts')
  const text = fs.existsSync(file) ? fs.readFileSync(file, 'utf8').trimEnd() : ''
  return text === '' ? [] : text.split('\n').map((line) => JSON.parse(line) as Start)
}
const startsOf = (model: string): Start[] => starts().filter(({ config }) => config['model'] === model)
const pidOf = (model: string): number => startsOf(model).at(-1)?.pid ?? 0
const isGone = (pid: number): boolean => pid > 0 && processStart(pid) === undefined

const voice = (name = 'voice'): LocalModel => ({ name, engine: 'speech', files: null, contextTokens: null })
const weights = Buffer.from('weights of no use')
const chat = (more: Partial<LocalModel> = {}): LocalModel => ({
  name: 'house/chat',
  engine: 'llama',
  files: [{ source: `${server.url}/w`, file: 'w.gguf', bytes: null, sha256: null }],
  contextTokens: 128,
  ...more,
})

async function ready(model: string): Promise<Extract<LocalState, { kind: 'ready' }>> {
  return waitFor(
    () => `${model} to be ready; it is ${JSON.stringify(host.stateOf(model))}`,
    () => {
      const state = host.stateOf(model)
      return state?.kind === 'ready' ? state : undefined
    },
  )
}

/** Every state change from now on. */
function follow(model: string): LocalState[] {
  const states: LocalState[] = []
  host.onChange(() => {
    const state = host.stateOf(model)
    if (state !== undefined && state !== states.at(-1)) states.push(state)
  })
  return states
}

/** The engine's answer. undefined: the connection closed without one. */
function call(socketPath: string, path: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const request = http.get({ socketPath, path, agent: false }, (response) => {
      response
        .setEncoding('utf8')
        .on('data', resolve)
        .on('error', () => resolve(undefined))
    })
    request.on('error', () => resolve(undefined))
  })
}

describe('an engine', () => {
  test('gets its files, starts, and reports its state until it is ready', async () => {
    server.answer = (_, response) => void response.end(weights)
    const states = follow('house/chat')
    host.setModels([chat()])
    expect(host.stateOf('house/chat')).toEqual({ kind: 'pulling', doneBytes: 0, totalBytes: null })
    const { socketPath, facts } = await ready('house/chat')
    expect(facts).toEqual({ contextTokens: 128, concurrency: 4, supportsTools: false })
    expect(await call(socketPath, '/anything')).toBe('ok')
    const file = path.join(root, 'models', 'house%2Fchat', 'w.gguf')
    expect(fs.readFileSync(file).equals(weights)).toBe(true)
    expect(starts().map(({ config }) => config)).toEqual([
      { model: 'house/chat', file, socketPath, contextTokens: 128, sequences: 4, queue: 64, threads: null },
    ])
    expect([...new Set(states.map(({ kind }) => kind))]).toEqual(['pulling', 'loading', 'ready'])
    expect(host.stateOf('unheard of')).toBeUndefined()
  })

  test('with bundled files starts at once, with a minimal environment', async () => {
    await host.close()
    host = openHost({ execArgv: ['--no-warnings'] })
    host.setModels([voice()])
    expect(host.stateOf('voice')).toEqual({ kind: 'loading' })
    const { socketPath } = await ready('voice')
    const [start] = starts()
    expect(start?.config).toEqual({ model: 'voice', socketPath, queue: 64, threads: null })
    expect(start?.execArgv).toEqual(['--no-warnings'])
    expect(start?.env).toEqual({ PATH: '/usr/bin', HOME: root })
    expect(os.getPriority(start?.pid)).toBe(5)
    const name = createHash('sha256').update('voice').digest('hex').slice(0, 10)
    expect(path.basename(socketPath)).toMatch(new RegExp(`^${name}[0-9a-f]{3}\\.sock$`))
  })

  test('that crashes is reported with its last output and restarted', async () => {
    host.setModels([voice()])
    const { socketPath } = await ready('voice')
    const states = follow('voice')
    expect(await call(socketPath, '/crash')).toBeUndefined()
    await waitFor('another start', () => startsOf('voice').length >= 2)
    await ready('voice')
    expect(crashes).toEqual([['voice', 'The engine exited with status 3: something went very wrong']])
    expect(states.map(({ kind }) => kind)).toEqual(['failed', 'loading', 'ready'])
    expect(states[0]).toMatchObject({ message: crashes[0]?.[1], retryInMs: 5 })
    expect(await call(socketPath, '/anything')).toBe('ok')
  })

  test('killed by the kernel is reported as such', async () => {
    host.setModels([voice()])
    await ready('voice')
    process.kill(pidOf('voice'), 'SIGKILL')
    await waitFor('the crash', () => crashes.length === 1)
    expect(crashes[0]?.[1]).toContain('SIGKILL, possibly out of memory')
  })

  test('that stops responding is restarted', async () => {
    await host.close()
    host = openHost({ limits: { ...limits, healthTimeoutMs: 200, unhealthyMs: 400 } })
    host.setModels([voice()])
    const { socketPath } = await ready('voice')
    const pid = pidOf('voice')
    void call(socketPath, '/hang')
    await waitFor('another start', () => startsOf('voice').length >= 2)
    expect(isGone(pid)).toBe(true)
    await ready('voice')
    expect(crashes[0]).toEqual(['voice', 'The engine did not respond for 0.4 s'])
  })

  test('that hangs while loading is restarted', async () => {
    await host.close()
    host = openHost({ limits: { ...limits, loadSilenceMs: 1_000 } })
    set('hold', true)
    host.setModels([voice()])
    await waitFor('another start', () => startsOf('voice').length >= 2)
    expect(isGone(startsOf('voice')[0]?.pid ?? 0)).toBe(true)
    set('hold', false)
    await ready('voice')
    expect(crashes[0]).toEqual(['voice', 'The engine made no progress for 1 s while loading'])
  })

  test('that cannot start is retried with backoff', async () => {
    set('broken', true)
    const states = follow('voice')
    host.setModels([voice()])
    const failures = (): LocalState[] => states.filter(({ kind }) => kind === 'failed')
    await waitFor('five failures', () => failures().length >= 5)
    expect(failures().slice(0, 5)).toEqual(
      [5, 10, 20, 40, 40].map((retryInMs) => ({
        kind: 'failed',
        message: 'The engine failed: the weights are upside down',
        retryInMs,
      })),
    )
    set('broken', false)
    await ready('voice')
  })
})

describe('files', () => {
  test('that cannot be downloaded are reported and retried', async () => {
    let isThere = false
    server.answer = (_, response) => void (isThere ? response.end(weights) : response.writeHead(503).end())
    const states = follow('house/chat')
    host.setModels([chat()])
    await waitFor('a failure', () => states.some(({ kind }) => kind === 'failed'))
    expect(states.find(({ kind }) => kind === 'failed')).toMatchObject({ message: expect.stringContaining('503') })
    expect(starts()).toEqual([])
    isThere = true
    await ready('house/chat')
    expect(crashes).toEqual([])
  })

  test('with a wrong digest are not retried soon', async () => {
    server.answer = (_, response) => void response.end(weights)
    const file = { source: `${server.url}/w`, file: 'w.gguf', bytes: null, sha256: '0'.repeat(64) }
    host.setModels([chat({ files: [file] })])
    const state = await waitFor('a failure', () => {
      const now = host.stateOf('house/chat')
      return now?.kind === 'failed' ? now : undefined
    })
    expect(state).toMatchObject({ retryInMs: 70_000, message: expect.stringContaining('SHA-256') })
    // A fix by the operator is tried at once.
    host.setModels([chat()])
    await ready('house/chat')
  })

  test('report download progress a few times per second', async () => {
    const chunk = Buffer.alloc(10_000)
    let response: http.ServerResponse | undefined
    server.answer = (_, current) => {
      response = current
      current.writeHead(200, { 'content-length': 3_000_000 }).flushHeaders()
    }
    let calls = 0
    host.onChange(() => (calls += 1))
    const begunAt = performance.now()
    host.setModels([chat()])
    await waitFor('the request', () => response !== undefined)
    for (let sent = 0; sent < 299; sent += 1) response?.write(chunk)
    const state = await waitFor('the bytes', () => {
      const now = host.stateOf('house/chat')
      return now?.kind === 'pulling' && now.doneBytes === 2_990_000 ? now : undefined
    })
    expect(state.totalBytes).toBe(3_000_000)
    expect(calls).toBeLessThanOrEqual(2 + (performance.now() - begunAt) / 250)
    response?.end(chunk)
    await ready('house/chat')
  })
})

describe('a host', () => {
  test('loads one engine at a time', async () => {
    set('hold', true)
    host.setModels([voice('one'), voice('two'), voice('three')])
    await waitFor('the first start', () => starts().length === 1)
    host.setModels([voice('one'), voice('three')])
    set('hold', false)
    await Promise.all([ready('one'), ready('three')])
    // The one that was removed before its turn never started.
    expect(starts().map(({ config }) => config['model'])).toEqual(['one', 'three'])
  })

  test('keeps unchanged engines, restarts changed ones and stops unlisted ones', async () => {
    server.answer = (_, response) => void response.end(weights)
    host.setModels([chat(), voice('one'), voice('two')])
    await Promise.all([ready('house/chat'), ready('one'), ready('two')])
    const [before, one, two] = [pidOf('house/chat'), pidOf('one'), pidOf('two')]
    let calls = 0
    host.onChange(() => (calls += 1))
    host.setModels([voice('two'), chat(), voice('one')])
    expect(calls).toBe(0)
    host.setModels([chat({ contextTokens: 256 }), voice('one')])
    expect(host.stateOf('two')).toBeUndefined()
    await waitFor('the end of two', () => isGone(two))
    await waitFor('another start', () => startsOf('house/chat').length >= 2)
    expect((await ready('house/chat')).facts.contextTokens).toBe(256)
    expect(isGone(before)).toBe(true)
    expect(startsOf('one').map(({ pid }) => pid)).toEqual([one])
    expect(isGone(one)).toBe(false)
    expect(crashes).toEqual([])
    expect(server.received).toHaveLength(1)
  })

  test('stops all engines on close, even those that ignore SIGTERM', async () => {
    await host.close()
    host = openHost({ limits: { ...limits, stopMs: 100 } })
    set('stubborn', true)
    host.setModels([voice('one'), voice('two')])
    await Promise.all([ready('one'), ready('two')])
    const pids = starts().map(({ pid }) => pid)
    await host.close()
    expect(pids.map(isGone)).toEqual([true, true])
    expect(fs.readdirSync(path.join(root, 's'))).toEqual([])
    host.setModels([voice('three')])
    expect(host.stateOf('three')).toBeUndefined()
    expect(crashes).toEqual([])
  })

  test('removes stale sockets of a killed server', async () => {
    for (const name of ['0123456789abc.sock', '.s.PGSQL.5432']) set(`s/${name}`, true)
    await host.close()
    host = openHost()
    expect(fs.readdirSync(path.join(root, 's'))).toEqual(['.s.PGSQL.5432'])
    expect(() => openHost({ socketDir: path.join(root, 'x'.repeat(90)) })).toThrow('too long for sockets')
  })

  test('that is killed ends its engines', async () => {
    const program = path.join(root, 'parent.mts')
    const moduleUrl = JSON.stringify(new URL('engine-host.ts', import.meta.url).href)
    const entry = path.join(root, 'engine.mjs')
    const options = {
      socketDir: path.join(root, 'p'),
      entries: { llama: entry, speech: entry, embedding: entry, picture: entry, transcription: entry },
      env: {},
    }
    fs.writeFileSync(
      program,
      `import { makeEngineHost } from ${moduleUrl}
       const silent = () => {}
       const log = { debug: silent, info: silent, warn: silent }
       const host = makeEngineHost({ ...${JSON.stringify(options)}, log, store: undefined })
       host.onChange(() => host.stateOf('voice').kind === 'ready' && process.stdout.write('ready'))
       host.setModels([${JSON.stringify(voice())}])`,
    )
    const parent = spawn(process.execPath, ['--import', 'tsx', program], { stdio: ['ignore', 'pipe', 'inherit'] })
    const ended = new Promise((resolve) => parent.once('exit', resolve))
    await new Promise<void>((resolve, reject) => {
      parent.stdout.once('data', () => resolve())
      parent.once('exit', () => reject(new Error('the program ended')))
    })
    const pid = pidOf('voice')
    expect(isGone(pid)).toBe(false)
    parent.kill('SIGKILL')
    await ended
    await waitFor('the end of the engine', () => isGone(pid))
  })
})
