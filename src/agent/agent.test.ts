/** The whole agent except the engine: a real connection to a server that the test controls, and an in-memory runtime. */
import { Duplex, PassThrough } from 'node:stream'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { startAgentServer, type AgentServer } from '../../test/harness/agent-server.ts'
import { waitFor } from '../../test/harness/wait.ts'
import type { Desired, HostReport, StreamRequest, Workload } from '../contract/agent.ts'
import type { WorkloadStatus, RuntimeStream } from '../runtimes/runtime.ts'
import { runAgent, type AgentEnd, type AgentEvent, type AgentStatus } from './agent.ts'
import { askControl } from './control.ts'
import type { HostRuntime } from './host-runtime.ts'
import { openAgentFolder, type AgentFolder } from './folder.ts'
import { simulatedGpus } from './gpu-source.ts'
import { openKey, type Membership } from './identity.ts'
import { moveDirectly } from './move.ts'

let root: string
let folders = 0
const ends: Array<() => Promise<unknown>> = []

beforeAll(() => {
  root = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-agent-'))
})
afterEach(async () => {
  for (const end of ends.splice(0).toReversed()) await end()
})
afterAll(() => fs.rmSync(root, { recursive: true, force: true }))

/** Containers that are only names. They outlive agents, as real ones do. */
function memoryRuntime() {
  const workloads = new Map<string, WorkloadStatus>()
  let broken: Error | undefined
  const starts: string[] = []
  const runtime: HostRuntime = {
    kind: 'container',
    list: async () => {
      if (broken !== undefined) throw broken
      return [...workloads.values()]
    },
    start: async ({ id, tag }) => {
      starts.push(id)
      workloads.set(id, { id, tag, state: 'running', sshUser: 'root', disks: [] })
    },
    stop: async (id) => void workloads.delete(id),
    open: async (request) => openInMemory(request),
    notes: () => ['Kept in memory.'],
    close: async () => {},
  }
  return { runtime, workloads, starts, breakWith: (error: Error | undefined) => (broken = error) }
}

/** Port 7 echoes, port 9 is closed; a terminal reports its size and its exit code. */
async function openInMemory(request: StreamRequest): Promise<RuntimeStream> {
  if (request.kind === 'port') {
    if (request.port === 9) throw new Error('Nothing listens on port 9 there.')
    return { stream: new PassThrough() }
  }
  const output = new PassThrough()
  let tellEnd: (value: unknown) => void = () => {}
  const stream = Duplex.from({ readable: output, writable: new PassThrough().resume() })
  return {
    stream,
    signal: (value) => {
      output.end(JSON.stringify(value))
      tellEnd({ exitCode: 3 })
    },
    onSignal: (listener) => (tellEnd = listener),
  }
}

async function host(server: AgentServer, hostId = 'host-1') {
  folders += 1
  const folder = openAgentFolder(path.join(root, String(folders)))
  server.keys.set(hostId, openKey(folder).publicKey)
  const membership: Membership = {
    server: server.url,
    hostId,
    installation: server.installation,
    storageGb: 50,
    run: {},
    terms: {
      name: hostId,
      clusterName: 'lab',
      region: 'local',
      offering: 'marketplace',
      networkType: 'ethernet',
      priceUsdPerGpuHour: '0.10',
      simulated: { word: 'rtx4090', count: 2 },
    },
  }
  return { folder, membership, engine: memoryRuntime() }
}

function start({ folder, membership, engine }: Awaited<ReturnType<typeof host>>) {
  const control = new AbortController()
  const events: AgentEvent[] = []
  const done = runAgent({
    folder,
    membership,
    version: '0.0.0',
    gpus: simulatedGpus({ word: 'rtx4090', count: 2 }, folder),
    makeRuntime: () => engine.runtime,
    onEvent: (event) => events.push(event),
    signal: control.signal,
  })
  const stop = async (): Promise<AgentEnd> => {
    control.abort()
    return done
  }
  ends.push(() => stop().catch(() => undefined))
  return { done, stop, events }
}

async function server(options: Parameters<typeof startAgentServer>[0] = {}): Promise<AgentServer> {
  const started = await startAgentServer(options)
  ends.push(() => started.close())
  return started
}

function portOf({ url }: AgentServer): number {
  return Number.parseInt(new URL(url).port, 10)
}

function workload(id: string, want: Workload['want'] = 'run'): Workload {
  return {
    id,
    tag: `berth-test-${id}`,
    want,
    started: false,
    spec: {
      kind: 'container',
      name: id,
      gpuCount: 1,
      resources: { cpuModel: 'x', cpuCount: 1, ramGb: 1, storageGb: 1 },
      sshKeys: [],
      ports: [],
      image: null,
    },
    node: { index: 0, gpuIndexes: [0], peers: [] },
    disks: [],
    baseImage: null,
  }
}

function wants(generation: number, ...workloads: Workload[]): Omit<Desired, 'type'> {
  return { generation, state: 'ready', workloads, volumes: [] }
}

describe('an agent', () => {
  test('authenticates, reports its offer and applies the desired state', async () => {
    const at = await server()
    const one = await host(at)
    const agent = start(one)
    const first = await at.report('a first report', () => true)
    expect(first).toMatchObject({
      generation: 0,
      // No report was made yet.
      blind: true,
      offer: { gpuModel: 'NVIDIA-GeForce-RTX-4090', gpusTotal: 2, simulated: true, priceUsdPerGpuHour: '0.10' },
      notes: [expect.stringContaining('simulated'), 'Kept in memory.'],
      workloads: [],
    })
    at.want(wants(2, workload('a'), workload('b')))
    await at.report('both to run', ({ generation, workloads }) => {
      return generation === 2 && workloads.length === 2 && workloads.every(({ state }) => state === 'running')
    })
    at.want(wants(3, workload('a'), workload('b', 'gone')))
    const last = await at.report(
      'one to be gone',
      ({ generation, workloads }) => generation === 3 && workloads.length === 1,
    )
    expect(last.blind).toBeUndefined()
    expect([...one.engine.workloads.keys()]).toEqual(['a'])
    await waitFor('metrics', () => at.heard.find(({ type }) => type === 'metrics'))
    expect(await agent.stop()).toEqual({ kind: 'stopped' })
    // Its tenant stays.
    expect([...one.engine.workloads.keys()]).toEqual(['a'])
  })

  test('stops when the server does not know its key', async () => {
    const at = await server()
    const one = await host(at)
    const stranger = openKey(openAgentFolder(path.join(root, 'stranger')))
    at.keys.set('host-1', stranger.publicKey)
    expect(await start(one).done).toMatchObject({ kind: 'refused', refusal: { reason: 'unknown_host' } })
    expect(at.refusals).toEqual(['host-1'])
  })

  test.each([
    ['another installation', { installation: 'another' }, 'another_installation'],
    ['another protocol', { protocol: 99 }, 'protocol_unsupported'],
  ])('signs nothing for %s', async (_, options, reason) => {
    const at = await server(options)
    const one = await host(at)
    const joined = { ...one, membership: { ...one.membership, installation: 'test' } }
    expect(await start(joined).done).toMatchObject({ kind: 'refused', refusal: { reason } })
    expect(at.heard).toEqual([])
  })

  test('does not start twice in one folder', async () => {
    const at = await server()
    const one = await host(at)
    start(one)
    await at.report('a first report', () => true)
    await expect(start(one).done).rejects.toThrow('Another agent')
  })

  test('stops offering a GPU that becomes unhealthy', async () => {
    const at = await server()
    const one = await host(at)
    one.folder.writeJson('sick.json', [1])
    start(one)
    expect((await at.report('a report', () => true)).offer.gpusSick).toEqual([1])
  })

  test('keeps a machine until the memory of its GPUs is proven free; no other GPU in use is offered', async () => {
    const at = await server()
    const one = await host(at)
    one.folder.writeJson('use.json', [{ memoryUsedMib: 20_000 }])
    at.want(wants(2, workload('a')))
    start(one)
    await at.report('it to run', ({ workloads }) => workloads[0]?.state === 'running')
    at.want(wants(3, workload('a', 'gone')))
    const report = await at.report('the memory', ({ workloads }) => workloads[0]?.message?.includes('20000') === true)
    expect([one.engine.workloads.size, report.workloads[0]?.state]).toEqual([0, 'stopping'])
    one.folder.writeJson('use.json', [{ memoryUsedMib: 500 }, { memoryUsedMib: 9_000 }])
    const isGone = (one: HostReport): boolean => one.generation === 3 && one.workloads.length === 0
    expect((await at.report('it to be gone', isGone)).offer.gpusSick).toEqual([1])
  })

  test('reports an engine that does not respond, and recovers with it', async () => {
    const at = await server()
    const one = await host(at)
    one.engine.breakWith(new Error('Cannot connect to the Docker daemon'))
    start(one)
    at.want(wants(2, workload('a')))
    const trouble = await at.report('trouble', ({ notes }) =>
      notes.some((note) => note.includes('Cannot connect to the Docker daemon')),
    )
    expect(trouble.blind).toBe(true)
    one.engine.breakWith(undefined)
    await at.report('it to run', ({ workloads }) => workloads[0]?.state === 'running')
    const fine = await at.report('no trouble', ({ notes }) => notes.every((note) => !note.includes('Cannot connect')))
    expect(fine.blind).toBeUndefined()
    expect(one.engine.starts).toEqual(['a'])
  })
})

describe('after a lost connection', () => {
  test('the agent reconnects and its tenants keep running', async () => {
    const at = await server()
    const one = await host(at)
    const { events } = start(one)
    at.want(wants(2, workload('a')))
    await at.report('it to run', ({ workloads }) => workloads[0]?.state === 'running')
    at.cut()
    await waitFor('a second welcome', () => at.welcomes >= 2)
    expect(events.map(({ kind }) => kind)).toContain('lost')
    expect(one.engine.starts).toEqual(['a'])
  })

  test('right after each welcome, the agent backs off', async () => {
    const at = await server()
    const one = await host(at)
    start(one)
    const waitsMs: number[] = []
    for (let welcomes = 1; welcomes <= 4; welcomes += 1) {
      const before = performance.now()
      await waitFor('a welcome', () => at.welcomes === welcomes)
      waitsMs.push(performance.now() - before)
      at.cut()
    }
    // At least half of 500, 1000 and 2000 ms.
    expect(waitsMs[2]).toBeGreaterThan(450)
    expect(waitsMs[3]).toBeGreaterThan(900)
  })

  test('to a server that stops responding, the agent notices', async () => {
    const at = await server({ heartbeatMs: 100 })
    const one = await host(at)
    const { events } = start(one)
    await at.report('a first report', () => true)
    at.freeze()
    await waitFor('a second welcome', () => at.welcomes >= 2)
    expect(events).toContainEqual({ kind: 'lost', message: 'the server stopped responding' })
  })

  test('and without a server, workloads start again after a reboot', async () => {
    const first = await server()
    const one = await host(first)
    const agent = start(one)
    first.want(wants(2, workload('a'), workload('b')))
    await first.report('both to run', ({ workloads }) => workloads.filter((w) => w.state === 'running').length === 2)
    await agent.stop()
    await first.close()
    // A reboot: one container has stopped, the other was removed meanwhile.
    one.engine.workloads.set('a', { id: 'a', tag: 'berth-test-a', state: 'ended', disks: [] })
    one.engine.workloads.delete('b')
    const again = start(one)
    await waitFor('it to run again', () => one.engine.workloads.get('a')?.state === 'running')
    expect(again.events.map(({ kind }) => kind)).not.toContain('connected')
    // Losses are reported when the server is back, and nothing is recreated.
    const back = await server({ port: portOf(first), keys: first.keys })
    await back.report('the lost one', ({ workloads }) => workloads.find(({ id }) => id === 'b')?.failure === 'vanished')
    expect(one.engine.starts).toEqual(['a', 'b', 'a'])
  })
})

describe('streams', () => {
  test('reach workloads, end each direction on its own, and fail with a message', async () => {
    const at = await server()
    const one = await host(at)
    start(one)
    await at.report('a first report', () => true)
    const echo = at.mux().open({ kind: 'port', workloadId: 'a', port: 7 })
    const chunks: Buffer[] = []
    echo.on('data', (chunk: Buffer) => chunks.push(chunk))
    const big = Buffer.alloc(1_000_000, 'x')
    echo.end(big)
    await waitFor('the echo to end', () => echo.readableEnded)
    expect(Buffer.concat(chunks).equals(big)).toBe(true)

    const failed = at.mux().open({ kind: 'port', workloadId: 'a', port: 9 })
    const error = await new Promise<Error>((resolve) => failed.on('error', resolve))
    expect(error.message).toBe('Nothing listens on port 9 there.')

    const odd = at.mux().open({ kind: 'teleport' })
    const refused = await new Promise<Error>((resolve) => odd.on('error', resolve))
    expect(refused.message).toContain('does not support this kind of stream')
  })

  test('carry signals both ways', async () => {
    const at = await server()
    const one = await host(at)
    start(one)
    await at.report('a first report', () => true)
    const terminal = at.mux().open({ kind: 'terminal', workloadId: 'a', columns: 80, rows: 24, command: null })
    let text = ''
    const signals: unknown[] = []
    terminal.on('signal', (value) => signals.push(value))
    terminal.on('data', (chunk: Buffer) => (text += chunk.toString()))
    terminal.sendSignal({ columns: 100, rows: 30 })
    await waitFor('its size and its end', () => text !== '' && signals.length > 0)
    expect(JSON.parse(text)).toEqual({ columns: 100, rows: 30 })
    expect(signals).toEqual([{ exitCode: 3 }])
    terminal.destroy()
  })
})

describe('drain, resume and leave', () => {
  async function ask(folder: AgentFolder, to: 'ready' | 'draining' | 'left'): Promise<unknown> {
    return (await askControl(folder, { command: 'move', to }))?.value
  }

  test('go through the running agent', async () => {
    const at = await server()
    const one = await host(at)
    const agent = start(one)
    at.want(wants(2))
    await at.report('a report', ({ generation }) => generation === 2)
    expect(await ask(one.folder, 'draining')).toEqual({ state: 'draining' })
    const status = (await askControl(one.folder, { command: 'status' }))?.value as AgentStatus
    expect(status).toMatchObject({ hostId: 'host-1', connected: true, state: 'draining', workloads: [] })
    expect(await ask(one.folder, 'ready')).toEqual({ state: 'ready' })
    at.onMove = () => ({ reason: 'has_tenants', message: 'It has 1 tenant.' })
    await expect(ask(one.folder, 'left')).rejects.toThrow('It has 1 tenant.')
    at.onMove = () => undefined
    expect(await ask(one.folder, 'left')).toEqual({ state: 'left' })
    expect(await agent.done).toEqual({ kind: 'left' })
    expect(await askControl(one.folder, { command: 'status' })).toBeUndefined()
  })

  test('to the current state are done at once', async () => {
    const at = await server()
    const one = await host(at)
    start(one)
    at.want(wants(2))
    await at.report('a report', ({ generation }) => generation === 2)
    at.onMove = () => undefined
    expect(await ask(one.folder, 'ready')).toEqual({ state: 'ready' })
  })

  test('go directly to the server when no agent is running', async () => {
    const at = await server()
    const { folder, membership } = await host(at)
    at.want(wants(2))
    expect(await moveDirectly(membership, openKey(folder), '0.0.0', 'draining')).toBe('draining')
    at.onMove = () => ({ reason: 'has_tenants', message: 'It has 1 tenant.' })
    await expect(moveDirectly(membership, openKey(folder), '0.0.0', 'left')).rejects.toThrow('It has 1 tenant.')
    at.keys.clear()
    await expect(moveDirectly(membership, openKey(folder), '0.0.0', 'left')).rejects.toThrow('knows no such host')
    // The agent revealed nothing about its workloads to a server that is not its own.
    expect(at.heard.filter(({ type }) => type === 'report')).toEqual([])
  })
})
