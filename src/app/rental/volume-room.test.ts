/** An order that does not fit is told what the number means: a region, one machine, or the emptiest of a region. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openTestLedger, type TestLedger } from '../../../test/harness/ledger.ts'
import type { Driver } from '../../drivers/driver.ts'
import { transact } from '../../store/platform/database.ts'
import { refuseWithoutRoom } from './volume.ts'

let ledger: TestLedger
beforeAll(async () => {
  ledger = await openTestLedger()
})
afterAll(() => ledger.close())

test.each([
  { isLocal: false, atMachineOf: undefined, says: 'Only 50 GB of storage is free in eu-north-2' },
  { isLocal: true, atMachineOf: undefined, says: 'the one with the most room in eu-north-2 has only 50 GB free' },
  { isLocal: true, atMachineOf: 'host' as const, says: 'The machine of the volume has only 50 GB free' },
])('says "$says" (issue 31, 17)', async ({ isLocal, atMachineOf, says }) => {
  const driver = { id: 'host', volumes: { isLocal } } as Driver
  const room = { askedAt: ledger.app.clock.now(), roomGb: new Map([['host' as const, 50]]), atMachineOf }
  const refused = await transact(ledger.database, (tx) =>
    refuseWithoutRoom(tx, driver, { region: 'eu-north-2', sizeGb: 256, room }),
  )
  expect([refused?.reason, refused?.message]).toEqual(['no_storage_capacity', expect.stringContaining(says)])
})
