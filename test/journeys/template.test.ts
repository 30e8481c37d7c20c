/** Templates: what an order takes from one, who sees it, and how a rental becomes an order or a template again. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startJourney, succeed, type Journey } from '../harness/journey.ts'
import type { Call } from '../harness/server.ts'

const NODE = { cluster_name: 'mock-iad', node_name: 'mock-iad-h100-01', gpu_count: 1 }
const OTHER_NODE = { cluster_name: 'mock-fra', node_name: 'mock-fra-h100pcie-01' }
const rentals = '/v2/alpha/on-demand'

let journey: Journey
let ada: { id: string; key: string; call: Call }
let eve: { id: string; key: string; call: Call }
beforeAll(async () => {
  journey = await startJourney()
  ada = await journey.account({ usd: '1000' })
  eve = await journey.account({ usd: '1000' })
})
afterAll(() => journey.close())

const rent = (call: Call, order: object) => call('POST', '/v1/marketplace/instances/create', { ...NODE, ...order })
const detailOf = async (call: Call, order: object) => {
  const reply = await rent(call, order)
  expect(reply).toMatchObject({ status: 200 })
  return succeed(call, 'GET', `/v2/rentals/${reply.body.instance_id}`)
}
const notebook = {
  name: 'Notebook',
  image: { name: 'team/notebook', tag: '3' },
  args: ['start'],
  env: { MODE: 'lab', LEVEL: 'info' },
  ports: ['8888/http'],
  diskGb: 40,
}

test('every account has the starter templates of the operator', async () => {
  const { templates } = await succeed(ada.call, 'GET', '/v2/templates')
  const ids = templates.map(({ id }: { id: string }) => id)
  expect(ids).toEqual(expect.arrayContaining(['tpl_base', 'tpl_jupyter', 'tpl_pytorch', 'tpl_vllm', 'tpl_comfyui']))
  expect(templates.every(({ owner }: { owner: string }) => owner === 'operator')).toBe(true)
})

test('an order takes what it does not say itself, merges variables, and names the version', async () => {
  const { id } = await succeed(ada.call, 'POST', '/v2/templates', notebook)
  const detail = await detailOf(ada.call, { templateId: id, env: { LEVEL: 'debug' }, diskGb: 60 })
  expect(detail).toMatchObject({
    image: { name: 'team/notebook', tag: '3' },
    workload: {
      templateId: `${id}@1`,
      env: { MODE: 'lab', LEVEL: 'debug' },
      args: ['start'],
      diskGb: 60,
      ports: [{ port: 8888, protocol: 'http', access: 'private' }],
    },
  })
})

test('a change makes a version; rentals and orders by version keep the old one', async () => {
  const { id } = await succeed(ada.call, 'POST', '/v2/templates', notebook)
  const before = await detailOf(ada.call, { templateId: id })
  const changed = await succeed(ada.call, 'PATCH', `/v2/templates/${id}`, {
    image: { name: 'team/notebook', tag: '4' },
  })
  expect(changed).toMatchObject({ version: 2, name: 'Notebook', args: ['start'], image: { tag: '4' } })
  expect((await detailOf(ada.call, { templateId: id })).image.tag).toBe('4')
  expect((await detailOf(ada.call, { templateId: `${id}@1` })).image.tag).toBe('3')
  expect((await succeed(ada.call, 'GET', `/v2/rentals/${before.name}`)).image.tag).toBe('3')
})

test('a change removes the fields that are null, and keeps those it does not name', async () => {
  const { id } = await succeed(ada.call, 'POST', '/v2/templates', notebook)
  const change = { image: null, args: null, ports: null, summary: 'No image' }
  const changed = await succeed(ada.call, 'PATCH', `/v2/templates/${id}`, change)
  expect(changed).toMatchObject({ version: 2, name: 'Notebook', summary: 'No image', env: notebook.env })
  for (const name of ['image', 'args', 'ports']) expect(changed).not.toHaveProperty(name)
  expect(await succeed(ada.call, 'GET', `/v2/templates/${id}`)).toEqual(changed)
  expect(await succeed(ada.call, 'GET', `/v2/templates/${id}@1`)).toMatchObject({ args: notebook.args })
  const nameless = await ada.call('PATCH', `/v2/templates/${id}`, { name: null })
  expect([nameless.status, nameless.body.issues[0].path]).toEqual([400, ['name']])
})

test('a private template exists for its account only; one shared by link for everyone who has its ID', async () => {
  const { id } = await succeed(ada.call, 'POST', '/v2/templates', notebook)
  expect(await eve.call('GET', `/v2/templates/${id}`)).toMatchObject({ status: 404 })
  expect(await rent(eve.call, { templateId: id })).toMatchObject({ status: 400, body: { param: 'templateId' } })
  await succeed(ada.call, 'PATCH', `/v2/templates/${id}`, { visibility: 'link' })
  expect(await succeed(eve.call, 'GET', `/v2/templates/${id}`)).toMatchObject({ owner: 'other', visibility: 'link' })
  expect((await detailOf(eve.call, { templateId: `${id}@2` })).image.name).toBe('team/notebook')
  expect(await eve.call('PATCH', `/v2/templates/${id}`, { name: 'Mine' })).toMatchObject({ status: 404 })
  expect(await eve.call('DELETE', `/v2/templates/${id}`)).toMatchObject({ status: 404 })
  const { templates } = await succeed(eve.call, 'GET', '/v2/templates')
  expect(templates.map((one: { id: string }) => one.id)).not.toContain(id)
})

test("only the operator makes or changes the operator's templates", async () => {
  const body = { name: 'For all', forEveryone: true }
  expect(await ada.call('POST', '/v2/templates', body)).toMatchObject({
    status: 403,
    body: { reason: 'missing_scope' },
  })
  expect(await ada.call('DELETE', '/v2/templates/tpl_vllm')).toMatchObject({ status: 403 })
  const made = await succeed(journey.operator, 'POST', '/v2/templates', body)
  expect(await succeed(ada.call, 'GET', `/v2/templates/${made.id}`)).toMatchObject({ owner: 'operator' })
})

test('a template rejects GPUs that are too small, and orders without its required variables', async () => {
  const large = await succeed(ada.call, 'POST', '/v2/templates', { name: 'Large', minVramGb: 200 })
  expect(await rent(ada.call, { templateId: large.id })).toMatchObject({ status: 400, body: { param: 'templateId' } })
  const params = [{ name: 'TOKEN', required: true }]
  const needy = await succeed(ada.call, 'POST', '/v2/templates', { name: 'Needy', params })
  expect(await rent(ada.call, { templateId: needy.id })).toMatchObject({ status: 400, body: { param: 'env.TOKEN' } })
  expect(await rent(ada.call, { templateId: needy.id, env: { TOKEN: 'x' } })).toMatchObject({ status: 200 })
})

test('a rental gives the order that makes another like it, and a template', async () => {
  const first = await detailOf(ada.call, { ...notebook, ...OTHER_NODE, label: 'first', onStart: 'echo hi' })
  const again = await succeed(ada.call, 'GET', `/v2/rentals/${first.name}/order`)
  expect(again.order).toMatchObject({
    kind: 'container',
    machineId: OTHER_NODE.node_name,
    gpuCount: 1,
    label: 'first',
    onStart: 'echo hi',
  })
  const second = await succeed(ada.call, 'POST', '/v2/rentals', again.order)
  expect(second.workload).toEqual(first.workload)
  const template = await succeed(ada.call, 'POST', '/v2/templates', { name: 'From a rental', ...again.template })
  const third = await detailOf(ada.call, { templateId: template.id })
  expect({ ...third.workload, templateId: null }).toEqual(first.workload)
  const order = { gpuCount: 1, region: 'mock-region', userData: '#cloud-config\n' }
  const { id } = await succeed(ada.call, 'POST', `${rentals}/virtual-machine-rentals`, order)
  expect(await succeed(ada.call, 'GET', `/v2/rentals/${id}/order`)).toMatchObject({
    order: { kind: 'virtual-machine', ...order },
  })
})
