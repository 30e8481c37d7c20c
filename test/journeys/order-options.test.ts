/** Options of orders: what is stored and shown, what is refused, and that secrets never come back. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { startJourney, succeed, type Journey } from '../harness/journey.ts'
import { tablesWith } from '../harness/planted.ts'
import type { Call } from '../harness/server.ts'

const PLANTED = 'planted-secret-value-7431'
const rentals = '/v2/alpha/on-demand'

let journey: Journey
let ada: { id: string; key: string; call: Call }
let eve: { id: string; key: string; call: Call }
beforeAll(async () => {
  journey = await startJourney()
  ada = await journey.account({ usd: '1000' })
  eve = await journey.account({ usd: '1000' })
  await succeed(ada.call, 'PUT', '/v2/secrets/HF_TOKEN', { value: PLANTED })
})
afterAll(() => journey.close())

const rent = (more: object, call = ada.call) =>
  call('POST', '/v1/marketplace/instances/create', {
    cluster_name: 'mock-fra',
    node_name: 'mock-fra-h100pcie-01',
    gpu_count: 1,
    ...more,
  })
const refusalOf = async (more: object) => {
  const { status, body } = await rent(more)
  return { status, param: body.param, reason: body.reason, message: body.message }
}
const detailOf = (name: string) => succeed(ada.call, 'GET', `/v2/rentals/${name}`)

test('a container keeps its options, with references in place of secrets', async () => {
  const reply = await rent({
    env: { MODEL: 'tiny', HF_TOKEN: '{{ secrets.HF_TOKEN }}' },
    files: [
      { path: '/etc/app/config.json', content: '{}' },
      { path: '/root/.token', content: '{{ secrets.HF_TOKEN }}' },
    ],
    command: ['/bin/serve'],
    args: ['--port', '8888'],
    onStart: 'echo started',
    diskGb: 50,
    shmGb: 2,
    ports: [22_222, '8888/http', { port: 9000, protocol: 'http', access: 'public', healthPath: '/health' }],
    restart: { policy: 'on-failure' },
    idle: { afterMinutes: 30 },
    stopAt: '2100-01-01T00:00:00Z',
    terminateAt: '2100-01-02T00:00:00Z',
    maxCostUsd: '20',
    metadata: { team: 'vision' },
  })
  expect(reply.status).toBe(200)
  const detail = await detailOf(reply.body.instance_id)
  expect(detail).toMatchObject({
    resources: { storageGb: 50 },
    metadata: { team: 'vision' },
    stopAt: '2100-01-01T00:00:00.000Z',
    autoTerminateAt: '2100-01-02T00:00:00.000Z',
    spendingLimitUsd: '20.000000000',
    idle: { afterMinutes: 30, gpuUtilBelowPercent: 5, action: 'stop', graceSeconds: 300 },
  })
  expect(detail.workload).toEqual({
    templateId: null,
    env: { MODEL: 'tiny', HF_TOKEN: '{{ secrets.HF_TOKEN }}' },
    files: [
      { path: '/etc/app/config.json', content: '{}', mode: '0644' },
      { path: '/root/.token', content: '{{ secrets.HF_TOKEN }}', mode: '0600' },
    ],
    command: ['/bin/serve'],
    args: ['--port', '8888'],
    onStart: 'echo started',
    userData: null,
    diskGb: 50,
    shmGb: 2,
    ports: [
      { port: 22_222, protocol: 'tcp', access: 'public', healthPath: null },
      { port: 8888, protocol: 'http', access: 'private', healthPath: null },
      { port: 9000, protocol: 'http', access: 'public', healthPath: '/health' },
    ],
    volumes: [],
    registryCredentialId: null,
    restart: { policy: 'on-failure', maxRetries: 3 },
  })
})

test('options of the wrong kind, of missing things and out of range name their field', async () => {
  expect(await refusalOf({ userData: '#cloud-config' })).toMatchObject({ status: 400, param: 'userData' })
  expect(await refusalOf({ env: { A: '{{ secrets.ABSENT }}' } })).toMatchObject({ status: 400, param: 'env.A' })
  expect(await refusalOf({ registryCredentialId: 'reg_absent' })).toMatchObject({
    status: 400,
    param: 'registryCredentialId',
  })
  expect(await refusalOf({ diskGb: 60_000 })).toMatchObject({ status: 400, param: 'diskGb' })
  expect(await refusalOf({ stopAt: '2001-01-01T00:00:00Z' })).toMatchObject({ status: 400, param: 'stopAt' })
  expect((await refusalOf({ env: { '1A': 'x' } })).status).toBeGreaterThanOrEqual(400)
  expect((await refusalOf({ files: [{ path: '/a/../etc/passwd', content: '' }] })).status).toBe(400)
  const vm = await ada.call('POST', `${rentals}/virtual-machine-rentals`, {
    gpuCount: 1,
    region: 'mock-region',
    command: ['/bin/true'],
  })
  expect(vm).toMatchObject({ status: 400, body: { reason: 'option_not_supported', issues: [{ path: ['command'] }] } })
})

test('an order with a field that its kind lacks is rejected, whoever owns what the field names (issue 31, 6)', async () => {
  const refused = { status: 400, body: { reason: 'option_not_supported' } }
  const storageVolume = { isNew: false, id: 1 }
  const vm = { gpuCount: 1, region: 'mock-region' }
  for (const more of [{ storageVolume }, { cudaVersion: 'cuda12.8' }])
    expect(await ada.call('POST', `${rentals}/virtual-machine-rentals`, { ...vm, ...more })).toMatchObject(refused)
  const metal = { gpuCount: 8, networkType: 'infiniband' }
  for (const more of [{ customPorts: [80] }, { ports: [80] }, { volumes: [{ volumeId: 1, path: '/data' }] }])
    expect(await ada.call('POST', `${rentals}/bare-metal-rentals`, { ...metal, ...more })).toMatchObject(refused)
  for (const more of [{ storageVolume }, { cudaVersion: 'cuda12.8' }, { customPorts: [80] }])
    expect(await rent(more)).toMatchObject(refused)
})

test("references to another account's things are rejected as if they did not exist (issue 31, 6)", async () => {
  const mallory = await journey.account({ usd: '1000' })
  const volume = { region: 'us-central-1', label: 'hers', sizeInGb: 256 }
  const { storageVolumeId } = await succeed(mallory.call, 'POST', `${rentals}/storage-volumes`, volume)
  const login = { name: 'hers', server: 'registry.example.com', username: 'eve', password: 'a password' }
  const { id: registryCredentialId } = await succeed(mallory.call, 'POST', '/v2/registry-credentials', login)
  const { id: templateId } = await succeed(mallory.call, 'POST', '/v2/templates', { name: 'Hers' })
  await succeed(mallory.call, 'PUT', '/v2/secrets/HERS', { value: 'a secret' })
  const image = { name: 'registry.example.com/x' }
  const references = [
    { volumes: [{ volumeId: storageVolumeId, path: '/data' }] },
    { registryCredentialId, image },
    { templateId: `${templateId}@1` },
    { env: { A: '{{ secrets.HERS }}' } },
    { secrets: ['HERS'] },
  ]
  for (const more of references) expect((await refusalOf(more)).reason).toMatch(/_not_found$/)
  const metal = { gpuCount: 8, networkType: 'infiniband', storageVolume: { isNew: false, id: storageVolumeId } }
  const refused = await ada.call('POST', `${rentals}/bare-metal-rentals`, metal)
  expect(refused).toMatchObject({ status: 400, body: { reason: 'volume_not_found' } })
})

test('a virtual machine takes user data, environment and ports', async () => {
  const order = { gpuCount: 1, region: 'mock-region', userData: '#cloud-config\n', env: { A: 'b' }, ports: ['80/http'] }
  const { id } = await succeed(ada.call, 'POST', `${rentals}/virtual-machine-rentals`, order)
  const { workload } = await succeed(ada.call, 'GET', `${rentals}/rentals/${id}`)
  expect(workload).toMatchObject({ userData: '#cloud-config\n', env: { A: 'b' }, ports: [{ port: 80 }] })
})

test('a secret that a rental refers to cannot be deleted; an unused one can', async () => {
  const refused = await ada.call('DELETE', '/v2/secrets/HF_TOKEN')
  expect(refused.body).toMatchObject({ reason: 'secret_in_use' })
  await succeed(ada.call, 'PUT', '/v2/secrets/UNUSED', { value: 'x' })
  await succeed(ada.call, 'DELETE', '/v2/secrets/UNUSED')
  const { secrets } = await succeed(ada.call, 'GET', '/v2/secrets')
  expect(secrets).toEqual([expect.objectContaining({ name: 'HF_TOKEN', rentals: [expect.any(Number)] })])
})

test('secrets belong to one account', async () => {
  expect((await succeed(eve.call, 'GET', '/v2/secrets')).secrets).toEqual([])
  const reply = await rent({ env: { A: '{{ secrets.HF_TOKEN }}' } }, eve.call)
  expect(reply).toMatchObject({ status: 400, body: { param: 'env.A' } })
})

test('no answer and no row of the database contains the value of a secret', async () => {
  await journey.pass()
  for (const path of ['/v2/secrets', '/v1/marketplace/instances', '/v2/events', `${rentals}/virtual-machine-rentals`]) {
    expect(JSON.stringify(await succeed(ada.call, 'GET', path))).not.toContain(PLANTED)
  }
  expect(await tablesWith(journey.app.database.db, PLANTED)).toEqual([])
})
