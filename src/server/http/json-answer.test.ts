/** Long answers are compressed if the client accepts it, except those that contain a secret. */
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { api, type OperationId } from '../../contract/api.ts'
import type { Endpoint } from '../../contract/endpoint.ts'
import { ask, type Answer, type Asked } from '../../../test/harness/console.ts'
import { testServer, type TestServer } from '../../../test/harness/server.ts'
import { isCompressible } from './json-answer.ts'

let server: TestServer
beforeAll(async () => {
  server = await testServer({ runLoops: false })
})
afterAll(() => server.close())

function askWithKey(path: string, accepts: string, request: Asked = {}): Promise<Answer> {
  const headers = { Authorization: `Bearer ${server.operatorKey}`, 'Accept-Encoding': accepts }
  return ask(server.url, path, { ...request, headers })
}

function unpack({ headers, text }: Answer): unknown {
  const encoding = headers['content-encoding']
  const bytes = Buffer.from(text, encoding === undefined ? 'utf8' : 'latin1')
  expect(headers['content-length']).toBe(String(bytes.length))
  const plain = encoding === 'br' ? brotliDecompressSync(bytes) : encoding === 'gzip' ? gunzipSync(bytes) : bytes
  return JSON.parse(plain.toString())
}

test('compresses a long answer as the client accepts, with the same content', async () => {
  const asks: Array<[string, Asked]> = [
    ['/v2/openapi.json', {}],
    ['/openapi.json', {}],
    ['/v2/operator/price-book', {}],
    ['/v1/marketplace?limit=100', { method: 'POST', body: { filters: {} } }],
  ]
  for (const [path, request] of asks) {
    const plain = await askWithKey(path, 'identity', request)
    expect([path, plain.status, plain.headers['content-encoding']]).toEqual([path, 200, undefined])
    expect(plain.headers.vary).toBe('Accept-Encoding')
    expect(plain.headers['content-type']).toBe('application/json; charset=utf-8')
    for (const encoding of ['gzip', 'br']) {
      const compressed = await askWithKey(path, encoding, request)
      expect([path, compressed.headers['content-encoding'], compressed.headers.vary]).toEqual([
        path,
        encoding,
        'Accept-Encoding',
      ])
      expect(compressed.headers['content-type']).toBe('application/json; charset=utf-8')
      expect(compressed.text.length).toBeLessThan(plain.text.length / 3)
      expect(unpack(compressed)).toEqual(unpack(plain))
    }
  }
})

test('HEAD answers like GET, without the body', async () => {
  for (const accepts of ['br', 'identity']) {
    const got = await askWithKey('/v2/operator/price-book', accepts)
    const reported = await askWithKey('/v2/operator/price-book', accepts, { method: 'HEAD' })
    expect(reported.text).toBe('')
    for (const name of ['content-encoding', 'content-length', 'content-type', 'vary']) {
      expect([name, reported.headers[name]]).toEqual([name, got.headers[name]])
    }
  }
})

test('answers many requests at once completely, compressed or not', async () => {
  const plain = unpack(await askWithKey('/v2/openapi.json', 'identity'))
  const answers = await Promise.all(Array.from({ length: 6 }, () => askWithKey('/v2/openapi.json', 'gzip')))
  for (const answer of answers) expect(unpack(answer)).toEqual(plain)
  expect(answers.some(({ headers }) => headers['content-encoding'] === 'gzip')).toBe(true)
})

test('does not compress short answers, errors, creates and changes', async () => {
  const short = await askWithKey('/v2/users/me', 'br')
  const refused = await askWithKey('/v2/operator/accounts/acc_none', 'br')
  const body = { name: 'n'.repeat(200), scopes: ['inference'] }
  const created = await askWithKey('/v2/api-keys', 'br', { method: 'POST', body })
  expect([short.status, refused.status, created.status]).toEqual([200, 404, 200])
  for (const { headers } of [short, refused, created]) expect(headers['content-encoding']).toBeUndefined()
  // Not only because it is short: a compressible response would have a Vary header.
  expect([short.headers.vary, created.headers.vary]).toEqual(['Accept-Encoding', undefined])
})

test('no compressible answer contains a secret', () => {
  const operations = Object.entries(api) as Array<[OperationId, Endpoint]>
  const secret = /^(key|token)$|secret|password|privateKey/i
  const withSecrets = operations.filter(([, { response }]) => fieldsOf(response).some((name) => secret.test(name)))
  // Proves that the search works.
  const names = withSecrets.map(([operation]) => operation)
  for (const operation of [
    'createApiKey',
    'createWebhook',
    'rotateWebhookSecret',
    'createJoinToken',
    'createAccount',
  ]) {
    expect(names).toContain(operation)
  }
  const compressed = withSecrets.filter(([operation, endpoint]) => isCompressible(operation, endpoint))
  expect(compressed.map(([operation]) => operation)).toEqual([])
  // A prompt is private, and so is any text that contains it.
  expect(isCompressible('getInferenceRequest', api.getInferenceRequest as unknown as Endpoint)).toBe(false)
  const byPost = operations.filter(([operation, one]) => one.method !== 'GET' && isCompressible(operation, one))
  expect(byPost.map(([operation]) => operation)).toEqual(['listMachines'])
})

/** The names of all fields at any depth. An object is not a secret, although one of its fields may be; nor is yes or no. */
function fieldsOf(response: z.ZodType): string[] {
  const names: string[] = []
  JSON.stringify(z.toJSONSchema(response, { unrepresentable: 'any' }), (_, value: unknown) => {
    if (typeof value === 'object' && value !== null && 'properties' in value) {
      const fields = Object.entries(value.properties as Record<string, { type?: unknown }>)
      names.push(...fields.filter(([, { type }]) => type !== 'object' && type !== 'boolean').map(([name]) => name))
    }
    return value
  })
  return names
}
