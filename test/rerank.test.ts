/** Documents sorted by relevance, over HTTP: by servers with either form of reranking, and by models of embeddings. */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { serveModel, type TestModel } from './harness/inference.ts'
import { testServer, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'
import { countTokens } from './sim/model-server-answer.ts'

let server: TestServer
let customer: Awaited<ReturnType<TestServer['account']>>
const models: Record<string, TestModel> = {}

beforeAll(async () => {
  server = await testServer()
  customer = await server.account({ usd: '1' })
  models['chat'] = await serveModel(server, { name: 'reranker', model: { kind: 'rerank' } })
  models['tei'] = await serveModel(server, {
    name: 'tei-reranker',
    model: { kind: 'rerank' },
    deployment: { protocol: 'tei' },
  })
  models['embedding'] = await serveModel(server, { name: 'embedder', model: { kind: 'embedding' } })
  models['chatter'] = await serveModel(server, { name: 'chatter' })
})
afterAll(async () => {
  await Promise.all(Object.values(models).map(({ upstream }) => upstream.close()))
  await server.close()
})

const query = 'Where do ships moor?'
const documents = ['At a berth.', 'Bread is baked from flour and water, and a little salt.', 'In a harbor, usually.']
const rerank = (body: object, path = '/v1/rerank') =>
  customer.call('POST', path, { model: 'reranker', query, documents, ...body })
const nanoOf = (id: string | null): Promise<number> =>
  waitFor(`request ${id} is in the log`, async () => {
    const { status, body } = await customer.call('GET', `/v2/usage/requests/${id}`)
    return status === 200 && { nano: Math.round(Number(body.costUsd) * 1e9) }
  }).then(({ nano }) => nano)

describe('P34, promise 28:', () => {
  test.each(['/v1/rerank', '/v2/rerank', '/rerank'])('scores fall, index fits, and top_n cuts at %s', async (path) => {
    const all = await rerank({ return_documents: true }, path)
    expect(all.status).toBe(200)
    // The simulated server scores by length.
    const longestFirst = [1, 2, 0]
    expect(all.body.results).toEqual(
      longestFirst.map((index) => ({
        index,
        relevance_score: (documents[index] ?? '').length / 100,
        document: { text: documents[index] },
      })),
    )
    const two = await rerank({ top_n: 2 }, path)
    expect(two.body.results.map((one: object) => Object.keys(one))).toEqual(
      Array.from({ length: 2 }, () => ['index', 'relevance_score']),
    )
  })

  test.each(['reranker', 'tei-reranker'])('%s bills the tokens that the engine reports', async (model) => {
    const reply = await rerank({ model })
    const tokens = documents.reduce((sum, text) => sum + countTokens(query + text), 0)
    expect(reply.body.usage).toEqual({ prompt_tokens: tokens, total_tokens: tokens })
    expect(reply.body.meta).toEqual({ billed_units: { input_tokens: tokens } })
    expect(await nanoOf(reply.headers.get('x-inference-request-id'))).toBe(tokens)
  })

  test('servers get the documents in their own form', async () => {
    await rerank({ documents: [{ text: 'one' }, 'two'], top_n: 1 })
    await rerank({ model: 'tei-reranker', documents: ['one'] })
    const sent = (name: string): unknown => {
      const { path, body } = models[name]?.upstream.requests.at(-1) ?? {}
      return [path, JSON.parse(body?.toString() ?? '')]
    }
    expect(sent('chat')).toEqual(['/v1/rerank', { model: 'their-name', query, documents: ['one', 'two'] }])
    expect(sent('tei')).toEqual(['/rerank', { query, texts: ['one'], truncate: true }])
  })

  test('1,000 documents work, and 1,001 are refused by name', async () => {
    const many = Array.from({ length: 1_000 }, (_, n) => `document ${n} ${'x'.repeat(n % 97)}`)
    for (const model of ['reranker', 'embedder']) {
      const { body } = await rerank({ model, documents: many })
      const scores = body.results.map((one: { relevance_score: number }) => one.relevance_score)
      expect(scores).toEqual(scores.toSorted((one: number, other: number) => other - one))
      expect(new Set(body.results.map((one: { index: number }) => one.index)).size).toBe(1_000)
    }
    const { status, body } = await rerank({ documents: [...many, 'one more'] })
    expect([status, body.detail[0].loc]).toEqual([400, ['body', 'documents']])
  })

  test('a model of embeddings scores by cosine', async () => {
    const { body } = await rerank({ model: 'embedder' })
    const vectors = [query, ...documents].map((text) =>
      Array.from({ length: 8 }, (_, n) => ((text.length + n * 7) % 13) / 13),
    )
    const [first = [], ...others] = vectors
    const dot = (a: number[], b: number[]) => a.reduce((sum, value, n) => sum + value * (b[n] ?? 0), 0)
    const cosines = others.map((other) => dot(first, other) / Math.hypot(...first) / Math.hypot(...other))
    for (const { index, relevance_score: score } of body.results) expect(score).toBeCloseTo(cosines[index] ?? 2, 9)
    const tokens = [query, ...documents].reduce((sum, text) => sum + countTokens(text), 0)
    expect(body.usage.total_tokens).toBe(tokens)
  })

  test('an answer that is no valid ranking is an error and free', async () => {
    const { upstream } = models['chat'] as TestModel
    upstream.behaviour.faultsOnce = [
      '{"results":[{"index":0,"relevance_score":"high"}]}',
      '{"results":[{"index":7,"relevance_score":1}]}',
      '{"results":[{"index":0,"relevance_score":1},{"index":0,"relevance_score":1}]}',
      '{"results":[]}',
      'Hello',
    ].map((body) => ({ kind: 'status', status: 200, body }))
    const ids: Array<string | null> = []
    while (upstream.behaviour.faultsOnce.length > 0) {
      const reply = await rerank({ documents: ['one'] })
      expect([reply.status, reply.body.reason]).toEqual([503, 'engine_failed'])
      ids.push(reply.headers.get('x-inference-request-id'))
    }
    expect(await Promise.all(ids.map(nanoOf))).toEqual([0, 0, 0, 0, 0])
  })

  test('a chat model cannot rerank, and a blank document is refused by name', async () => {
    expect((await rerank({ model: 'chatter' })).status).toBe(400)
    const { status, body } = await rerank({ documents: ['a', ' '] })
    expect([status >= 400 && status < 500, JSON.stringify(body).includes('documents')]).toEqual([true, true])
  })
})
