/**
 * Models on the fleet: real hosts with Docker daemons, a chat engine in containers, the gateway in front. From zero to
 * three replicas and back, through the loss of a host and a rollout, with every request answered and every second paid.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { usd } from '../../src/base/money.ts'
import { CHAT_ENGINE_PORT, pushChatEngine } from '../harness/chat-engine-image.ts'
import { whyNoDockerLab } from '../harness/docker-lab.ts'
import { chargedFor, succeed } from '../harness/journey.ts'
import { startMachines, type ContainerHost, type Machines } from '../harness/machines.ts'
import type { LabImage } from '../harness/registry-lab.ts'
import type { Call, Reply } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'

const why = whyNoDockerLab()
const skipped = why === undefined ? '' : ` (skipped: ${why})`
/** Enough for a busy machine. */
const GIVE_UP_MS = 90_000

interface Replica {
  readonly id: string
  readonly state: string
  readonly version: number
  readonly node: string
  readonly rentalId: number
  readonly detail: string | null
  readonly readyAt: string | null
  readonly endedAt: string | null
}

interface Deployment {
  readonly id: string
  readonly model: string
  readonly status: string
  readonly message: string | null
  readonly rollout: string
  readonly version: number
  readonly readyVersion: number | null
  readonly replicas: readonly Replica[]
}

describe.skipIf(why !== undefined)(`models on rented GPUs${skipped}`, () => {
  let machines: Machines
  let supplier: { id: string; key: string; call: Call }
  let first: ContainerHost
  let image: LabImage
  let owner: { id: string; key: string; call: Call }
  let stranger: { id: string; key: string; call: Call }
  let model: string
  let id: string

  beforeAll(async () => {
    machines = await startMachines({ hosts: 0 })
    supplier = await machines.server.account({ platformFeePercentage: 20 })
    const join = async (): Promise<ContainerHost> => {
      const { token } = await succeed(supplier.call, 'POST', '/v2/supply/join-tokens', {})
      return machines.addHost({ token, gpus: 'rtx4090:4' })
    }
    first = await join()
    await join()
    image = await pushChatEngine(machines.registry)
    owner = await machines.server.account({ usd: '100', sshKey: false })
    stranger = await machines.server.account({ usd: '10' })
  }, 180_000)
  afterAll(() => machines.close())

  const recipe = (version: string): object => ({
    name: 'custom',
    image,
    port: CHAT_ENGINE_PORT,
    concurrency: 2,
    env: { VERSION: version },
  })

  const read = (): Promise<Deployment> => succeed(owner.call, 'GET', `/v2/deployments/${id}`)

  const names = async (by: { call: Call }): Promise<string[]> =>
    (await succeed(by.call, 'GET', '/v1/models')).data.map((one: { id: string }) => one.id)

  const ask = (by: { call: Call }, prompt: string): Promise<Reply> =>
    by.call('POST', '/v1/chat/completions', { model, messages: [{ role: 'user', content: prompt }] })

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

  test('a request at zero starts exactly one replica, waits for it, and is answered', async () => {
    const made: Deployment = await succeed(owner.call, 'POST', '/v2/deployments', {
      name: 'assistant',
      recipe: recipe('one'),
      gpus: { model: 'RTX 4090', count: 1, maxUsdPerGpuHour: '0.50' },
      replicas: { min: 0, max: 3 },
      scaling: { targetOutstanding: 2, upDelaySeconds: 1, downDelaySeconds: 2, idleSeconds: 4 },
      drainSeconds: 20,
      hourlyBudgetUsd: '2.00',
    })
    id = made.id
    model = made.model
    expect(made).toMatchObject({ status: 'idle', replicas: [], model: `${owner.id}/assistant` })
    // Gateways learn of a model shortly after its creation; until then it is not found.
    await waitFor('the model to be listed', async () => (await names(owner)).includes(model))
    const answers = await Promise.all([ask(owner, 'hi'), ask(owner, 'hello')])
    expect(answers.map(({ status, body }) => [status, body.choices?.[0].message.content])).toEqual([
      [200, 'one'],
      [200, 'one'],
    ])
    expect((await read()).replicas).toHaveLength(1)
  }, 120_000)

  test('other accounts neither see the model nor can use it, until it is shared with them', async () => {
    expect(await names(owner)).toContain(model)
    expect(await names(stranger)).not.toContain(model)
    expect(await ask(stranger, 'hi')).toMatchObject({ status: 400, body: { reason: 'model_not_found' } })
    expect(await stranger.call('GET', `/v2/deployments/${id}`)).toMatchObject({ status: 404 })
    await succeed(owner.call, 'PATCH', `/v2/deployments/${id}`, { sharedWith: [stranger.id] })
    await waitFor('the model to be shared', async () => (await names(stranger)).includes(model))
    expect((await ask(stranger, 'hi')).status).toBe(200)
    await succeed(owner.call, 'PATCH', `/v2/deployments/${id}`, { sharedWith: [] })
    await waitFor('the model to be private again', async () => !(await names(stranger)).includes(model))
  }, 60_000)

  /** So many clients, each with one request after another. Returns the answers when stopped. */
  function load(clients: number): { stop(): Promise<Reply[]> } {
    const answers: Reply[] = []
    let isOver = false
    const client = async (): Promise<void> => {
      while (!isOver) answers.push(await ask(owner, 'hold on'))
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

  test('grows to three replicas under load, and replaces those of a lost host without failing a request', async () => {
    const clients = load(6)
    const grown = await untilShown('three replicas', (one) => ready(one).length === 3)
    const lost = ready(grown).filter(({ node }) => node === first.id)
    expect(lost.length).toBeGreaterThan(0)
    await first.docker.cutPower()
    await first.stopAgent('kill')
    await untilShown(
      'three replicas elsewhere',
      (one) => ready(one).filter(({ node }) => node !== first.id).length === 3,
    )
    expect(failed(await clients.stop())).toEqual([])
  }, 180_000)

  test('rolls out a new version under load: every request is answered, by the old version or the new', async () => {
    const clients = load(4)
    await succeed(owner.call, 'POST', `/v2/deployments/${id}/rollout`, { recipe: recipe('two') })
    await untilShown(
      'version 2 alone',
      (one) => one.readyVersion === 2 && ready(one).every(({ version }) => version === 2),
    )
    const answers = await clients.stop()
    expect(failed(answers)).toEqual([])
    const versions = new Set(answers.map(({ body }) => body.choices[0].message.content))
    expect(versions).toEqual(new Set(['one', 'two']))
  }, 180_000)

  test('a version that cannot start stops with its last output, and the old one serves on', async () => {
    await succeed(owner.call, 'POST', `/v2/deployments/${id}/rollout`, { recipe: recipe('broken') })
    const stop = load(1)
    await untilShown('the output of a failed replica', ({ replicas }) =>
      replicas.some(({ version, state, detail }) => {
        return version === 3 && state === 'ended' && detail?.includes('cannot load the model') === true
      }),
    )
    const answers = await stop.stop()
    expect(failed(answers)).toEqual([])
    expect(answers.at(-1)?.body.choices[0].message.content).toBe('two')
    await succeed(owner.call, 'POST', `/v2/deployments/${id}/rollout`, { recipe: recipe('two') })
  }, 180_000)

  test('shrinks to one and to zero when the load ends, and a long stream is not cut', async () => {
    const stream = await fetch(`${machines.server.url}/v1/chat/completions`, {
      method: 'POST',
      headers: { Authorization: `Bearer ${owner.key}`, 'Content-Type': 'application/json' },
      body: JSON.stringify({ model, stream: true, messages: [{ role: 'user', content: 'long' }] }),
    })
    expect(await stream.text()).toContain('[DONE]')
    await untilShown(
      'no replicas',
      ({ replicas, status }) => status === 'idle' && replicas.every(({ state }) => state === 'ended'),
    )
  }, 120_000)

  test('charges each replica from its first answer, pays the supplier, and leaves the ledger right', async () => {
    const { replicas } = await read()
    const charges = await Promise.all(replicas.map(({ rentalId }) => chargedFor(owner.call, { rentalId })))
    const total = charges.reduce((sum, one) => sum + one, 0n)
    expect(total).toBeGreaterThan(0n)
    const unready = charges.filter((_, n) => replicas[n]?.readyAt === null)
    expect(unready.length).toBeGreaterThan(0)
    expect(unready.every((charge) => charge === 0n)).toBe(true)
    // 80 % of the charges, rounded down per segment.
    const earned = usd((await succeed(supplier.call, 'GET', '/v2/supply/earnings')).unpaidUsd)
    expect(earned * 10n).toBeLessThanOrEqual(total * 8n)
    expect(earned * 10n).toBeGreaterThan(total * 8n - 100n * BigInt(replicas.length))
    expect(await succeed(machines.server.operator, 'GET', '/v2/operator/ledger/verify')).toMatchObject({ ok: true })
  }, 60_000)

  test('a model for everyone is paid by the house, sold by the token, and pays the supplier', async () => {
    const { operator } = machines.server
    const unpaid = async (): Promise<bigint> =>
      usd((await succeed(supplier.call, 'GET', '/v2/supply/earnings')).unpaidUsd)
    const before = await unpaid()
    const houseBalance = async (): Promise<string> =>
      (await succeed(operator, 'GET', '/v2/customer/balance')).balanceUsd
    const ownMoney = await houseBalance()
    const order = { model: 'house/chat', forEveryone: true, recipe: recipe('house'), gpus: { count: 1 } }
    expect(await operator('POST', '/v2/deployments', order)).toMatchObject({ body: { reason: 'house_budget_missing' } })
    const refused = await owner.call('POST', '/v2/deployments', { ...order, hourlyBudgetUsd: '1.00' })
    expect(refused).toMatchObject({ status: 403, body: { reason: 'missing_scope' } })
    const made = await succeed(operator, 'POST', '/v2/deployments', { ...order, hourlyBudgetUsd: '1.00' })
    await succeed(operator, 'PATCH', '/v2/operator/models?name=house/chat', { outputUsdPerMillion: '100' })
    const priced = (): Promise<Reply> => stranger.call('GET', '/v1/models/house/chat')
    await waitFor('the price to be known', async () => (await priced()).body.output_price === 100)
    model = 'house/chat'
    expect((await ask(stranger, 'hi')).body.choices[0].message.content).toBe('house')
    const { replicas }: Deployment = await succeed(operator, 'GET', `/v2/deployments/${made.id}`)
    await succeed(operator, 'DELETE', `/v2/deployments/${made.id}`)
    await waitFor('it to be gone', async () => (await operator('GET', `/v2/deployments/${made.id}`)).status === 404)
    // Twenty tokens.
    const spent = async (): Promise<string> => (await succeed(stranger.call, 'GET', '/v2/customer/balance')).balanceUsd
    await waitFor('the tokens to be charged', async () => usd(await spent()) === usd('9.998'), GIVE_UP_MS)
    const earned = (await unpaid()) - before
    expect(earned).toBeGreaterThan(0n)
    await waitFor('the house to take back what it has not spent', async () => (await houseBalance()) === ownMoney)
    expect(await succeed(operator, 'GET', '/v2/operator/ledger/verify')).toMatchObject({ ok: true })
    // Its economics are those of the ledger, also after it was deleted.
    const charges = await Promise.all(replicas.map(({ rentalId }) => chargedFor(operator, { rentalId })))
    const cost = charges.reduce((sum, one) => sum + one, 0n)
    const economics = await waitFor(
      'the request to be counted',
      async () => {
        const found = await succeed(operator, 'GET', '/v2/operator/economics?model=house/chat')
        return found.models[0]?.requests === 1 && found.models[0]
      },
      GIVE_UP_MS,
    )
    expect(economics).toMatchObject({ deploymentId: null, outputUnits: 20, advice: { isMeasured: false } })
    expect(usd(economics.revenueUsd)).toBe(usd('0.002'))
    expect(usd(economics.gpuCostUsd)).toBe(cost)
    expect(usd(economics.supplierUsd)).toBe(earned)
    expect(usd(economics.marginUsd)).toBe(usd('0.002') - cost)
  }, 120_000)

  test('deleting it ends what is left of it and frees its name', async () => {
    await succeed(owner.call, 'DELETE', `/v2/deployments/${id}`)
    await waitFor('it to be gone', async () => (await owner.call('GET', `/v2/deployments/${id}`)).status === 404)
    model = `${owner.id}/assistant`
    expect((await ask(owner, 'hi')).body).toMatchObject({ reason: 'model_not_found' })
  }, 60_000)
})
