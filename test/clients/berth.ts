/** A server with a model of every kind, for third-party clients. Each upstream has its own response format. */
import { Agent, fetch as fetchBy } from 'undici'
import { serveModel, type TestModel } from '../harness/inference.ts'
import { testServer, type Call, type TestServer } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'
import { startToolServer, type ToolServer, type ToolShape } from './tool-server.ts'

export interface Berth {
  readonly server: TestServer
  /** The base URL for clients. */
  readonly baseUrl: string
  readonly customer: { readonly id: string; readonly key: string; readonly call: Call }
  readonly chat: TestModel
  /** A second one: some clients remember a model's task by its name. */
  readonly writer: TestModel
  /** Streams endlessly, one word at a time. */
  readonly slow: TestModel
  /** Breaks off mid-stream after `breakNextStream` was called. */
  readonly fragile: TestModel
  readonly broken: TestModel
  readonly embedding: TestModel
  readonly painter: TestModel
  readonly diffuser: TestModel
  readonly voice: TestModel
  /** Takes images, and counts tokens. */
  readonly vision: TestModel
  readonly tools: Readonly<Record<ToolShape, { readonly name: string; readonly upstream: ToolServer }>>
  close(): Promise<void>
}

/** Beyond ASCII and the basic plane, plus text with special meaning in streams and JSON. */
export const words = ['Grüße, ', '漢字 ', '🚢 ', 'data: [DONE] ', '"id":"x" ', '\\n\n ', 'usage']
export const spoken = words.join('')

/** The upstream counts one token per four characters of a message as JSON, and one per word of its answer. */
export function promptTokens(messages: readonly object[]): number {
  return messages.reduce((sum, message) => sum + Math.ceil(JSON.stringify(message).length / 4), 0)
}

/** The last request to a model's upstream. */
export function lastAsked(model: TestModel): Record<string, unknown> {
  return JSON.parse(model.upstream.requests.at(-1)?.body.toString() ?? '') as Record<string, unknown>
}

/**
 * Clients share connections, and the fast path hands one over for good at the first request it does not handle; so only
 * a request on its own connection is sure to reach it.
 */
export const connections: ReadonlyArray<readonly [how: string, fetch: typeof fetch]> = [
  ['on a connection of its own', fetchApart],
  ['on a connection that others have used', fetch],
]

/** User agents of requests served by the fast path: there the two ids of an answer are the same. */
export const seenOnFastPath = new Set<string>()

async function fetchApart(...[input, init]: Parameters<typeof fetch>): Promise<Response> {
  const dispatcher = new Agent()
  const response = await fetchBy(input as string, { ...(init as object), dispatcher })
  // Waits until the rest of the body has been read.
  void dispatcher.close()
  if (response.headers.get('x-request-id') === response.headers.get('x-inference-request-id')) {
    seenOnFastPath.add(new Headers(init?.headers).get('user-agent') ?? '')
  }
  return response
}

/** Words before the break: the event before them has none. */
export const wordsBeforeBreak = 2

/** A successful stream comes first: after too many failures in a row the target would be skipped for a while. */
export async function breakNextStream({ fragile, customer }: Berth): Promise<void> {
  const messages = [{ role: 'user', content: 'hello' }]
  const good = await customer.call('POST', '/v1/chat/completions', { model: fragile.name, messages })
  if (good.status !== 200) throw new Error(`the engine is not well: ${good.status}`)
  fragile.upstream.behaviour.faultsOnce.push({ kind: 'finish', afterEvents: 1 + wordsBeforeBreak })
}

export async function startBerth(): Promise<Berth> {
  const server = await testServer({ runLoops: false })
  const customer = await server.account({ usd: '10' })
  const said = { words: words.length, wordOf: (n: number) => words[n] ?? '' }
  const image = { kind: 'image', pixelStepUsdPerMillion: '0.001' }
  const [chat, writer, slow, fragile, broken, embedding, painter, diffuser, voice, vision] = await Promise.all([
    serveModel(server, { name: 'test/chat', behaviour: said }),
    serveModel(server, { name: 'test/writer', behaviour: said }),
    serveModel(server, { name: 'test/slow', behaviour: { words: 4_000, intervalMs: 5 } }),
    serveModel(server, { name: 'test/fragile', behaviour: said }),
    serveModel(server, { name: 'test/broken', behaviour: { fault: { kind: 'status', status: 500 } } }),
    serveModel(server, { name: 'test/embedding', model: { kind: 'embedding' } }),
    serveModel(server, { name: 'test/painter', model: image, deployment: { protocol: 'images' } }),
    serveModel(server, { name: 'test/diffuser', model: image, deployment: { protocol: 'txt2img' } }),
    serveModel(server, { name: 'test/voice', model: { kind: 'speech', characterUsdPerMillion: '0.01' } }),
    serveModel(server, {
      name: 'test/vision',
      model: { supportsImageInput: true },
      behaviour: { tokenizer: 'vllm' },
    }),
  ])
  const tools = { vllm: await serveTools(server, 'vllm'), llama: await serveTools(server, 'llama') }
  const models = [chat, writer, slow, fragile, broken, embedding, painter, diffuser, voice, vision]
  await waitFor('all models are served', async () => {
    const listed = await customer.call('GET', '/v1/models')
    return listed.body.data.length === models.length + Object.keys(tools).length
  })
  // The fast path only uses keys and purses in memory.
  await customer.call('POST', '/v1/chat/completions', { model: chat.name, messages: [{ role: 'user', content: '' }] })
  return {
    server,
    baseUrl: `${server.url}/v1`,
    customer,
    chat,
    writer,
    slow,
    fragile,
    broken,
    embedding,
    painter,
    diffuser,
    voice,
    vision,
    tools,
    close: async () => {
      await server.close()
      const upstreams = [...models.map((model) => model.upstream), ...Object.values(tools).map((one) => one.upstream)]
      await Promise.all(upstreams.map((upstream) => upstream.close()))
    },
  }
}

async function serveTools(server: TestServer, shape: ToolShape): Promise<{ name: string; upstream: ToolServer }> {
  const name = `test/tools-${shape}`
  const upstream = await startToolServer(shape)
  const priced = { inputUsdPerMillion: '0.001', outputUsdPerMillion: '0.002' }
  const model = await server.operator('POST', '/v2/operator/models', {
    name,
    kind: 'chat',
    contextTokens: 8_192,
    supportsTools: true,
    ...priced,
  })
  const url = `http://${upstream.host}:${upstream.port}`
  const deployment = await server.operator('POST', '/v2/operator/deployments', { model: name, url })
  if (model.status !== 200 || deployment.status !== 200) throw new Error(`${name} is not served`)
  return { name, upstream }
}
