/** Operator lists: searched and filtered on the server, with the names of accounts. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { succeed } from '../../../test/harness/journey.ts'
import { testServer, testSshKey, type TestServer } from '../../../test/harness/server.ts'
import { waitFor } from '../../../test/harness/wait.ts'

let server: TestServer

beforeAll(async () => {
  server = await testServer()
})
afterAll(() => server.close())

const list = (path: string) => succeed(server.operator, 'GET', `/v2/operator/${path}`)

test('searches accounts by name and id, and filters suppliers and suspended accounts', async () => {
  const supplier = await server.account({ platformFeePercentage: 10 })
  const { id } = await server.account()
  await succeed(server.operator, 'PATCH', `/v2/operator/accounts/${id}`, { suspended: true, reason: 'test' })
  const idsOf = async (query: string): Promise<string[]> =>
    (await list(`accounts?${query}`)).accounts.map((one: { id: string }) => one.id)
  expect(await idsOf(`q=${id.toUpperCase()}`)).toEqual([id])
  expect(await idsOf('q=dEMo')).toEqual(['demo'])
  expect(await idsOf('q=%25')).toEqual([])
  expect(await idsOf('suspended=true')).toEqual([id])
  expect(await idsOf('supplier=true')).toContain(supplier.id)
  expect(await idsOf('supplier=true')).not.toContain(id)
  expect(await idsOf('suspended=false&limit=1000')).not.toContain(id)
})

test('searches and filters machines page by page', async () => {
  const fleet = await waitFor('the fleet', async () => {
    const { machines } = await list('machines?q=RTX4090&offering=marketplace&status=node_ready')
    return (
      machines.length > 1 && (machines as Array<{ id: string; supplierId: string | null; supplierName: string | null }>)
    )
  })
  expect(fleet.every((machine) => machine.id.includes('rtx4090'))).toBe(true)
  const first = await list('machines?q=rtx4090&offering=marketplace&status=node_ready&limit=1')
  expect(first.machines).toEqual(fleet.slice(0, 1))
  const next = await list(
    `machines?q=rtx4090&offering=marketplace&status=node_ready&limit=1&cursor=${first.nextCursor}`,
  )
  expect(next.machines).toEqual(fleet.slice(1, 2))
  expect((await list('machines?q=rtx4090&offering=bare-metal')).machines).toEqual([])
  const supplied = fleet.find(({ supplierId }) => supplierId !== null)
  expect(supplied?.supplierName).toBe((await list(`accounts/${supplied?.supplierId}`)).name)
})

test('names the account of rentals, volumes, events and audit records', async () => {
  const { id, call } = await server.account({ usd: '100' })
  await succeed(call, 'POST', '/v2/ssh-keys', { name: 'laptop', publicKey: testSshKey })
  await succeed(call, 'POST', '/v2/alpha/on-demand/virtual-machine-rentals', { gpuCount: 1, region: 'mock-region' })
  const { name } = await list(`accounts/${id}`)
  const named = { accountId: id, accountName: name }
  const { rentals } = await list(`rentals?accountId=${id}`)
  expect(rentals).toMatchObject([named])
  expect((await list(`rentals?q=${rentals[0].name.toUpperCase()}`)).rentals).toMatchObject([{ name: rentals[0].name }])
  expect((await list('rentals?q=no-such-name')).rentals).toEqual([])
  expect((await list(`events?accountId=${id}`)).events[0]).toMatchObject(named)
  expect((await list(`audit?accountId=${id}`)).records[0]).toMatchObject(named)
  const volume = { region: 'mock-region', label: 'scratch', sizeInGb: 256 }
  await succeed(call, 'POST', '/v2/alpha/on-demand/storage-volumes', volume)
  expect((await list(`volumes?accountId=${id}`)).volumes).toMatchObject([named])
})
