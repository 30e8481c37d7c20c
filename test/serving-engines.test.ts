/**
 * Engines of managed deployments, through the whole server: hosts in this process, whose workloads are all answered by one
 * engine in this process. The engine tells replicas apart by the key that each gets.
 */
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { systemClock } from '../src/base/instant.ts'
import type { Program } from '../src/contract/agent.ts'
import { testOffer } from './harness/host-sockets.ts'
import { joinHost, type JoinedHost } from './harness/joined-host.ts'
import { succeed } from './harness/journey.ts'
import { testServer, type Call, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'

const REPLACED_WITHIN_MS = 60_000
const LONG_MS = 2 * REPLACED_WITHIN_MS
const CALLS = 8

let server: TestServer
let engine: http.Server
let nvidia: JoinedHost
let amd: JoinedHost
/** The key of the replica whose scheduler is stuck: it takes calls and answers none, and its health page is as ever. */
let stuckKey: string | undefined
/** Its container has ended. */
let isGone = false
const unanswered: http.ServerResponse[] = []
const answeredBy = new Set<string>()

beforeAll(async () => {
  server = await testServer({ env: { BERTH_DRIVERS: 'host' } })
  engine = http.createServer((request, response) => void answer(request, response))
  await once(engine.listen(0, '127.0.0.1'), 'listening')
  const { port } = engine.address() as AddressInfo
  nvidia = await joinHost(server, port, {
    clusterName: 'nvidia',
    region: 'here',
    gpusTotal: 4,
    priceUsdPerGpuHour: '2',
  })
  const hardware = { ...testOffer.hardware, gpuVendor: 'amd' } as const
  amd = await joinHost(server, port, {
    clusterName: 'amd',
    region: 'there',
    gpusTotal: 4,
    priceUsdPerGpuHour: '1',
    hardware,
  })
})
afterAll(async () => {
  await nvidia?.close()
  await amd?.close()
  engine?.closeAllConnections()
  engine?.close()
  await server?.close()
})

async function answer(request: http.IncomingMessage, response: http.ServerResponse): Promise<void> {
  const key = request.headers.authorization?.replace('Bearer ', '') ?? ''
  if (request.url === '/metrics') {
    // Whoever reads metrics sends no key.
    const waiting = stuckKey === undefined ? 0 : CALLS
    return void response.writeHead(200).end(`vllm:num_requests_running 0\nvllm:num_requests_waiting ${waiting}\n`)
  }
  if (request.method === 'GET') return void response.writeHead(200).end()
  await text(request)
  if (key === stuckKey) return void (isGone ? response.destroy() : unanswered.push(response))
  if (request.headers['user-agent'] !== 'berth-readiness-check') answeredBy.add(key)
  const choice = { index: 0, message: { role: 'assistant', content: 'yes' }, finish_reason: 'stop' }
  const usage = { prompt_tokens: 3, completion_tokens: 20, total_tokens: 23 }
  const body = JSON.stringify({ id: 'x', object: 'chat.completion', created: 1, model: 'm', choices: [choice], usage })
  response.writeHead(200, { 'Content-Type': 'application/json' }).end(body)
}

const deploy = async (call: Call, name: string, recipe: object, gpus: object = { region: 'here' }) =>
  call('POST', '/v2/deployments', { name, recipe, gpus, replicas: { min: 1, max: 1 } })

async function readyOf(call: Call, id: string): Promise<Array<{ id: string; rentalName: string }>> {
  const { replicas } = await succeed(call, 'GET', `/v2/deployments/${id}`)
  return replicas.filter(({ state }: { state: string }) => state === 'ready')
}

/** The program of the only replica of a deployment. */
async function programOf(call: Call, id: string, host = nvidia): Promise<Program> {
  const replica = await waitFor('a replica', async () => (await readyOf(call, id))[0])
  const workload = host.workloads().find(({ spec }) => spec?.name === replica.rentalName)
  if (workload?.spec?.program === undefined) throw new Error(`${replica.rentalName} is not on the host`)
  return workload.spec.program
}

test('gpus promise 25: replicas of one account share what their engines compile, and no other account has it', async () => {
  const programs: Program[] = []
  const [ada, eve] = [await server.account({ usd: '50' }), await server.account({ usd: '50' })]
  for (const [call, name] of [
    [ada.call, 'one'],
    [ada.call, 'two'],
    [eve.call, 'one'],
  ] as const) {
    const { id } = (await deploy(call, name, { name: 'vllm', hubModel: 'owner/seven' })).body
    programs.push(await programOf(call, id))
    await succeed(call, 'DELETE', `/v2/deployments/${id}`)
  }
  const caches = programs.map(({ compileCache }) => compileCache)
  expect(caches.map((cache) => cache?.variables[0])).toEqual(Array(3).fill('VLLM_CACHE_ROOT'))
  expect(caches.map((cache) => cache?.model)).toEqual([`${ada.id}/one`, `${ada.id}/two`, `${eve.id}/one`])
  const [first, second, other] = caches.map((cache) => cache?.owner)
  expect(first).toMatch(/^[0-9a-f]{32}$/)
  expect(second).toBe(first)
  expect(other).toMatch(/^[0-9a-f]{32}$/)
  expect(other).not.toBe(first)

  // An engine that compiles nothing has no such folder, and customers cannot order one.
  const { id } = (await deploy(ada.call, 'own', { name: 'custom', image: { name: 'lab/engine' } })).body
  expect((await programOf(ada.call, id)).compileCache).toBeUndefined()
  await succeed(ada.call, 'DELETE', `/v2/deployments/${id}`)
  const order = { kind: 'container', gpuCount: 1, compileCache: { model: 'm', variables: ['A'] } }
  expect((await ada.call('POST', '/v2/rentals', order)).status).toBe(400)
})

test('gpus promise 47: an image for GPUs of one vendor is never started on those of another', async () => {
  const { call } = await server.account({ usd: '50' })
  const vllm = { name: 'vllm', hubModel: 'owner/seven' }
  // The machine with GPUs of AMD is cheaper.
  const { id } = (await deploy(call, 'anywhere', vllm, {})).body
  expect((await programOf(call, id, nvidia)).command).toEqual(['vllm', 'serve'])
  await succeed(call, 'DELETE', `/v2/deployments/${id}`)

  const quote = async (recipe: object, region: string) =>
    (await call('POST', '/v2/deployments/quote', { kind: 'chat', recipe, gpus: { count: 1, region } })).body
  const refused = await quote(vllm, 'there')
  expect(refused).toMatchObject({ reason: 'gpu_vendor_differs' })
  expect(JSON.stringify(refused)).toContain('for GPUs of NVIDIA, and the machine has GPUs of AMD')
  const rocm = { ...vllm, gpuVendor: 'amd' }
  expect(await quote(rocm, 'here')).toMatchObject({ reason: 'gpu_vendor_differs' })
  // A deployment may wait for GPUs; it does not take the wrong ones meanwhile, and says so.
  const waiting = (await deploy(call, 'there', vllm, { region: 'there' })).body
  const { message, replicas } = await waitFor('its reason', async () => {
    const now = await succeed(call, 'GET', `/v2/deployments/${waiting.id}`)
    return now.message !== null && now
  })
  expect([message, replicas]).toEqual([expect.stringContaining('GPUs of AMD'), []])
  await succeed(call, 'DELETE', `/v2/deployments/${waiting.id}`)

  const made = (await deploy(call, 'rocm', rocm, {})).body
  await programOf(call, made.id, amd)
  expect(made.spec.recipe.image).toEqual({ name: 'vllm/vllm-openai-rocm', tag: 'v0.33.0' })
  await succeed(call, 'DELETE', `/v2/deployments/${made.id}`)
})

test(
  'gpus promise 11: an engine that is stuck while its health page answers is replaced within 60 s',
  { timeout: LONG_MS },
  async () => {
    const { call } = await server.account({ usd: '50' })
    const { id, model } = (await deploy(call, 'stuck', { name: 'vllm', hubModel: 'owner/seven' })).body
    const first = await waitFor('a replica', async () => (await readyOf(call, id))[0])
    const ask = () =>
      call('POST', '/v1/chat/completions', { model, messages: [{ role: 'user', content: 'Are you there?' }] })
    expect((await ask()).status).toBe(200)
    ;[stuckKey] = answeredBy
    const stuckAt = systemClock.now()
    const answers = Promise.all(Array.from({ length: CALLS }, ask))

    const second = await waitFor(
      'another replica',
      async () => (await readyOf(call, id)).find((one) => one.id !== first.id),
      LONG_MS,
    )
    expect(systemClock.now() - stuckAt).toBeLessThan(REPLACED_WITHIN_MS)
    const { replicas } = await succeed(call, 'GET', `/v2/deployments/${id}`)
    expect(replicas.map(({ id, state }: { id: string; state: string }) => [id, state])).toContainEqual([
      second.id,
      'ready',
    ])
    const { db } = server.app.database
    const rows = await db
      .selectFrom('replica')
      .select(['id', 'state', 'reason'])
      .where('deployment_id', '=', id)
      .execute()
    expect(rows.find((one) => one.id === first.id)).toMatchObject({ state: 'ended', reason: 'stuck' })
    // The end of a container ends its connections. Its calls had no first token, so the new replica gets them.
    isGone = true
    for (const response of unanswered) response.destroy()
    expect((await answers).map(({ status }) => status)).toEqual(Array(CALLS).fill(200))
    expect(answeredBy.size).toBe(2)
    await succeed(call, 'DELETE', `/v2/deployments/${id}`)
  },
)
