import { afterAll, beforeAll, expect, test } from 'vitest'
import { startIdentityTest, type IdentityTest } from '../../../test/harness/identity.ts'
import { readOrCreateInstallation } from './installation.ts'

let fixture: IdentityTest
beforeAll(async () => {
  fixture = await startIdentityTest()
})
afterAll(() => fixture.close())

test('servers that start at once on an empty database agree on one installation', async () => {
  const { database, clock } = fixture
  const started = await Promise.all(
    Array.from({ length: 10 }, (_, n) =>
      readOrCreateInstallation(database.db, () => ({
        id: `server${n}`,
        keyCheck: `check ${n}`,
        createdAt: clock.now(),
      })),
    ),
  )
  expect(new Set(started.map((one) => `${one.id} ${one.keyCheck}`)).size).toBe(1)
  const unused = (): never => {
    throw new Error('made again')
  }
  expect(await readOrCreateInstallation(database.db, unused)).toEqual(started[0])
})
