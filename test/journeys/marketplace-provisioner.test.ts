/** What automated provisioners rely on: unchanged metadata, the cheapest machine, and an accurate list. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { limits } from '../../src/base/limits.ts'
import { LIST_LAG_MS, checkLedgerAndEngines, startJourney, succeed, type Journey } from '../harness/journey.ts'
import type { Call } from '../harness/server.ts'

const instances = '/v1/marketplace/instances'
const cheapest = '/v2/marketplace/instances/create-cheapest'
const node = { cluster_name: 'mock-iad', node_name: 'mock-iad-h100-01', gpu_count: 1 }

let journey: Journey
let ada: { id: string; call: Call }
beforeAll(async () => {
  journey = await startJourney()
  ada = await journey.account({ usd: '1000' })
})
afterAll(() => journey.close())

interface Instance {
  readonly id: string
  readonly userMetadata: unknown
  readonly instance: { readonly id: string; readonly status: string }
}
const list = async (): Promise<Instance[]> => (await succeed(ada.call, 'GET', instances)).instances
const find = async (id: string): Promise<Instance | undefined> => (await list()).find((one) => one.id === id)
const detail = (id: string) => succeed(ada.call, 'GET', `/v2/rentals/${id}`)
const historyNames = async (): Promise<string[]> =>
  (await succeed(ada.call, 'GET', `${instances}/history`)).instance_history.map(
    (one: { instance_name: string }) => one.instance_name,
  )

test('stores metadata with an instance and returns it unchanged, next to the label', async () => {
  const userMetadata = { job: { id: 17, tags: ['a', 'ä'] }, empty: null }
  const { instance_id: id } = await succeed(ada.call, 'POST', `${instances}/create`, {
    ...node,
    userMetadata,
    label: 'mine',
  })
  expect((await find(id))?.userMetadata).toEqual({ label: 'mine', ...userMetadata })
  expect(await detail(id)).toMatchObject({ metadata: userMetadata, label: 'mine' })
})

test('metadata is an object of up to 4 KB', async () => {
  const create = (userMetadata: unknown) => ada.call('POST', `${instances}/create`, { ...node, userMetadata })
  // {"k":"…"} adds eight characters to the text, and é has two bytes.
  const text = (bytes: number): string => 'é'.repeat(bytes / 2 - 4)
  expect((await create({ k: text(limits.userMetadataBytes) })).status).toBe(200)
  const long = await create({ k: text(limits.userMetadataBytes + 2) })
  expect([long.status, long.body.param]).toEqual([400, 'userMetadata'])
  for (const wrong of ['text', [], 7]) {
    const reply = await create(wrong)
    expect([reply.status, reply.body.param], JSON.stringify(wrong)).toEqual([422, 'userMetadata'])
  }
})

test('takes the launch of SkyPilot as it sends it, with its key, and answers in its spelling (issue 31, 12)', async () => {
  const publicKey = `${(await generateKey()).trim()} launched-by-sky`
  const launch = {
    gpuModel: 'H100',
    gpuCount: '1',
    userMetadata: { skypilot: { cluster_name: 'sky-1', launch_time: '1790000000' } },
    publicKey,
    auth: { ssh_user: 'ubuntu', ssh_public_key: '~/.sky/clients/x/ssh/sky-key.pub' },
  }
  const reply = await succeed(ada.call, 'POST', cheapest, launch)
  expect(reply.instanceName).toBe(reply.instance_name)
  expect((await find(reply.instanceName))?.userMetadata).toEqual(launch.userMetadata)
  const row = await journey.app.database.db
    .selectFrom('rental')
    .select('spec')
    .where('name', '=', reply.instanceName)
    .executeTakeFirstOrThrow()
  expect(row.spec.sshKeys.filter((key) => key.endsWith('launched-by-sky'))).toEqual([publicKey])
  const bad = await ada.call('POST', cheapest, { ...launch, publicKey: 'not a key' })
  expect(bad).toMatchObject({ status: 400, body: { reason: 'bad_ssh_key' } })
  const none = await ada.call('POST', cheapest, { ...launch, gpuCount: 'one' })
  expect(none.status).toBe(400)
})

test('an instance leaves the list when its end is accepted, and enters the history when its machine is gone', async () => {
  const { instance_id: id } = await succeed(ada.call, 'POST', `${instances}/create`, node)
  await journey.pass()
  await journey.advance(LIST_LAG_MS)
  expect(await find(id)).toMatchObject({ instance: { status: 'online' } })
  // No loop runs on its own here: the machine still exists.
  await succeed(ada.call, 'POST', `${instances}/terminate`, { id })
  expect(await find(id)).toBeUndefined()
  expect(await historyNames()).not.toContain(id)
  expect(await detail(id)).toMatchObject({ state: 'Terminating' })
  const { rentals } = await succeed(journey.operator, 'GET', `/v2/operator/rentals?accountId=${ada.id}`)
  expect(rentals).toContainEqual(expect.objectContaining({ name: id, status: 'Terminating' }))
  await journey.pass()
  expect(await historyNames()).toContain(id)
})

test('rents the cheapest machine with enough free GPUs, then the next, until there is none', async () => {
  const { instances: machines } = await succeed(journey.anonymous, 'POST', '/v1/marketplace', {
    filters: { gpu_model: '3090', available_only: true },
  })
  interface Listed {
    readonly id: string
    readonly gpus_total: number
    readonly gpus_reserved: number
    readonly pricing: { readonly price: { readonly amount: number } }
  }
  const fitting = (machines as Listed[])
    .filter((machine) => machine.gpus_total - machine.gpus_reserved >= 2)
    .sort((a, b) => a.pricing.price.amount - b.pricing.price.amount || (a.id < b.id ? -1 : 1))
  expect(fitting.length).toBeGreaterThan(1)
  const order = { gpuModel: 'rtx-3090', gpuCount: 2, userMetadata: { job: 'nightly' } }
  const places: string[] = []
  for (const machine of fitting) {
    for (let free = machine.gpus_total - machine.gpus_reserved; free >= 2; free -= 2) {
      const created = await succeed(ada.call, 'POST', cheapest, order)
      expect(created).toEqual({
        status: 'success',
        instance_name: created.instance_id,
        instance_id: created.instance_id,
        instanceName: created.instance_id,
      })
      const made = await find(created.instance_id)
      expect(made?.userMetadata).toEqual({ job: 'nightly' })
      expect(made?.instance.id).toBe(machine.id)
      places.push(created.instance_id)
    }
  }
  const full = await ada.call('POST', cheapest, order)
  expect([full.status, full.body.code, full.body.reason]).toEqual([400, 'BAD_REQUEST', 'no_capacity'])
  const poor = await journey.account({ usd: '0.01' })
  const broke = await poor.call('POST', cheapest, { gpuModel: 'h100', gpuCount: 1 })
  expect([broke.status, broke.body.reason]).toEqual([403, 'insufficient_balance'])
  const keyed = () =>
    ada.call('POST', cheapest, { gpuModel: 'h100', gpuCount: 1 }, { 'Idempotency-Key': 'cheapest-once' })
  expect((await keyed()).body).toEqual((await keyed()).body)
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})

test('concurrent orders never share a GPU', async () => {
  const before = (await list()).length
  const orders = Array.from({ length: 6 }, () => ada.call('POST', cheapest, { gpuModel: 'b200', gpuCount: 4 }))
  const replies = await Promise.all(orders)
  const made = replies.filter((reply) => reply.status === 200).length
  // Two machines with eight GPUs each.
  expect([made, (await list()).length - before]).toEqual([4, 4])
  expect(replies.filter((reply) => reply.body.reason === 'no_capacity')).toHaveLength(2)
  expect(await checkLedgerAndEngines(journey)).toEqual([])
})

test('accepts a count as a numeric string; text is a type error, a number out of range is not', async () => {
  const statusOf = async (gpu_count: unknown): Promise<number> =>
    (await ada.call('POST', `${instances}/create`, { ...node, gpu_count })).status
  expect(await statusOf('1')).toBe(200)
  for (const mistyped of ['x', '', '1.5', '-1', null, true])
    expect(await statusOf(mistyped), String(mistyped)).toBe(422)
  for (const outOfRange of ['0', '65', 0, 65]) expect(await statusOf(outOfRange), String(outOfRange)).toBe(400)
})

async function generateKey(): Promise<string> {
  const { utils } = (await import('ssh2')).default
  return utils.generateKeyPairSync('ed25519').public
}
