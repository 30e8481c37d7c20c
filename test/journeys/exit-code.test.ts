/** How a container ends when its program does. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { joinHost, type JoinedHost } from '../harness/joined-host.ts'
import { succeed } from '../harness/journey.ts'
import { testServer, type Call, type TestServer } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'

let server: TestServer
let host: JoinedHost
let call: Call

beforeAll(async () => {
  server = await testServer({ env: { BERTH_DRIVERS: 'host' } })
  call = (await server.account({ usd: '100' })).call
  host = await joinHost(server, 9)
})
afterAll(async () => {
  await host.close()
  await server.close()
})

async function runUntil(exitCode: number) {
  const order = { cluster_name: 'lab', node_name: host.id, gpu_count: 1, image: { name: 'debian' } }
  const { instance_name: name } = await succeed(call, 'POST', '/v1/marketplace/instances/create', order)
  await waitFor('it to run', async () => (await succeed(call, 'GET', `/v2/rentals/${name}`)).state === 'Running')
  const [workload] = host.workloads()
  host.end(workload?.id ?? '', exitCode)
  const rental = await waitFor('its end', async () => {
    const shown = await succeed(call, 'GET', `/v2/rentals/${name}`)
    return ['Failed', 'Terminated'].includes(shown.state) && shown
  })
  const { instances } = await succeed(call, 'GET', '/v1/marketplace/instances')
  const listed = (instances as Array<{ id: string; instance: { status: string } }>).find(({ id }) => id === name)
  return { rental, listed: listed?.instance.status }
}

test('promise 48: exit code 0 is success, and the code is shown', async () => {
  const { rental, listed } = await runUntil(0)
  expect(rental).toMatchObject({ state: 'Terminated', statusReason: 'completed', exitCode: 0 })
  expect(rental.events.map(({ type }: { type: string }) => type)).not.toContain('rental.failed')
  expect(listed).not.toBe('failed')
})

test('promise 48: another exit code is a failure, and the code is shown', async () => {
  const { rental, listed } = await runUntil(3)
  expect(rental).toMatchObject({ state: 'Failed', statusReason: 'process_exited', exitCode: 3 })
  expect(listed).toBe('failed')
  const { rentals } = await succeed(call, 'GET', '/v2/rentals')
  expect(rentals).toMatchObject([{ id: rental.id, exitCode: 3 }])
})
