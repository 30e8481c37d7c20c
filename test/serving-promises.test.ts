/**
 * Promises of managed deployments, through the whole server: hosts in this process, whose workloads are all answered by
 * one engine in this process. The engine tells replicas apart by the key that each gets.
 */
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { usd } from '../src/base/money.ts'
import { joinHost, type JoinedHost } from './harness/joined-host.ts'
import { succeed } from './harness/journey.ts'
import type { Reply } from './harness/exchange.ts'
import { testServer, type Call, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'

interface Asked {
  readonly model: string
  readonly key: string
  readonly prompt: string
  readonly lora_path?: string
  readonly lora?: unknown
}

interface Replica {
  readonly id: string
  readonly state: string
  readonly version: number
  readonly rentalName: string
}

let server: TestServer
let engine: http.Server
let wide: JoinedHost
let narrow: JoinedHost
let customer: { id: string; key: string; call: Call }
/** Without the usual limit of requests per minute of a key. */
let loadKey: string
/** Requests that the engine got, without readiness checks. */
const asked: Asked[] = []
const CONCURRENCY = 8
const running = new Map<string, number>()
let mostRunning = 0
/** Requests with the prompt `held` are answered when it resolves. */
let gate: Promise<void> = Promise.resolve()

beforeAll(async () => {
  server = await testServer({ env: { BERTH_DRIVERS: 'host' } })
  engine = http.createServer((request, response) => void answer(request, response))
  await once(engine.listen(0, '127.0.0.1'), 'listening')
  const { port } = engine.address() as AddressInfo
  wide = await joinHost(server, port, { clusterName: 'wide', region: 'wide', gpusTotal: 6 })
  narrow = await joinHost(server, port, { clusterName: 'narrow', region: 'narrow', gpusTotal: 1 })
  customer = await server.account({ usd: '50' })
  const quota = { requestsPerMinute: 1_000_000, tokensPerMinute: 1_000_000_000, streams: 10_000 }
  await succeed(server.operator, 'PATCH', `/v2/operator/accounts/${customer.id}`, { quota, reason: 'for the test' })
  const key = { name: 'load', scopes: ['inference'], requestsPerMinute: 1_000_000 }
  loadKey = (await succeed(customer.call, 'POST', '/v2/api-keys', key)).key
})
afterAll(async () => {
  await wide?.close()
  await narrow?.close()
  engine?.closeAllConnections()
  engine?.close()
  await server?.close()
})

async function answer(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
  // It has no metrics.
  if (request.method === 'GET') return void response.writeHead(404).end()
  const body = (await json(request)) as Omit<Asked, 'key' | 'prompt'> & { messages: Array<{ content: string }> }
  const key = request.headers.authorization?.replace('Bearer ', '') ?? ''
  const prompt = body.messages[0]?.content ?? ''
  const { model, lora_path, lora } = body
  const isCheck = request.headers['user-agent'] === 'berth-readiness-check'
  if (!isCheck) {
    asked.push({
      model,
      key,
      prompt,
      ...(lora_path === undefined ? {} : { lora_path }),
      ...(lora === undefined ? {} : { lora }),
    })
    running.set(key, (running.get(key) ?? 0) + 1)
    mostRunning = Math.max(mostRunning, running.get(key) ?? 0)
    // A turn of the event loop, so that requests overlap.
    await new Promise((resolve) => setImmediate(resolve))
    if (prompt === 'held') await gate
    running.set(key, (running.get(key) ?? 0) - 1)
  }
  const choice = { index: 0, message: { role: 'assistant', content: prompt }, finish_reason: 'stop' }
  const usage = { prompt_tokens: 3, completion_tokens: 20, total_tokens: 23 }
  const text = JSON.stringify({ id: 'x', object: 'chat.completion', created: 1, model, choices: [choice], usage })
  response.writeHead(200, { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(text) }).end(text)
}

const ask = (by: { call: Call }, model: string, prompt: string): Promise<Reply> =>
  by.call('POST', '/v1/chat/completions', { model, messages: [{ role: 'user', content: prompt }] })

const askedFor = (prompt: string): Asked | undefined => asked.find((one) => one.prompt === prompt)

/** Of the engine whose replica has this key: `vllm`, `python3`, `/app/llama-server`. */
const engineOf = (key: string): string | undefined =>
  wide.workloads().find(({ spec }) => JSON.stringify(spec?.program).includes(key))?.spec?.program?.command?.[0]

const custom = (version: string): object => ({
  name: 'custom',
  image: { name: 'lab/chat-engine' },
  concurrency: CONCURRENCY,
  env: { VERSION: version },
})

/** Kinds of notifications about a deployment; those about its rentals would repeat them. */
const told = async (id: string): Promise<string[]> => {
  const { notifications } = await succeed(customer.call, 'GET', '/v2/notifications')
  expect(notifications.filter(({ kind }: { kind: string }) => kind.startsWith('rental'))).toEqual([])
  return notifications
    .filter(({ subject }: { subject: { id: string } }) => subject.id === id)
    .map(({ kind }: { kind: string }) => kind)
}

const read = (by: { call: Call }, id: string) => succeed(by.call, 'GET', `/v2/deployments/${id}`)
const inState = (one: { replicas: Replica[] }, state: string): Replica[] =>
  one.replicas.filter((replica) => replica.state === state)

test('adapters: each request reaches a replica that has the adapter, in the form of its engine, under its own name', async () => {
  const operator = { call: server.operator }
  const file = (path: string): object => ({
    path,
    bytes: 1_000,
    sha256: 'ab'.repeat(32),
    source: { kind: 'https', url: `https://hub.example.com/${path}` },
  })
  const recipe = (name: string, adapters: readonly string[]): object => ({
    name,
    weights: { mountPath: '/models', files: ['model.gguf', ...adapters.map((one) => `${one}/a.gguf`)].map(file) },
    adapters: adapters.map((one) => ({ name: `house/${one}`, path: `${one}/a.gguf` })),
  })
  const base = 'house/base:7b'
  const { id } = await succeed(server.operator, 'POST', '/v2/deployments', {
    model: base,
    forEveryone: true,
    hourlyBudgetUsd: '10.00',
    recipe: recipe('vllm', ['poet']),
    gpus: { region: 'wide' },
    replicas: { min: 1, max: 1 },
  })
  await succeed(server.operator, 'PATCH', '/v2/operator/models?name=house/poet', { outputUsdPerMillion: '100' })
  const priceOf = async (): Promise<unknown> => (await customer.call('GET', '/v1/models/house/poet')).body.output_price
  await waitFor('the price of the adapter', async () => (await priceOf()) === 100)
  expect((await ask(customer, 'house/poet', 'by model')).body).toMatchObject({ model: 'house/poet' })
  expect((await ask(customer, base, 'the base')).status).toBe(200)
  expect(askedFor('by model')).toMatchObject({ model: 'house/poet' })
  expect(askedFor('the base')).toMatchObject({ model: base })
  const spent = async (): Promise<bigint> =>
    usd('50') - usd((await succeed(customer.call, 'GET', '/v2/customer/balance')).balanceUsd)
  await waitFor('20 tokens at $100 per million', async () => (await spent()) === usd('0.002'))
  const logged = await waitFor('both requests in the log', async () => {
    const { requests } = await succeed(customer.call, 'GET', '/v2/usage/requests')
    return requests.length === 2 && requests
  })
  expect(logged.map((one: { model: string; costUsd: string }) => [one.model, Number(one.costUsd)])).toEqual([
    [base, 0],
    ['house/poet', 0.002],
  ])

  const rollOut = async (name: string, adapters: readonly string[], version: number): Promise<void> => {
    await succeed(server.operator, 'POST', `/v2/deployments/${id}/rollout`, { recipe: recipe(name, adapters) })
    // The replicas of the old version do not have the last adapter: this waits for the first that has it.
    const newest = `house/${adapters.at(-1)}`
    await waitFor(
      `${newest} to be known`,
      async () => (await customer.call('GET', `/v1/models/${newest}`)).status === 200,
    )
    expect((await ask(customer, newest, `first ${newest}`)).status).toBe(200)
    await waitFor('the rollout', async () => (await read(operator, id)).readyVersion === version)
  }
  await rollOut('sglang', ['poet', 'bard'], 2)
  // SGLang takes what follows a colon in `model` for an adapter.
  expect(askedFor('first house/bard')).toMatchObject({ model: 'house/base-7b', lora_path: 'house/bard' })
  expect(engineOf(askedFor('first house/bard')?.key ?? '?')).toBe('python3')
  await rollOut('llama.cpp', ['poet', 'bard', 'sage'], 3)
  expect(askedFor('first house/sage')).toMatchObject({ model: base, lora: [{ id: 2, scale: 1 }] })
  expect(engineOf(askedFor('first house/sage')?.key ?? '?')).toBe('/app/llama-server')
  await succeed(server.operator, 'DELETE', `/v2/deployments/${id}`)
})

test('a private adapter has no slash in its name', async () => {
  const order = {
    name: 'mine',
    gpus: {},
    recipe: { name: 'vllm', hubModel: 'a/b', adapters: [{ name: 'a/b', path: 'x' }] },
  }
  const refused = await customer.call('POST', '/v2/deployments', order)
  expect(refused).toMatchObject({ status: 400, body: { reason: 'recipe_option' } })
  expect(refused.body.issues[0].path).toEqual(['recipe', 'adapters', 0, 'name'])
})

test('a replica whose rental ended is replaced, and no rental of a deployment is without a replica', async () => {
  const made = await succeed(customer.call, 'POST', '/v2/deployments', {
    name: 'kept',
    recipe: custom('one'),
    gpus: { region: 'wide' },
    replicas: { min: 1, max: 1 },
  })
  const first = await waitFor('a replica', async () => inState(await read(customer, made.id), 'ready')[0])
  const { db } = server.app.database
  await succeed(customer.call, 'POST', '/v1/marketplace/instances/terminate', { id: first.rentalName })
  await waitFor('another', async () =>
    inState(await read(customer, made.id), 'ready').some(({ id }) => id !== first.id),
  )
  // The rental and its replica are written in one transaction, so at no instant is there one without the other.
  const rentals = await db
    .selectFrom('rental')
    .leftJoin('replica', 'replica.rental_id', 'rental.id')
    .select(['rental.id', 'replica.id as replicaId', 'replica.state', 'rental.status'])
    .where('rental.account_id', '=', customer.id)
    .execute()
  expect(rentals.filter(({ replicaId }) => replicaId === null)).toEqual([])
  const isOver = (status: string): boolean => ['Terminating', 'Terminated', 'Failed'].includes(status)
  expect(rentals.filter(({ state, status }) => state === 'ended' && !isOver(status))).toEqual([])
  await succeed(customer.call, 'DELETE', `/v2/deployments/${made.id}`)
})

test('without a spare GPU a rollout says so and the old version serves; in place, it goes through', async () => {
  const made = await succeed(customer.call, 'POST', '/v2/deployments', {
    name: 'only',
    recipe: custom('one'),
    gpus: { region: 'narrow' },
    replicas: { min: 1, max: 1 },
  })
  await waitFor('a replica', async () => inState(await read(customer, made.id), 'ready')[0])
  const rollOut = (inPlace: boolean): Promise<unknown> =>
    succeed(customer.call, 'POST', `/v2/deployments/${made.id}/rollout`, { recipe: custom('two'), inPlace })
  await rollOut(false)
  const blocked = await waitFor('the reason', async () => {
    const found = await read(customer, made.id)
    return found.message !== null && found
  })
  expect(blocked).toMatchObject({ status: 'ready', rollout: 'in_progress', readyVersion: 1 })
  expect(blocked.message).toContain('roll out in place')
  expect((await ask(customer, made.model, 'while it waits')).status).toBe(200)
  expect(await told(made.id)).toEqual(['deployment_blocked'])
  const { body: metrics } = await server.operator('GET', '/metrics')
  const gauge = (name: string, labels: string): string | undefined =>
    new RegExp(`^berth_serving_${name}\\{model="${made.model}"${labels}\\} (.*)$`, 'm').exec(metrics)?.[1]
  expect(['ready', 'starting', 'desired'].map((state) => gauge('replicas', `,state="${state}"`))).toEqual([
    '1',
    '0',
    '1',
  ])
  expect(gauge('starts_total', ',result="ready"')).toBe('1')
  expect(gauge('blocked', ',reason="no_spare_gpus"')).toBe('1')
  expect(Number(gauge('cost_usd_per_hour', ''))).toBeGreaterThan(0)
  await rollOut(true)
  // A request in between waits for the new replica.
  await waitFor('the old one to go', async () =>
    (await read(customer, made.id)).replicas.every((one: Replica) => one.version > 1 || one.state !== 'ready'),
  )
  expect((await ask(customer, made.model, 'in between')).status).toBe(200)
  const done = await waitFor('the rollout', async () => {
    const found = await read(customer, made.id)
    return found.readyVersion === 3 && found
  })
  expect(done).toMatchObject({ status: 'ready', rollout: 'done', message: null })
  await succeed(customer.call, 'DELETE', `/v2/deployments/${made.id}`)
})

/** Of one account and model, in the queue of a gateway. */
const QUEUE = 2_048

test('a full queue answers 429 with Retry-After, what waits is answered, and the engine gets no more than its slots', async () => {
  const made = await succeed(customer.call, 'POST', '/v2/deployments', {
    name: 'full',
    recipe: custom('one'),
    gpus: { region: 'wide' },
    replicas: { min: 1, max: 1 },
  })
  await waitFor('a replica', async () => inState(await read(customer, made.id), 'ready')[0])
  let open: () => void = () => {}
  gate = new Promise((resolve) => (open = resolve))
  mostRunning = 0
  const agent = new http.Agent({ keepAlive: true })
  const refused: Answer[] = []
  const all = Array.from({ length: CONCURRENCY + QUEUE + 5 }, async () => {
    const found = await post(agent, made.model, 'held')
    if (found.status !== 200) refused.push(found)
    return found.status
  })
  await waitFor('five refusals', () => refused.length >= 5)
  expect(mostRunning).toBe(CONCURRENCY)
  open()
  const statuses = await Promise.all(all)
  agent.destroy()
  expect(statuses.filter((status) => status === 200)).toHaveLength(CONCURRENCY + QUEUE)
  expect(refused.map(({ status, content }) => [status, JSON.parse(content).reason])).toEqual(
    Array.from({ length: 5 }, () => [429, 'model_queue_full']),
  )
  expect(refused.every(({ retryAfter }) => Number(retryAfter) >= 1)).toBe(true)
  expect(mostRunning).toBe(CONCURRENCY)
  await succeed(customer.call, 'DELETE', `/v2/deployments/${made.id}`)
})

const REQUESTS = 10_000
const CLIENTS = 64

test('10,000 requests over a rollout and a scale-down: none lost, none doubled, no engine above its slots', async () => {
  const made = await succeed(customer.call, 'POST', '/v2/deployments', {
    name: 'busy',
    recipe: custom('one'),
    gpus: { region: 'wide' },
    replicas: { min: 2, max: 2 },
  })
  const ready = async (isSo: (replicas: Replica[]) => boolean): Promise<Replica[]> =>
    waitFor('the replicas', async () => {
      const found = inState(await read(customer, made.id), 'ready')
      return isSo(found) && found
    })
  await ready(({ length }) => length === 2)
  mostRunning = 0
  const wrong: unknown[] = []
  let sent = 0
  let isStopped = false
  const agent = new http.Agent({ keepAlive: true, maxSockets: CLIENTS })
  // Until the changes are over, and 10,000 at least.
  const client = async (): Promise<void> => {
    while (sent < REQUESTS || !isStopped) {
      const prompt = `busy ${(sent += 1)}`
      const found = await post(agent, made.model, prompt)
      if (found.status !== 200 || found.content !== prompt) wrong.push([prompt, found])
    }
  }
  const clients = Promise.all(Array.from({ length: CLIENTS }, client))
  await succeed(customer.call, 'POST', `/v2/deployments/${made.id}/rollout`, { recipe: custom('two') })
  await ready((found) => found.length === 2 && found.every(({ version }) => version === 2))
  await succeed(customer.call, 'PATCH', `/v2/deployments/${made.id}`, { replicas: { min: 1, max: 1 } })
  await waitFor('one replica', async () => {
    const { replicas } = await read(customer, made.id)
    return replicas.filter((one: Replica) => one.state !== 'ended').length === 1
  })
  isStopped = true
  await clients
  agent.destroy()
  expect(wrong).toEqual([])
  const counts = new Map<string, number>()
  for (const { prompt } of asked) if (prompt.startsWith('busy ')) counts.set(prompt, (counts.get(prompt) ?? 0) + 1)
  expect(counts.size).toBe(sent)
  expect([...counts].filter(([, count]) => count !== 1)).toEqual([])
  expect(mostRunning).toBeLessThanOrEqual(CONCURRENCY)
}, 180_000)

interface Answer {
  readonly status: number
  readonly content: string
  readonly retryAfter: string | undefined
}

async function post(agent: http.Agent, model: string, prompt: string): Promise<Answer> {
  const text = JSON.stringify({ model, messages: [{ role: 'user', content: prompt }] })
  const headers = {
    Authorization: `Bearer ${loadKey}`,
    'Content-Type': 'application/json',
    'Content-Length': Buffer.byteLength(text),
  }
  const request = http.request(`${server.url}/v1/chat/completions`, { agent, method: 'POST', headers })
  request.end(text)
  const [response] = (await once(request, 'response')) as [http.IncomingMessage]
  const body = (await json(response)) as { choices?: Array<{ message: { content: string } }> }
  const content = body.choices?.[0]?.message.content ?? JSON.stringify(body)
  return { status: response.statusCode ?? 0, content, retryAfter: response.headers['retry-after'] }
}
