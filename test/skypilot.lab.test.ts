/** The provisioner of SkyPilot, unmodified, over real HTTP. */
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { checkLedgerAndEngines, succeed } from './harness/journey.ts'
import { testServer, type TestServer } from './harness/server.ts'
import { waitFor } from './harness/wait.ts'
import { whyNoPython } from './lab/python-packages.ts'
import { installSkypilot, type Skypilot } from './lab/skypilot.ts'
import { needs } from './needs.ts'

needs('python')

const why = whyNoPython()
/** The first run installs it. */
const START_MS = 10 * 60_000

describe.skipIf(why !== undefined)(`SkyPilot${why === undefined ? '' : ` (skipped: ${why})`}`, () => {
  let server: TestServer
  let sky: Skypilot
  let customer: Awaited<ReturnType<TestServer['account']>>

  beforeAll(async () => {
    server = await testServer()
    customer = await server.account({ usd: '100' })
    sky = await installSkypilot(customer.key)
  }, START_MS)
  afterAll(async () => {
    await sky.close()
    await server.close()
  })

  test('launches an instance, finds it again and ends it (issue 31, 12)', async () => {
    const script = path.resolve('test/clients/skypilot.py')
    const seen = (await sky.run(script, [server.url, 'sky-1', '1x-H100-24-271'])) as Record<string, unknown>
    const [name, ...others] = Object.keys(seen['up'] as object)
    expect([typeof name, others]).toEqual(['string', []])
    expect(seen).toEqual({
      first: { head: name, created: [name] },
      up: { [String(name)]: 'UP' },
      host: expect.stringMatching(/./),
      port: expect.any(Number),
      // It runs already.
      second: { head: name, created: [] },
      down: {},
    })
    const call = server.as(customer.key)
    await waitFor(
      'its machine to be gone',
      async () => (await succeed(call, 'GET', `/v2/rentals/${name}`)).state === 'Terminated',
    )
    expect(await checkLedgerAndEngines(server)).toEqual([])
  })
})
