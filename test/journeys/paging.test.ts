/** Paged lists: the pages add up to the whole list, each row once. */
import { afterAll, beforeAll, expect, it } from 'vitest'
import { testServer, type Call, type TestServer } from '../harness/server.ts'

let server: TestServer
let call: Call

beforeAll(async () => {
  server = await testServer()
  call = (await server.account({ usd: '1000' })).call
  const listed = await server.anonymous('POST', '/v1/marketplace', { filters: { available_only: true } })
  const machine = listed.body.instances[0] as { id: string; cluster_name: string }
  const instance = { cluster_name: machine.cluster_name, node_name: machine.id, gpu_count: 1 }
  for (let n = 0; n < 3; n += 1) {
    await call('POST', '/v2/alpha/on-demand/virtual-machine-rentals', { gpuCount: 1, region: 'mock-region' })
    await call('POST', '/v2/alpha/on-demand/storage-volumes', {
      region: 'us-central-1',
      label: `paged-${n}`,
      sizeInGb: 256,
    })
    await call('POST', '/v1/marketplace/instances/create', instance)
  }
})
afterAll(() => server.close())

it.each(['virtual-machine-rentals', 'storage-volumes'])('pages through %s by the id of the last row', async (list) => {
  const whole = (await call('GET', `/v2/alpha/on-demand/${list}`)).body as Array<{ id: number }>
  expect(whole).toHaveLength(3)
  const seen: number[] = []
  for (let before = ''; ; before = `&before=${seen.at(-1)}`) {
    const piece = await call('GET', `/v2/alpha/on-demand/${list}?limit=2${before}`)
    expect(piece.status).toBe(200)
    const rows = piece.body as Array<{ id: number }>
    if (rows.length === 0) break
    seen.push(...rows.map((row) => row.id))
  }
  expect(seen).toEqual(whole.map((row) => row.id))
})

it.each(['GET', 'POST'])(
  'pages through instances by %s with a cursor, and returns the whole list without one',
  async (method) => {
    const whole = (await call(method, '/v1/marketplace/instances')).body as { instances: Array<{ id: string }> }
    expect(whole).not.toHaveProperty('next_cursor')
    const seen: string[] = []
    for (let cursor = ''; ;) {
      const { body } = await call(method, `/v1/marketplace/instances?limit=1${cursor}`)
      seen.push(...(body.instances as Array<{ id: string }>).map((row) => row.id))
      if (body.next_cursor === undefined) break
      cursor = `&cursor=${body.next_cursor as string}`
    }
    expect(seen).toEqual(whole.instances.map((row) => row.id))
    expect((await call(method, '/v1/marketplace/instances?cursor=nonsense!')).status).toBe(400)
  },
)
