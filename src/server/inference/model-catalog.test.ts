/**
 * A change of the registry reaches every server, a database outage removes nothing, engines of this server appear when
 * they are ready, and a key that cannot be decrypted is neither used nor revealed.
 */
import { mkdtemp, rm } from 'node:fs/promises'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { openOperator, startIdentityTest, type IdentityTest } from '../../../test/harness/identity.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import type { Actor } from '../../app/app.ts'
import { changeDeployment, createDeployment, type DeploymentInput } from '../../app/serving/model-deployment.ts'
import { changeModel, createModel, deleteModel, type ModelInput } from '../../app/serving/model.ts'
import { usd } from '../../base/money.ts'
import { ok, type Result } from '../../contract/result.ts'
import { makeVault } from '../../base/vault.ts'
import type { Catalog } from '../../gateway/catalog.ts'
import type { LocalEngines, LocalModel, LocalState } from '../../engines/process/local-engine.ts'
import { openDatabase, transact, type Database, type Tx } from '../../store/platform/database.ts'
import { makeModelCatalog, type ModelCatalog } from './model-catalog.ts'

let fixture: IdentityTest
let actor: Actor
const open: Array<() => Promise<unknown>> = []
beforeAll(async () => {
  fixture = await startIdentityTest()
  actor = (await openOperator(fixture)).actor
})
afterEach(async () => {
  for (const close of open.splice(0).toReversed()) await close()
  await fixture.database.db.deleteFrom('model').execute()
})
afterAll(() => fixture.close())

async function done<T>(work: (tx: Tx) => Promise<Result<T>>): Promise<T> {
  const result = await transact(fixture.database, work)
  if (!result.ok) throw new Error(result.message)
  return result.value
}
const addModel = (name: string, more: Partial<ModelInput> = {}) =>
  done((tx) => createModel(tx, actor, { name, kind: 'chat', engine: null, prices: {}, ...more }))
const addDeployment = (model: string, url: string, more: Partial<DeploymentInput> = {}) =>
  done((tx) => createDeployment(fixture.app, tx, actor, { model, url, ...more }))

interface Watched {
  readonly catalog: ModelCatalog
  /** The last catalog that was published. */
  readonly now: () => Catalog
  readonly changes: () => number
  readonly warnings: object[]
}

async function watch(
  more: { engines?: LocalEngines; database?: Database; vault?: typeof fixture.app.vault } = {},
): Promise<Watched> {
  let reported: Catalog = new Map()
  let changes = 0
  const warnings: object[] = []
  const catalog = makeModelCatalog({
    database: more.database ?? fixture.database,
    vault: more.vault ?? fixture.app.vault,
    engines: more.engines,
    log: { warn: (detail, message) => warnings.push({ ...detail, message }) },
    onChange: (next) => {
      reported = next
      changes += 1
    },
  })
  open.push(() => catalog.close())
  await catalog.loaded
  return { catalog, now: () => reported, changes: () => changes, warnings }
}

/** Engines whose state the test sets. */
function heldEngines() {
  const states = new Map<string, LocalState>()
  const requests: Array<readonly LocalModel[]> = []
  const forgotten: string[] = []
  let tell = (): void => {}
  const engines: LocalEngines = {
    files: async () => ok(new Map()),
    setModels: (models) => void requests.push(models),
    forget: async (model) => void forgotten.push(model),
    wake: () => {},
    stateOf: (model) => states.get(model),
    onChange: (listener) => (tell = listener),
    close: async () => {},
  }
  const set = (model: string, state: LocalState): void => {
    states.set(model, state)
    tell()
  }
  return { engines, asked: requests, forgotten, set }
}

const gguf = { source: 'file:/models/a.gguf', file: 'a.gguf', bytes: null, sha256: null }

describe('the registry as a gateway sees it', () => {
  test('has the prices, limits and deployments of the rows, without disabled ones', async () => {
    const prices = { inputUsdPerMillion: usd('0.2'), outputUsdPerMillion: usd('0.6') }
    await addModel('owner/a', { prices, contextTokens: 4_096, supportsTools: true })
    await addModel('owner/off', { enabled: false })
    const { id } = await addDeployment('owner/a', 'https://example.com/openai/v1/', {
      apiKey: 'upstream-secret',
      upstreamModel: 'a-there',
      weight: 3,
      totalMs: 9_000,
    })
    const { now } = await watch()
    expect([...now().keys()]).toEqual(['owner/a'])
    expect(now().get('owner/a')).toEqual({
      name: 'owner/a',
      kind: 'chat',
      contextTokens: 4_096,
      maxOutputTokens: null,
      prices: { input: usd('0.2'), cached: usd('0.2'), output: usd('0.6'), pixelStep: 0n, character: 0n, soundMs: 0n },
      // Half of them.
      batchPrices: expect.objectContaining({ input: usd('0.1'), cached: usd('0.1'), output: usd('0.3') }),
      supportsTools: true,
      supportsImageInput: false,
      createdAt: fixture.clock.now(),
      deployments: [
        {
          id,
          protocol: 'chat',
          address: { kind: 'tcp', host: 'example.com', port: 443, tls: true },
          hostHeader: 'example.com',
          basePath: '/openai',
          upstreamModel: 'a-there',
          authorization: 'Bearer upstream-secret',
          weight: 3,
          concurrency: 100_000,
          connectMs: 5_000,
          firstByteMs: 120_000,
          betweenBytesMs: 60_000,
          totalMs: 9_000,
          readsMetrics: false,
          drained: false,
        },
      ],
      notReady: undefined,
    })
  })

  test.each([
    ['http://10.0.0.7:8000', { host: '10.0.0.7', port: 8_000, tls: false }, '10.0.0.7:8000', ''],
    ['http://10.0.0.7:8000/v1', { host: '10.0.0.7', port: 8_000, tls: false }, '10.0.0.7:8000', ''],
    ['http://vllm/v1/', { host: 'vllm', port: 80, tls: false }, 'vllm', ''],
    ['https://[fd12::1]:8443/a/b', { host: 'fd12::1', port: 8_443, tls: true }, '[fd12::1]:8443', '/a/b'],
    ['http://10.0.0.7:7860/sdapi/v1', { host: '10.0.0.7', port: 7_860, tls: false }, '10.0.0.7:7860', ''],
  ])('%s', async (url, address, hostHeader, basePath) => {
    await addModel('m')
    await addDeployment('m', url)
    const { now } = await watch()
    expect(now().get('m')?.deployments[0]).toMatchObject({
      address: { kind: 'tcp', ...address },
      hostHeader,
      basePath,
      authorization: undefined,
    })
  })

  test('leaves out a deployment whose key was sealed under another secret, and logs it once without the key', async () => {
    await addModel('m')
    const { id } = await addDeployment('m', 'http://10.0.0.7:8000', { apiKey: 'upstream-secret' })
    await addDeployment('m', 'http://10.0.0.8:8000')
    const { now, warnings } = await watch({ vault: makeVault('another secret') })
    expect(
      now()
        .get('m')
        ?.deployments.map(({ hostHeader }) => hostHeader),
    ).toEqual(['10.0.0.8:8000'])
    await addModel('n')
    await waitFor('the next reading', () => now().has('n'))
    expect(warnings.filter((warning) => 'deployment' in warning)).toEqual([
      { deployment: id, message: expect.any(String) },
    ])
    expect(JSON.stringify(warnings)).not.toContain('upstream-secret')
  })

  test('lists a model that nothing runs, without a deployment and not as loading', async () => {
    await addModel('m')
    const { now } = await watch()
    expect(now().get('m')).toMatchObject({ deployments: [], notReady: undefined })
    const { id } = await addDeployment('m', 'http://10.0.0.7:8000')
    await waitFor('the deployment', () => now().get('m')?.deployments.length === 1)
    await done((tx) => changeDeployment(fixture.app, tx, actor, { id, drained: true }))
    await waitFor('the drain', () => now().get('m')?.deployments[0]?.drained === true)
  })
})

describe('a refresh', () => {
  test('shows a model that was committed before it, and bursts of refreshes share one read per half second', async () => {
    const database = openDatabase({ url: fixture.url, clock: fixture.clock })
    open.push(() => database.close())
    const { catalog, now } = await watch({ database })
    await addModel('new')
    await catalog.refresh()
    expect(now().has('new')).toBe(true)
    let reads = 0
    database.pool.on('acquire', () => (reads += 1))
    const startedAt = performance.now()
    for (let burst = 0; burst < 3; burst += 1) await Promise.all(Array.from({ length: 1_000 }, () => catalog.refresh()))
    const tookMs = performance.now() - startedAt
    // One more than the pauses between them; the notification of the model may cause one too.
    expect(reads).toBeLessThanOrEqual(Math.ceil(tookMs / 500) + 2)
    expect(reads).toBeGreaterThanOrEqual(3)
  })
})

describe('a change', () => {
  // Half of the slow timer: only a notification is this fast, even on a busy machine.
  const SOON_MS = 15_000

  test('reaches every server', async () => {
    const elsewhere = openDatabase({ url: fixture.url, clock: fixture.clock })
    open.push(() => elsewhere.close())
    const [here, there] = [await watch(), await watch({ database: elsewhere })]
    const both = async (what: string, isTrue: (catalog: Catalog) => boolean): Promise<void> => {
      await waitFor(what, () => isTrue(here.now()) && isTrue(there.now()), SOON_MS)
    }
    await addModel('owner/a')
    await both('the model', (catalog) => catalog.has('owner/a'))
    const { id } = await addDeployment('owner/a', 'http://10.0.0.7:8000')
    await both('the deployment', (catalog) => catalog.get('owner/a')?.deployments.length === 1)
    await done((tx) => changeDeployment(fixture.app, tx, actor, { id, weight: 7 }))
    await both('the weight', (catalog) => catalog.get('owner/a')?.deployments[0]?.weight === 7)
    const prices = { inputUsdPerMillion: usd('1') }
    await done((tx) => changeModel(tx, actor, { name: 'owner/a', prices }))
    await both('the price', (catalog) => catalog.get('owner/a')?.prices.cached === usd('1'))
    await done((tx) => deleteModel(tx, actor, 'owner/a'))
    await both('the end', (catalog) => !catalog.has('owner/a'))
    expect([here.warnings, there.warnings]).toEqual([[], []])
  })

  test('is not published if nothing changed', async () => {
    await addModel('owner/a')
    const { changes, now } = await watch()
    await done((tx) => changeModel(tx, actor, { name: 'owner/a', prices: {}, enabled: true }))
    await addModel('owner/b')
    await waitFor('the other model', () => now().has('owner/b'), SOON_MS)
    expect(changes()).toBe(2)
  })
})

/** A proxy between a server and PostgreSQL that can be cut and restored. */
async function startRelay(url: string) {
  const through = new URL(url)
  const folder = await mkdtemp(path.join(os.tmpdir(), 'relay-'))
  const behind = path.join(through.searchParams.get('host') ?? '', '.s.PGSQL.5432')
  const sockets = new Set<net.Socket>()
  let cut = false
  const server = net.createServer((client) => {
    if (cut) return void client.destroy()
    const upstream = net.connect(behind)
    for (const one of [client, upstream]) sockets.add(one.on('error', () => {}).on('close', () => sockets.delete(one)))
    client.pipe(upstream).on('close', () => client.destroy())
    upstream.pipe(client).on('close', () => upstream.destroy())
  })
  await new Promise<void>((resolve) => server.listen(path.join(folder, '.s.PGSQL.5432'), resolve))
  through.searchParams.set('host', folder)
  return {
    url: through.toString(),
    cut: (on: boolean) => {
      cut = on
      if (on) for (const socket of sockets) socket.destroy()
    },
    close: async () => {
      for (const socket of sockets) socket.destroy()
      server.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

test('serves the last state without the database, and catches up afterwards', async () => {
  await addModel('owner/a')
  const relay = await startRelay(fixture.url)
  open.push(() => relay.close())
  const database = openDatabase({ url: relay.url, clock: fixture.clock })
  open.push(() => database.close())
  const { now, warnings } = await watch({ database })
  relay.cut(true)
  await addModel('owner/b')
  await waitFor('the outage to be seen', () => warnings.some((warning) => /last known/.test(JSON.stringify(warning))))
  expect([...now().keys()]).toEqual(['owner/a'])
  relay.cut(false)
  await waitFor('the change', () => now().has('owner/b'))
})

describe('engines of this server', () => {
  test('run the enabled models that have one, and restart only on changes', async () => {
    const { engines, asked: requests } = heldEngines()
    await addModel('owner/a', { engine: 'llama', files: [gguf], contextTokens: 512 })
    await addModel('owner/off', { engine: 'llama', files: [gguf], enabled: false })
    await addModel('owner/remote')
    const { now } = await watch({ engines })
    const local = { name: 'owner/a', engine: 'llama', files: [gguf], contextTokens: 512 }
    expect(requests).toEqual([[local]])
    await addModel('owner/b')
    await waitFor('the reading', () => now().has('owner/b'))
    expect(requests).toHaveLength(1)
    await done((tx) => changeModel(tx, actor, { name: 'owner/a', prices: {}, enabled: false }))
    await waitFor('the engine to be stopped', () => requests.length === 2)
    expect(requests[1]).toEqual([])
  })

  test('delete the files of a removed model, and keep those of a disabled one', async () => {
    const { engines, forgotten } = heldEngines()
    await addModel('owner/a', { engine: 'llama', files: [gguf] })
    await addModel('owner/b', { engine: 'llama', files: [gguf] })
    const { now } = await watch({ engines })
    await done((tx) => changeModel(tx, actor, { name: 'owner/b', prices: {}, enabled: false }))
    await waitFor('it is not served', () => !now().has('owner/b'))
    await done((tx) => deleteModel(tx, actor, 'owner/a'))
    await waitFor('the other is gone', () => forgotten.length > 0)
    expect(forgotten).toEqual(['owner/a'])
  })

  test('show progress to customers and the error to operators', async () => {
    const { engines, set } = heldEngines()
    await addModel('tiny', { engine: 'llama', files: [gguf] })
    const { now, catalog } = await watch({ engines })
    const sentence = () => now().get('tiny')?.notReady?.message
    expect(sentence()).toBeUndefined()
    expect(catalog.localState('tiny')).toBeUndefined()
    set('tiny', { kind: 'pulling', doneBytes: 135_600_000, totalBytes: 322_591_712 })
    expect(sentence()).toContain('42 % of 323 MB')
    expect(catalog.localState('tiny')).toMatchObject({ state: 'pulling', doneBytes: 135_600_000 })
    set('tiny', { kind: 'pulling', doneBytes: 5_000_000, totalBytes: null })
    expect(sentence()).toContain('5 MB so far')
    set('tiny', { kind: 'loading' })
    expect(now().get('tiny')?.notReady).toMatchObject({ phase: 'starting' })
    set('tiny', { kind: 'failed', message: 'no such file /models/a.gguf', retryInMs: 7_000 })
    expect(now().get('tiny')?.notReady).toEqual({
      message: expect.not.stringContaining('a.gguf'),
      retryAfterMs: 7_000,
      phase: 'failed',
    })
    expect(catalog.localState('tiny')).toMatchObject({ state: 'failed', message: 'no such file /models/a.gguf' })
  })

  test('serve when ready, within their own limits', async () => {
    const { engines, set } = heldEngines()
    await addModel('tiny', { engine: 'llama', files: [gguf], contextTokens: 4_096 })
    const { now, catalog } = await watch({ engines })
    set('tiny', {
      kind: 'ready',
      socketPath: '/run/tiny.sock',
      facts: { contextTokens: 2_048, concurrency: 4, supportsTools: true },
    })
    const model = now().get('tiny')
    expect(model).toMatchObject({ contextTokens: 2_048, supportsTools: true, notReady: undefined })
    expect(model?.deployments).toMatchObject([
      {
        id: 'local:tiny',
        protocol: 'embedded',
        address: { kind: 'unix', path: '/run/tiny.sock' },
        weight: 1,
        concurrency: 4,
        drained: false,
      },
    ])
    expect(catalog.localState('tiny')).toMatchObject({ state: 'ready', message: null })
  })

  test('are not waited for if a deployment serves the model', async () => {
    const { engines, set } = heldEngines()
    await addModel('tiny', { engine: 'llama', files: [gguf] })
    await addDeployment('tiny', 'http://10.0.0.7:8000')
    const { now } = await watch({ engines })
    set('tiny', { kind: 'loading' })
    expect(now().get('tiny')).toMatchObject({ notReady: undefined, deployments: [{ protocol: 'chat' }] })
  })
})

describe('the image engine', () => {
  const ready = {
    kind: 'ready',
    socketPath: '/run/p.sock',
    facts: { contextTokens: null, concurrency: 1, supportsTools: false },
  } as const
  const servers = (catalog: Catalog): string[] | undefined =>
    catalog.get('pictogram')?.deployments.map(({ protocol, drained }) => `${protocol}${drained ? ' drained' : ''}`)

  test('is replaced by a deployment, and used again when that is drained', async () => {
    const { engines, set } = heldEngines()
    await addModel('pictogram', { kind: 'image', engine: 'picture' })
    const { now } = await watch({ engines })
    set('pictogram', ready)
    expect(servers(now())).toEqual(['embedded'])
    const { id } = await addDeployment('pictogram', 'http://10.0.0.7:7860', { protocol: 'txt2img' })
    await waitFor('the server to take over', () => servers(now())?.join() === 'txt2img')
    await done((tx) => changeDeployment(fixture.app, tx, actor, { id, drained: true }))
    await waitFor('the engine to be back', () => servers(now())?.join() === 'txt2img drained,embedded')
  })
})
