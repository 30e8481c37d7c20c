/** Browsers get the console at every otherwise unused path, programs get a 404, and no path reaches other files. */
import { mkdir, mkdtemp, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { ask } from '../../../test/harness/console.ts'
import { removeFolder } from '../../../test/harness/leftover.ts'
import { testServer, type TestServer } from '../../../test/harness/server.ts'

const index = '<!doctype html><title>Berth</title><script type="module" src="/assets/app-4f2a.js"></script>'
const script = `export const words = '${'harbour '.repeat(1_000)}'`
const picture = Buffer.alloc(2_000, 7)
const accept = { Accept: 'text/html,application/xhtml+xml,*/*;q=0.8' }

let dir: string
let server: TestServer
beforeAll(async () => {
  dir = await mkdtemp(path.join(os.tmpdir(), 'berth-console-'))
  const built = path.join(dir, 'built')
  await mkdir(path.join(built, 'assets'), { recursive: true })
  await writeFile(path.join(built, 'index.html'), index)
  await writeFile(path.join(built, 'favicon.svg'), '<svg xmlns="http://www.w3.org/2000/svg"/>')
  await writeFile(path.join(built, 'assets', 'app-4f2a.js'), script)
  await writeFile(path.join(built, 'assets', 'ship-77aa.png'), picture)
  await writeFile(path.join(dir, 'secret.txt'), 'not for you')
  server = await testServer({ consoleDir: built, runLoops: false })
})
afterAll(async () => {
  await server.close()
  await removeFolder(dir)
})

test('sends headers that keep foreign scripts, frames and forms out', async () => {
  for (const at of ['/', '/assets/app-4f2a.js']) {
    const { headers } = await ask(server.url, at)
    expect(headers).toMatchObject({
      'content-security-policy':
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; " +
        "media-src 'self' data: blob:; font-src 'self'; connect-src 'self'; manifest-src 'self'; " +
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
      'cross-origin-opener-policy': 'same-origin',
      'referrer-policy': 'same-origin',
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
    })
  }
})

test('serves the page at / and at every other address that a browser opens', async () => {
  for (const at of ['/', '/?tab=1', '/index.html']) {
    const answer = await ask(server.url, at)
    expect([answer.status, answer.text]).toEqual([200, index])
    expect(answer.headers).toMatchObject({ 'content-type': 'text/html; charset=utf-8', 'cache-control': 'no-cache' })
  }
  for (const at of ['/rentals/12', '/models', '/v1x', '/consoles', '/billing', '/billings/1?a=/v1/', '/no.such.file']) {
    const answer = await ask(server.url, at, { headers: accept })
    expect([at, answer.status, answer.text]).toEqual([at, 200, index])
  }
  const head = await ask(server.url, '/models', { method: 'HEAD', headers: accept })
  expect([head.status, head.text, head.headers['content-length']]).toEqual([200, '', String(index.length)])
})

test('answers programs with a JSON 404', async () => {
  const none: Array<[string, string, Record<string, string>]> = [
    ['GET', '/models', {}],
    ['GET', '/models', { Accept: 'application/json' }],
    ['POST', '/models', accept],
    ['GET', '/v1/nothing', accept],
    ['GET', '/v2/nothing', accept],
    ['GET', '/v2', accept],
    ['GET', '/billing/nothing', accept],
    ['GET', '/console/nothing', accept],
    ['GET', '/assets/app-0000.js', accept],
    ['GET', '/assets/', accept],
  ]
  for (const [method, at, headers] of none) {
    const answer = await ask(server.url, at, { method, headers })
    expect([method, at, answer.status]).toEqual([method, at, 404])
    expect(JSON.parse(answer.text)).toMatchObject({ reason: 'unknown_path' })
    expect(answer.headers['cache-control']).toBe('no-store')
  }
  for (const at of ['/docs', '/openapi.json', '/healthz', '/readyz']) {
    const answer = await ask(server.url, at, { headers: accept })
    expect([at, answer.status, answer.text === index]).toEqual([at, 200, false])
  }
  expect((await ask(server.url, '/metrics', { headers: accept })).status).toBe(401)
})

test('never leaves the folder, whatever the path', async () => {
  const paths = ['../secret.txt', '..%2fsecret.txt', '%2e%2e/secret.txt', 'assets/../../secret.txt', '..\\secret.txt']
  for (const at of [
    ...paths,
    'assets/..%5c..%5csecret.txt',
    '/secret.txt',
    'assets/%00',
    '%',
    'assets/../index.html',
  ]) {
    for (const headers of [{}, accept]) {
      const answer = await ask(server.url, `/${at}`, { headers })
      const isPage = answer.status === 200 && answer.text === index
      const isRefused = [400, 404].includes(answer.status) && !answer.text.includes('not for you')
      expect([at, isPage || isRefused]).toEqual([at, true])
    }
  }
})

test('caches files with a hash in their name forever, and revalidates the others', async () => {
  const types = {
    '/assets/app-4f2a.js': ['text/javascript; charset=utf-8', 'public, max-age=31536000, immutable'],
    '/assets/ship-77aa.png': ['image/png', 'public, max-age=31536000, immutable'],
    '/favicon.svg': ['image/svg+xml', 'no-cache'],
  }
  for (const [at, [type, cache]] of Object.entries(types)) {
    const { status, headers } = await ask(server.url, at)
    expect([status, headers['content-type'], headers['cache-control']]).toEqual([200, type, cache])
    expect(headers.vary).toBe('Accept-Encoding')
  }
})

test('compresses files as the client accepts, each encoding with its own ETag', async () => {
  const rows: Array<[string | undefined, string | undefined]> = [
    [undefined, undefined],
    ['identity', undefined],
    ['gzip', 'gzip'],
    ['gzip, deflate, br, zstd', 'br'],
    ['GZIP;q=1.0, br;q=0', 'gzip'],
    ['br;q=0.0, gzip;q=0', undefined],
    ['*', 'br'],
    ['*, br;q=0', 'gzip'],
  ]
  const tags = new Map<string | undefined, string | undefined>()
  for (const [accepts, encoding] of rows) {
    const headers: Record<string, string> = accepts === undefined ? {} : { 'Accept-Encoding': accepts }
    const answer = await ask(server.url, '/assets/app-4f2a.js', { headers })
    expect([accepts, answer.headers['content-encoding']]).toEqual([accepts, encoding])
    const bytes = Buffer.from(answer.text, encoding === undefined ? 'utf8' : 'latin1')
    expect(answer.headers['content-length']).toBe(String(bytes.length))
    const unpacked = encoding === 'br' ? brotliDecompressSync(bytes) : encoding === 'gzip' ? gunzipSync(bytes) : bytes
    expect(unpacked.toString()).toBe(script)
    expect(bytes.length).toBeLessThanOrEqual(encoding === undefined ? script.length : script.length / 10)
    expect(tags.get(encoding) ?? answer.headers.etag).toBe(answer.headers.etag)
    tags.set(encoding, answer.headers.etag)
  }
  expect(new Set(tags.values()).size).toBe(3)
  // Images are already compressed, and short files stay uncompressed.
  for (const at of ['/assets/ship-77aa.png', '/']) {
    const answer = await ask(server.url, at, { headers: { 'Accept-Encoding': 'br' } })
    expect(answer.headers['content-encoding']).toBeUndefined()
  }
})

test('answers 304 when the client has the file', async () => {
  const packed = { 'Accept-Encoding': 'br' }
  const { headers } = await ask(server.url, '/assets/app-4f2a.js', { headers: packed })
  const tag = headers.etag ?? ''
  expect(tag).toMatch(/^"[\w-]{22}-br"$/)
  for (const known of [tag, `W/${tag}`, `"other", ${tag}`, '*']) {
    const again = await ask(server.url, '/assets/app-4f2a.js', { headers: { ...packed, 'If-None-Match': known } })
    expect([known, again.status, again.text, again.headers.etag]).toEqual([known, 304, '', tag])
    expect(again.headers['cache-control']).toBe('public, max-age=31536000, immutable')
  }
  for (const [known, form] of [
    ['"other"', 'br'],
    [tag, 'gzip'],
  ] as const) {
    const again = await ask(server.url, '/assets/app-4f2a.js', {
      headers: { 'Accept-Encoding': form, 'If-None-Match': known },
    })
    expect(again.status).toBe(200)
  }
})

test('explains a missing build, and finds the build without a restart', async () => {
  const later = path.join(dir, 'later')
  const early = await testServer({ consoleDir: later, runLoops: false })
  const before = await ask(early.url, '/')
  expect(before.status).toBe(200)
  expect(before.text).toContain('npm run build')
  expect(before.text).toContain('href="/docs"')
  expect((await ask(early.url, '/models')).status).toBe(404)
  await mkdir(later)
  await writeFile(path.join(later, 'index.html'), index)
  expect((await ask(early.url, '/models', { headers: accept })).text).toBe(index)
  await early.close()
})
