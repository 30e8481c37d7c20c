/** The comparison with a provider. Its findings are tested by journeys and crash tests. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openTestLedger, type TestLedger } from '../../../test/harness/ledger.ts'
import { mockDriver } from '../../drivers/mock/driver.ts'
import { memoryWorld } from '../../drivers/mock/world.ts'
import type { Driver } from '../../drivers/driver.ts'
import { compareDriver } from './driver-audit.ts'

let ledger: TestLedger
beforeAll(async () => {
  ledger = await openTestLedger()
})
afterAll(() => ledger.close())

test('a slow list of machines takes no time from the list of volumes', async () => {
  const mock = mockDriver({ world: memoryWorld(), clock: ledger.clock })
  const calls: AbortController[] = []
  const newSignal = (): AbortSignal => {
    const call = new AbortController()
    calls.push(call)
    return call.signal
  }
  const driver: Driver = {
    ...mock,
    list: async (prefix, signal) => {
      const listed = await mock.list(prefix, signal)
      // Just in time.
      for (const call of calls) call.abort()
      return listed
    },
  }
  const { machines, volumes } = await compareDriver(ledger.app, driver, newSignal)
  expect({ machines, volumes, calls: calls.length }).toEqual({ machines: 0, volumes: 0, calls: 2 })
})
