/** What a template of someone else gets from the account that rents with it. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startJourney, succeed, type Journey } from '../harness/journey.ts'
import type { Call } from '../harness/server.ts'

const NODE = { cluster_name: 'mock-iad', node_name: 'mock-iad-h100-01', gpu_count: 1 }
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

const spy = {
  name: 'Spy',
  visibility: 'link',
  image: { name: 'team/spy' },
  env: { A: '{{ secrets.HF_TOKEN }}' },
  onStart: 'send {{secrets.HF_TOKEN}} {{ secrets.WANDB }}',
}

test("another account's template uses only the secrets that the order names (issue 31, 2)", async () => {
  for (const name of ['HF_TOKEN', 'WANDB']) await succeed(ada.call, 'PUT', `/v2/secrets/${name}`, { value: 'a secret' })
  const { id } = await succeed(eve.call, 'POST', '/v2/templates', spy)
  const templateId = `${id}@1`
  expect(await succeed(ada.call, 'GET', `/v2/templates/${id}`)).toMatchObject({ secrets: ['HF_TOKEN', 'WANDB'] })
  const refused = { status: 400, body: { reason: 'template_secrets_not_named', param: 'secrets' } }
  expect(await rent(ada.call, { templateId })).toMatchObject(refused)
  expect(await rent(ada.call, { templateId, secrets: ['HF_TOKEN'] })).toMatchObject(refused)
  const vm = { gpuCount: 1, region: 'mock-region', templateId }
  expect(await ada.call('POST', `${rentals}/virtual-machine-rentals`, vm)).toMatchObject({
    status: 400,
    body: { reason: 'template_secrets_not_named' },
  })
  const cheapest = await ada.call('POST', '/v2/marketplace/instances/create-cheapest', {
    gpuModel: 'h100-pcie',
    gpuCount: 1,
    templateId,
  })
  expect(cheapest).toMatchObject({ status: 400, body: { reason: 'template_secrets_not_named' } })
  // The order's own text is that of the customer.
  await detailOf(ada.call, { templateId, env: { MINE: '{{ secrets.WANDB }}' }, secrets: ['HF_TOKEN'] })
  // What the order replaces is not asked for.
  await detailOf(ada.call, { templateId, env: { A: 'b' }, onStart: 'true' })
  expect(await rent(ada.call, { templateId, secrets: ['HF_TOKEN', 'WANDB', 'ABSENT'] })).toMatchObject({
    status: 400,
    body: { reason: 'secret_not_found', param: 'secrets.2' },
  })
})

test("the operator's templates use only named secrets, the account's own all that they refer to (issue 31, 2)", async () => {
  await succeed(ada.call, 'PUT', '/v2/secrets/HF_TOKEN', { value: 'a secret' })
  await succeed(ada.call, 'PUT', '/v2/secrets/WANDB', { value: 'a secret' })
  const { visibility: _, ...body } = spy
  const shared = await succeed(journey.operator, 'POST', '/v2/templates', { ...body, forEveryone: true })
  expect(await rent(ada.call, { templateId: shared.id })).toMatchObject({
    body: { reason: 'template_secrets_not_named' },
  })
  await detailOf(ada.call, { templateId: shared.id, secrets: ['HF_TOKEN', 'WANDB'] })
  const own = await succeed(ada.call, 'POST', '/v2/templates', spy)
  await detailOf(ada.call, { templateId: own.id })
})

test("an order of another account's template names the version that it gets (issue 31, 2)", async () => {
  const { id } = await succeed(eve.call, 'POST', '/v2/templates', {
    name: 'Notebook',
    visibility: 'link',
    image: { name: 'team/notebook' },
  })
  expect(await rent(ada.call, { templateId: id })).toMatchObject({
    status: 400,
    body: { reason: 'template_version_missing', param: 'templateId' },
  })
  await succeed(eve.call, 'PATCH', `/v2/templates/${id}`, { image: { name: 'team/other' } })
  const detail = await detailOf(ada.call, { templateId: `${id}@1` })
  expect(detail).toMatchObject({ image: { name: 'team/notebook' }, workload: { templateId: `${id}@1` } })
})

test('a registry login goes with images of its registry only (issue 31, 2)', async () => {
  const login = { name: 'team', server: 'registry.example.com', username: 'ada', password: 'a password' }
  const { id: registryCredentialId } = await succeed(ada.call, 'POST', '/v2/registry-credentials', login)
  const refused = { status: 400, body: { reason: 'registry_credential_mismatch', param: 'registryCredentialId' } }
  const elsewhere = ['registry.example.org/x', 'registry.example.com.evil.org/x', 'registry.example.com:444/x', 'x']
  for (const name of elsewhere)
    expect(await rent(ada.call, { registryCredentialId, image: { name } })).toMatchObject(refused)
  expect(await rent(ada.call, { registryCredentialId })).toMatchObject(refused)
  const stranger = { name: 'Elsewhere', visibility: 'link', image: { name: 'registry.example.org/x' } }
  const { id } = await succeed(eve.call, 'POST', '/v2/templates', stranger)
  expect(await rent(ada.call, { registryCredentialId, templateId: `${id}@1` })).toMatchObject(refused)
  await detailOf(ada.call, { registryCredentialId, image: { name: 'registry.example.com/team/x', tag: '1' } })
})
