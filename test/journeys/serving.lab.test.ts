/**
 * Models on the fleet: real hosts with Docker daemons, our own engine in containers with a small model of its own, the
 * gateway in front. From zero to three replicas and back, through the loss of a host and a rollout, with every request
 * answered and every token and second paid. Ready engines are slowed down by the kernel: requests then last as long as
 * with a large model, and cost little.
 */
import { randomBytes } from 'node:crypto'
import { readdir, rename, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, inject, test } from 'vitest'
import { parseInstant, systemClock } from '../../src/base/instant.ts'
import { usd } from '../../src/base/money.ts'
import { ENGINE_IMAGE_PATH } from '../../src/contract/agent.ts'
import { writeTinyGguf } from '../sim/tiny-gguf.ts'
import { whyNoDockerLab } from '../lab/docker-lab.ts'
import { chargedFor, succeed } from '../harness/journey.ts'
import { startMachines, type ContainerHost, type Machines } from '../lab/machines.ts'
import type { Reply } from '../harness/exchange.ts'
import type { Call } from '../harness/server.ts'
import { storeWeights, type StoredWeights } from '../harness/stored-weights.ts'
import { waitFor } from '../harness/wait.ts'
import { needs } from '../needs.ts'

needs('docker', 'build')

const why = whyNoDockerLab()
const skipped = why === undefined ? '' : ` (skipped: ${why})`
/** Enough for a busy machine. */
const GIVE_UP_MS = 90_000
const MODEL = 'house/assistant'
/** Room for two of the three models, each of 114 KB, beside the tenth that compiled code may take. */
const WEIGHTS_GB = '0.00028'
const MODEL_BYTES = 114_000
/** Of one CPU, for an engine that is ready. */
const SLOW_CPUS = '0.1'
/** Long enough that a client waits for its engine most of the time, whatever else the machine does. */
const LOAD_TOKENS = 80
const TEMPLATE = `{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}<|im_end|>
{% endfor %}<|im_start|>assistant
A second version: `

interface Replica {
  readonly id: string
  readonly state: string
  readonly version: number
  readonly node: string
  readonly rentalId: number
  readonly detail: string | null
  readonly createdAt: string
  readonly readyAt: string | null
  readonly coldStart: Readonly<Record<string, number | null>>
}

interface Deployment {
  readonly id: string
  readonly model: string
  readonly status: string
  readonly readyVersion: number | null
  readonly replicas: readonly Replica[]
}

interface Account {
  readonly id: string
  readonly key: string
  readonly call: Call
}

describe.skipIf(why !== undefined)(`models on rented GPUs${skipped}`, () => {
  let machines: Machines
  let operator: Call
  let supplier: Account
  let hosts: ContainerHost[]
  let customer: Account
  let stranger: Account
  let id: string
  let versions: { one: StoredWeights; two: StoredWeights; broken: StoredWeights }
  /** Prompt tokens of a request, which the template of each version makes different. */
  const promptTokens = { one: 0, two: 0 }
  const answered: Reply[] = []
  let ownMoney: bigint
  const slowed = new Set<number>()
  let lostId: string | undefined

  beforeAll(async () => {
    machines = await startMachines({
      hosts: 0,
      env: { BERTH_ENGINE_DIR: path.dirname(inject('serverBundle')), BERTH_LOCAL_ENGINES: 'true' },
    })
    const { server } = machines
    operator = server.operator
    ownMoney = await houseBalance()
    supplier = await server.account({ platformFeePercentage: 20 })
    const { token } = await succeed(supplier.call, 'POST', '/v2/supply/join-tokens', { uses: 2 })
    const join = (): Promise<ContainerHost> =>
      machines.addHost({ token, gpus: 'rtx4090:4', args: ['--weights-gb', WEIGHTS_GB] })
    hosts = [await join(), await join()]
    customer = await server.account({ usd: '100', sshKey: false })
    stranger = await server.account({ usd: '10' })
    versions = {
      one: await storeWeights(server, 'house/one', (file) => writeTinyGguf(file)),
      two: await storeWeights(server, 'house/two', (file) => writeTinyGguf(file, { chatTemplate: TEMPLATE })),
      broken: await storeWeights(server, 'house/broken', (file) => writeFile(file, randomBytes(MODEL_BYTES))),
    }
  }, 180_000)
  afterAll(() => machines.close())

  const houseBalance = async (): Promise<bigint> =>
    usd((await succeed(operator, 'GET', '/v2/customer/balance')).balanceUsd)

  const recipe = ({ weights }: StoredWeights): object => ({ name: 'berth-engine', concurrency: 2, weights })

  const body = (maxTokens: number, more: object = {}): object => {
    return { model: MODEL, messages: [{ role: 'user', content: 'Hello' }], max_tokens: maxTokens, ...more }
  }

  const ask = async (maxTokens = 12): Promise<Reply> => {
    const reply = await customer.call('POST', '/v1/chat/completions', body(maxTokens))
    answered.push(reply)
    return reply
  }

  /** A deployment, whose ready engines are slow from then on. */
  async function read(): Promise<Deployment> {
    const found: Deployment = await succeed(operator, 'GET', `/v2/deployments/${id}`)
    for (const { node, rentalId } of ready(found)) {
      const host = hosts.find((one) => one.id === node)
      if (host === undefined || host.id === lostId || slowed.has(rentalId)) continue
      const containers = await host.docker.docker('ps', '--format', '{{.Label "berth.tag"}} {{.ID}}')
      const [, container] = new RegExp(`-${rentalId}-\\w+ (\\w+)$`, 'm').exec(containers) ?? []
      if (container === undefined) continue
      await host.docker.docker('update', '--cpus', SLOW_CPUS, container)
      slowed.add(rentalId)
    }
    return found
  }

  async function untilShown(what: string, isSo: (one: Deployment) => boolean): Promise<Deployment> {
    let last: Deployment | undefined
    return waitFor(
      () => `${what}; it is ${JSON.stringify(last)}`,
      async () => {
        last = await read()
        return isSo(last) && last
      },
      GIVE_UP_MS,
    )
  }

  const ready = ({ replicas }: Deployment): Replica[] => replicas.filter(({ state }) => state === 'ready')
  const living = ({ replicas }: Deployment): Replica[] => replicas.filter(({ state }) => state !== 'ended')
  const setsOn = (host: ContainerHost): Promise<string[]> => readdir(path.join(host.dir, 'weights', 'sets'))

  test('its image and weights are handed out to hosts only', async () => {
    const { anonymous } = machines.server
    expect((await anonymous('GET', ENGINE_IMAGE_PATH)).status).toBe(401)
    const forged = { authorization: `Berth-Agent ${hosts[0]?.id}:${systemClock.now()}:${'A'.repeat(86)}` }
    expect((await anonymous('GET', ENGINE_IMAGE_PATH, undefined, forged)).status).toBe(401)
  })

  test('a request at zero starts exactly one replica, waits for it, and is answered', async () => {
    const order = {
      model: MODEL,
      forEveryone: true,
      recipe: recipe(versions.one),
      gpus: { model: 'RTX 4090', count: 1, maxUsdPerGpuHour: '0.50' },
      replicas: { min: 0, max: 3 },
      scaling: { targetOutstanding: 2, upDelaySeconds: 1, downDelaySeconds: 2, idleSeconds: 4 },
      drainSeconds: 20,
    }
    expect(await operator('POST', '/v2/deployments', order)).toMatchObject({ body: { reason: 'house_budget_missing' } })
    const funded = { ...order, hourlyBudgetUsd: '2.00' }
    const refused = await customer.call('POST', '/v2/deployments', funded)
    expect(refused).toMatchObject({ status: 403, body: { reason: 'missing_scope' } })
    const made: Deployment = await succeed(operator, 'POST', '/v2/deployments', funded)
    id = made.id
    expect(made).toMatchObject({ status: 'idle', replicas: [], model: MODEL })
    await succeed(operator, 'PATCH', `/v2/operator/models?name=${MODEL}`, { outputUsdPerMillion: '100' })
    const priced = async (): Promise<boolean> =>
      (await customer.call('GET', `/v1/models/${MODEL}`)).body.output_price === 100
    await waitFor('the price to be known', priced)
    const answers = await Promise.all([ask(), ask()])
    expect(answers.map(({ status }) => status)).toEqual([200, 200])
    promptTokens.one = answers[0]?.body.usage.prompt_tokens
    const { replicas } = await read()
    expect(replicas).toHaveLength(1)
    // The four phases are the whole start.
    const [{ coldStart, createdAt, readyAt }] = replicas as [Replica]
    expect(Object.keys(coldStart)).toEqual(['claimSeconds', 'pullSeconds', 'loadSeconds', 'firstTokenSeconds'])
    const phases = Object.values(coldStart).reduce<number>((sum, one) => sum + (one ?? Number.NaN), 0)
    expect(phases * 1_000).toBeCloseTo(Number(parseInstant(readyAt ?? '')) - Number(parseInstant(createdAt)), 0)
    expect(coldStart['firstTokenSeconds']).toBeGreaterThan(0)
  }, 180_000)

  test('a private model is seen and used by its account, and by those it is shared with', async () => {
    const made: Deployment = await succeed(customer.call, 'POST', '/v2/deployments', {
      name: 'search',
      kind: 'embedding',
      recipe: { name: 'berth-engine' },
      gpus: { count: 1 },
    })
    const input = { model: made.model, input: 'Hello' }
    const embed = (by: Account): Promise<Reply> => by.call('POST', '/v1/embeddings', input)
    const names = async (by: Account): Promise<string[]> =>
      (await succeed(by.call, 'GET', '/v1/models')).data.map((one: { id: string }) => one.id)
    expect(made.model).toBe(`${customer.id}/search`)
    await waitFor('the model to be known', async () => (await names(customer)).includes(made.model))
    const vectors = await embed(customer)
    expect([vectors.status, vectors.body.data?.[0].embedding.length > 0]).toEqual([200, true])
    expect(await names(stranger)).not.toContain(made.model)
    expect(await embed(stranger)).toMatchObject({ status: 400, body: { reason: 'model_not_found' } })
    const at = `/v2/deployments/${made.id}`
    expect(await stranger.call('GET', at)).toMatchObject({ status: 404 })
    await succeed(customer.call, 'PATCH', at, { sharedWith: [stranger.id] })
    await waitFor('the model to be shared', async () => (await names(stranger)).includes(made.model))
    expect((await embed(stranger)).status).toBe(200)
    const { replicas }: Deployment = await succeed(customer.call, 'GET', at)
    await succeed(customer.call, 'DELETE', at)
    await waitFor('it to be gone', async () => (await customer.call('GET', at)).status === 404, GIVE_UP_MS)
    expect((await embed(customer)).body).toMatchObject({ reason: 'model_not_found' })
    const [{ rentalId } = { rentalId: 0 }] = replicas
    expect(await chargedFor(customer.call, { rentalId })).toBeGreaterThan(0n)
  }, 120_000)

  /** So many clients, each with one request after another. Returns the answers when stopped. */
  function load(clients: number): { stop(): Promise<Reply[]> } {
    const answers: Reply[] = []
    let isOver = false
    const client = async (): Promise<void> => {
      while (!isOver) answers.push(await ask(LOAD_TOKENS))
    }
    const running = Promise.all(Array.from({ length: clients }, client))
    return {
      stop: async () => {
        isOver = true
        await running
        return answers
      },
    }
  }

  const failed = (answers: readonly Reply[]): unknown[] =>
    answers.filter(({ status }) => status !== 200).map((r) => r.body)

  test('grows to three under load, replaces those of a lost host without failing a request, and shrinks to one', async () => {
    const one = load(1)
    const more = load(5)
    const grown = await untilShown('three replicas', (found) => ready(found).length === 3)
    expect(ready(grown).filter(({ rentalId }) => !slowed.has(rentalId))).toEqual([])
    const [first, second] = hosts as [ContainerHost, ContainerHost]
    expect(new Set(ready(grown).map(({ node }) => node))).toEqual(new Set([first.id, second.id]))
    // Gone from the server: replicas that replace others start from the copy of their host.
    await rename(versions.one.file, `${versions.one.file}.away`)
    lostId = first.id
    await first.docker.cutPower()
    await first.stopAgent('kill')
    await untilShown(
      'three replicas elsewhere',
      (found) => ready(found).filter(({ node }) => node === second.id).length === 3,
    )
    expect(await setsOn(second)).toHaveLength(1)
    expect(failed(await more.stop())).toEqual([])
    await untilShown('one replica', (found) => living(found).length === 1)
    expect(failed(await one.stop())).toEqual([])
  }, 240_000)

  test('rolls out a new version under load: every request is answered, by the old version or the new', async () => {
    const clients = load(3)
    await succeed(operator, 'POST', `/v2/deployments/${id}/rollout`, { recipe: recipe(versions.two) })
    await untilShown(
      'version 2 alone',
      (one) => one.readyVersion === 2 && living(one).every(({ version }) => version === 2),
    )
    promptTokens.two = (await ask()).body.usage.prompt_tokens
    const answers = await clients.stop()
    expect(failed(answers)).toEqual([])
    expect(promptTokens.two).not.toBe(promptTokens.one)
    const seen = new Set(answers.map(({ body: { usage } }) => usage.prompt_tokens))
    expect(seen).toEqual(new Set([promptTokens.one, promptTokens.two]))
  }, 180_000)

  test('a version that cannot start stops with its last output, and the old one serves on', async () => {
    const [, second] = hosts as [ContainerHost, ContainerHost]
    const before = await setsOn(second)
    await succeed(operator, 'POST', `/v2/deployments/${id}/rollout`, { recipe: recipe(versions.broken) })
    const clients = load(1)
    await untilShown('the output of a failed replica', ({ replicas }) =>
      replicas.some(
        ({ version, state, detail }) =>
          version === 3 && state === 'ended' && detail?.includes('model.gguf cannot be loaded') === true,
      ),
    )
    const answers = await clients.stop()
    expect(failed(answers)).toEqual([])
    expect(answers.at(-1)?.body.usage.prompt_tokens).toBe(promptTokens.two)
    // Its weights took the place of those that no replica has any more.
    const after = await setsOn(second)
    expect([before.length, after.length, after.filter((one) => before.includes(one)).length]).toEqual([2, 2, 1])
    await succeed(operator, 'POST', `/v2/deployments/${id}/rollout`, { recipe: recipe(versions.two) })
  }, 180_000)

  test('ends its last replica when nobody asks, and never in the middle of a stream', async () => {
    const stream = await fetch(`${machines.server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${customer.key}`, 'Content-Type': 'application/json' },
      body: JSON.stringify(body(300, { stream: true, stream_options: { include_usage: true } })),
    })
    const text = await stream.text()
    expect(text).toContain('[DONE]')
    const events = text.split('\n').filter((line) => line.startsWith('data: {'))
    const usage = JSON.parse(events.at(-1)?.slice('data: '.length) ?? '{}').usage
    answered.push({ status: 200, body: { usage } } as Reply)
    await untilShown('no replicas', (one) => one.status === 'idle' && living(one).length === 0)
  }, 120_000)

  test('the house pays for its GPUs, sells by the token, pays the supplier, and leaves the ledger right', async () => {
    const { replicas } = await read()
    const charges = await Promise.all(replicas.map(({ rentalId }) => chargedFor(operator, { rentalId })))
    const cost = charges.reduce((sum, one) => sum + one, 0n)
    expect(cost).toBeGreaterThan(0n)
    // Also for starts that did not succeed.
    expect(replicas.some(({ readyAt }) => readyAt === null)).toBe(true)

    // $100 per million tokens.
    const tokens = answered.reduce((sum, reply) => sum + reply.body.usage.completion_tokens, 0)
    const revenue = usd('0.0001') * BigInt(tokens)
    const found = await waitFor(
      'all requests to be counted',
      async () => {
        const { models } = await succeed(operator, 'GET', `/v2/operator/economics?model=${MODEL}`)
        return models[0]?.requests === answered.length && models[0]
      },
      GIVE_UP_MS,
    )
    expect([found.outputUnits, usd(found.revenueUsd), usd(found.gpuCostUsd)]).toEqual([tokens, revenue, cost])
    expect(usd(found.marginUsd)).toBe(revenue - cost)

    // 80 % of all charges, rounded down per segment; those of the private model are not the house's.
    const unpaid = async (): Promise<bigint> =>
      usd((await succeed(supplier.call, 'GET', '/v2/supply/earnings')).unpaidUsd)
    const earned = await unpaid()
    expect(usd(found.supplierUsd) * 10n).toBeLessThanOrEqual(cost * 8n)
    expect(usd(found.supplierUsd) * 10n).toBeGreaterThan(cost * 8n - 100n * BigInt(replicas.length))
    expect(earned).toBeGreaterThan(usd(found.supplierUsd))
    const { unpaidUsd } = await succeed(supplier.call, 'GET', '/v2/supply/earnings')
    const payout = { amountUsd: unpaidUsd, reason: 'for the test' }
    await succeed(operator, 'POST', `/v2/operator/accounts/${supplier.id}/payout`, payout)
    expect(await unpaid()).toBe(0n)
    expect(await succeed(operator, 'GET', '/v2/operator/ledger/verify')).toMatchObject({ ok: true })
  }, 120_000)

  test('deleting it frees its name, and the house takes back what it has not spent', async () => {
    await succeed(operator, 'DELETE', `/v2/deployments/${id}`)
    await waitFor('it to be gone', async () => (await operator('GET', `/v2/deployments/${id}`)).status === 404)
    await waitFor('the house to take its money back', async () => (await houseBalance()) === ownMoney)
    expect(await succeed(operator, 'GET', '/v2/operator/ledger/verify')).toMatchObject({ ok: true })
  }, 60_000)
})
