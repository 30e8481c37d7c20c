import { spawn } from 'node:child_process'
import { createHash, randomBytes } from 'node:crypto'
import fs from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { startReceiver, type Receiver } from '../../../test/harness/receiver.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { fail } from '../../contract/result.ts'
import { manualClock } from '../../../test/sim/clock.ts'
import { makeModelStore, type ModelStore, type ModelStoreOptions } from './model-store.ts'

const body = randomBytes(100_000)
const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex')

let root: string
let near: Receiver
let far: Receiver
let stores: ModelStore[]
beforeEach(async () => {
  root = fs.mkdtempSync(path.join(os.tmpdir(), 'berth-models-'))
  near = await startReceiver()
  far = await startReceiver()
  far.answer = (_, response) => void response.end(body)
  stores = []
})
afterEach(async () => {
  await Promise.all(stores.map((store) => store.close()))
  await near.close()
  await far.close()
  fs.rmSync(root, { recursive: true })
})

function openStore(more: Partial<ModelStoreOptions> = {}): ModelStore {
  const store = makeModelStore({
    dir: path.join(root, 'models'),
    limitBytes: 1_000_000_000,
    allowPrivate: true,
    npmRegistry: () => Promise.reject(new Error('not asked for here')),
    hub: { endpoint: `${near.url}/`, token: 'hf_secret' },
    log: { debug: () => {}, info: () => {}, warn: () => {} },
    clock: manualClock(),
    limits: { stallMs: 20_000, retryMs: 1, maxRetryMs: 5 },
    ...more,
  })
  stores.push(store)
  return store
}

interface Answer {
  readonly ok: boolean
  readonly text?: string
  readonly path?: string
  readonly reason?: string
  readonly message?: string
}

async function pull(store: ModelStore, sources: readonly string[], more: object = {}): Promise<Answer> {
  const files = sources.map((source) => ({ source, file: 'weights.bin', bytes: null, sha256: null, ...more }))
  const pulled = await store.ensure('model', files)
  if (!pulled.ok) return { ok: false, reason: pulled.reason ?? '', message: pulled.message }
  const place = pulled.value.paths.get('weights.bin') ?? ''
  return { ok: true, path: place, text: fs.readFileSync(place, 'hex') }
}

describe('a hub source', () => {
  test('is requested by revision, with a token that only the hub gets', async () => {
    near.answer = (_, response) => void response.writeHead(302, { location: `${far.url}/cdn?sig=1` }).end()
    const answer = await pull(openStore(), ['hf:owner/repo.gguf/q4/weights one.bin@refs/pr/1'])
    expect(answer).toMatchObject({ ok: true, text: body.toString('hex') })
    expect(near.received[0]?.path).toBe('/owner/repo.gguf/resolve/refs%2Fpr%2F1/q4/weights%20one.bin')
    expect(near.received[0]?.headers['authorization']).toBe('Bearer hf_secret')
    expect(far.received[0]?.path).toBe('/cdn?sig=1')
    expect(far.received[0]?.headers['authorization']).toBeUndefined()
  })

  test('defaults to the main revision', async () => {
    near.answer = (_, response) => void response.end(body)
    expect(await pull(openStore(), ['hf:owner/repo/weights.bin'])).toMatchObject({ ok: true })
    expect(near.received[0]?.path).toBe('/owner/repo/resolve/main/weights.bin')
  })

  test.each([
    ['hf:owner/weights.bin'],
    ['hf:owner/repo/../weights.bin'],
    ['hf:owner/repo/'],
    ['hf:../repo/weights.bin'],
  ])('%s is refused', async (source) => {
    expect(await pull(openStore(), [source])).toMatchObject({ reason: 'bad_source' })
    expect(near.received).toEqual([])
  })

  test('is rejected without a configured hub', async () => {
    expect(await pull(openStore({ hub: null }), ['hf:owner/repo/weights.bin'])).toMatchObject({ reason: 'no_hub' })
  })
})

describe('the guard', () => {
  test('checks every redirect: the hub may have a private address, its redirects may not', async () => {
    near.answer = (_, response) => void response.writeHead(302, { location: `${far.url}/cdn` }).end()
    const answer = await pull(openStore({ allowPrivate: false }), ['hf:owner/repo/weights.bin'])
    expect(answer).toMatchObject({ ok: false, reason: 'address_refused' })
    expect(near.received).toHaveLength(1)
    expect(far.received).toEqual([])
  })

  test('checks the resolved address, not the name', async () => {
    const resolve = () => Promise.resolve([{ address: '127.0.0.1', family: 4 }])
    const answer = await pull(openStore({ allowPrivate: false, resolve }), ['https://models.example/weights.bin'])
    expect(answer).toMatchObject({ reason: 'address_refused', message: expect.stringContaining('no public address') })
  })

  test('refuses plain http', async () => {
    const answer = await pull(openStore({ allowPrivate: false }), ['http://models.example/weights.bin'])
    expect(answer).toMatchObject({ reason: 'address_refused', message: expect.stringContaining('https://') })
  })
})

describe('redirects', () => {
  test('are followed five times', async () => {
    near.answer = ({ path }, response) => {
      const redirectsLeft = Number(path.slice(1))
      if (redirectsLeft === 0) response.end(body)
      else response.writeHead(307, { location: `/${redirectsLeft - 1}` }).end()
    }
    expect(await pull(openStore(), [`${near.url}/5`])).toMatchObject({ ok: true, text: body.toString('hex') })
    expect(await pull(openStore(), [`${near.url}/6`])).toMatchObject({ ok: false, reason: 'bad_redirect' })
  })
})

describe('a file of this machine', () => {
  test('is used in place and takes no space in the store', async () => {
    const own = path.join(root, 'own.bin')
    fs.writeFileSync(own, body)
    const store = openStore({ limitBytes: 1_000 })
    const answer = await pull(store, [`file:${own}`], { bytes: body.length, sha256: sha256(body) })
    expect(answer).toMatchObject({ ok: true, path: fs.realpathSync(own) })
    expect((await store.usage()).usedBytes).toBeLessThan(1_000)
    await store.remove('model')
    expect(fs.readFileSync(own).equals(body)).toBe(true)
    expect(await pull(store, [`file://${own}`])).toMatchObject({ ok: true, path: fs.realpathSync(own) })
  })

  test('that is missing or has changed is reported', async () => {
    const own = path.join(root, 'own.bin')
    fs.writeFileSync(own, body)
    expect(await pull(openStore(), [`file:${own}`])).toMatchObject({ ok: true })
    fs.writeFileSync(own, randomBytes(body.length))
    expect(await pull(openStore(), [`file:${own}`])).toMatchObject({ reason: 'wrong_digest' })
    fs.rmSync(own)
    const afterRemoval = await pull(openStore(), [`file:${own}`])
    expect(afterRemoval).toMatchObject({
      reason: 'file_not_found',
      message: fail('file_not_found', { source: `file:${own}`, code: undefined }).message,
    })
    expect(await pull(openStore(), [`file:${own}`], { sha256: sha256(body) })).toMatchObject({
      reason: 'file_not_found',
    })
  })

  test('may be one piece of several', async () => {
    const own = path.join(root, 'own.bin')
    fs.writeFileSync(own, 'first')
    const answer = await pull(openStore(), [`file:${own}`, `${far.url}/second`, `file:${own}`])
    const expected = Buffer.concat([Buffer.from('first'), body, Buffer.from('first')])
    expect(answer).toMatchObject({ ok: true, text: expected.toString('hex') })
    expect(answer.path).toBe(path.join(root, 'models', 'model', 'weights.bin'))
  })

  test.each([['file:relative/own.bin'], ['file:'], ['file:///%00']])('%s is refused', async (source) => {
    expect(await pull(openStore(), [source])).toMatchObject({ ok: false, reason: 'bad_source' })
  })
})

test('a killed server does not repeat its download', async () => {
  const large = randomBytes(20 * 1_048_576)
  near.answer = (request, response) => {
    const from = Number(/^bytes=(\d+)-$/.exec(request.headers['range'] ?? '')?.[1] ?? 0)
    const head = { etag: '"v1"', 'content-length': large.length - from }
    if (from > 0) {
      const range = `bytes ${from}-${large.length - 1}/${large.length}`
      response.writeHead(206, { ...head, 'content-range': range }).end(large.subarray(from))
    } else response.writeHead(200, head).write(large.subarray(0, 18 * 1_048_576))
  }
  const files = [{ source: `${near.url}/large`, file: 'weights.bin', bytes: null, sha256: null }]
  const program = path.join(root, 'pull.mts')
  fs.writeFileSync(
    program,
    `import { makeModelStore } from ${JSON.stringify(new URL('model-store.ts', import.meta.url).href)}
     const silent = () => {}
     const store = makeModelStore({
       dir: ${JSON.stringify(path.join(root, 'models'))}, limitBytes: 1e12, allowPrivate: true, hub: null,
       npmRegistry: () => Promise.reject(new Error('none')), log: { debug: silent, info: silent, warn: silent },
       clock: { now: () => 0 },
     })
     await store.ensure('model', ${JSON.stringify(files)})`,
  )
  const child = spawn(process.execPath, ['--import', 'tsx', program], { stdio: ['ignore', 'ignore', 'inherit'] })
  const ended = new Promise((resolve) => child.once('exit', resolve))
  const parts = path.join(root, 'models', 'model', '.parts')
  await waitFor('a part on the disk', () => {
    if (child.exitCode !== null) throw new Error('the program ended')
    const note = fs.existsSync(parts) ? fs.readdirSync(parts).find((name) => name.endsWith('.part.json')) : undefined
    if (note === undefined) return false
    const { safeBytes } = JSON.parse(fs.readFileSync(path.join(parts, note), 'utf8')) as { safeBytes: number }
    return safeBytes >= 16 * 1_048_576
  })
  child.kill('SIGKILL')
  await ended
  const pulled = await openStore().ensure('model', files)
  if (!pulled.ok) throw new Error(pulled.message)
  expect(fs.readFileSync(pulled.value.paths.get('weights.bin') ?? '').equals(large)).toBe(true)
  const ranges = near.received.map(({ headers }) => headers['range'])
  expect(ranges).toEqual([undefined, expect.stringMatching(/^bytes=1[678]\d{6}-$/)])
  expect(near.received[1]?.headers['if-range']).toBe('"v1"')
})
