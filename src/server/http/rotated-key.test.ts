/** A rotated key has two secrets until the old one ends, on every way into a server. */
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { openTestAccount, startIdentityTest, type IdentityTest } from '../../../test/harness/identity.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { rotateApiKey } from '../../app/account/api-key.ts'
import { addMs, HOUR_MS } from '../../base/instant.ts'
import { openDatabase, transact } from '../../store/platform/database.ts'
import { makeAuthenticator, type Authenticator } from './authenticate.ts'
import type { Credentials } from './credentials.ts'

let fixture: IdentityTest
beforeAll(async () => {
  fixture = await startIdentityTest()
})
afterAll(() => fixture.close())

const open: Array<{ close(): Promise<void> }> = []
afterEach(async () => {
  for (const one of open.splice(0)) await one.close()
})

/** A separate server: its own pool, cache and notification connection. */
async function startServer(): Promise<Authenticator> {
  const log = { warn: () => {} }
  const database = openDatabase({ url: fixture.url, clock: fixture.clock, name: 'server', log })
  const server = makeAuthenticator({ database, clock: fixture.clock, log })
  open.push(server, database)
  await waitFor('it to listen', () => server.isCaching())
  return server
}

const bearer = (text: string): Credentials => ({ kind: 'authorization', header: `Bearer ${text}` })
/** Far longer than a notification takes on a busy machine. */
const within = <T>(check: () => Promise<T>) => vi.waitFor(check, { timeout: 10_000, interval: 5 })

describe('a rotated key', () => {
  const rotate = async (actor: Parameters<typeof rotateApiKey>[1], id: string, graceHours: number) => {
    const rotated = await transact(fixture.database, (tx) => rotateApiKey(tx, actor, id, graceHours))
    if (!rotated.ok) throw new Error(rotated.message)
    return rotated.value.text
  }
  const invalid = { ok: false, reason: 'invalid_key' }

  test('has two secrets on every server until the old one ends, on the fast path and in workers too', async () => {
    const [server, other] = [await startServer(), await startServer()]
    const { keyText: oldText, actor } = await openTestAccount(fixture, { scopes: ['inference', 'keys'] })
    expect(await other.authenticate(bearer(oldText))).toMatchObject({ ok: true })
    const text = await rotate(actor, actor.keyId, 1)
    const until = addMs(fixture.clock.now(), HOUR_MS)
    server.forget(actor.keyId)
    for (const one of [server, other]) {
      await within(async () => expect(await one.authenticate(bearer(text))).toMatchObject({ ok: true, value: actor }))
      expect(await one.authenticate(bearer(oldText))).toMatchObject({ ok: true, value: { keyId: actor.keyId } })
    }
    const [identifyNew, identifyOld] = [server.identifier(), server.identifier()]
    const keyIdBy = (identify: typeof identifyNew, one: string) => identify(`Bearer ${one}`)?.keyId
    expect([keyIdBy(identifyNew, text), keyIdBy(identifyOld, oldText)]).toEqual([actor.keyId, actor.keyId])
    expect(await server.inferenceCaller(`Bearer ${oldText}`)).toMatchObject({ expiresAt: until })
    expect(await server.inferenceCaller(`Bearer ${text}`)).toMatchObject({ expiresAt: null })
    fixture.clock.advance(HOUR_MS)
    // Connections that have proved the old secret before end with it.
    expect([keyIdBy(identifyNew, text), keyIdBy(identifyOld, oldText)]).toEqual([actor.keyId, undefined])
    for (const one of [server, other]) {
      expect(await one.authenticate(bearer(oldText))).toMatchObject(invalid)
      expect(await one.authenticate(bearer(text))).toMatchObject({ ok: true })
    }
  })

  test('without a grace period, and at its second rotation, loses the old secret at once', async () => {
    const server = await startServer()
    const { keyText: first, actor } = await openTestAccount(fixture, { scopes: ['keys'] })
    const second = await rotate(actor, actor.keyId, 24)
    const third = await rotate(actor, actor.keyId, 24)
    await within(async () => expect(await server.authenticate(bearer(third))).toMatchObject({ ok: true }))
    expect(await server.authenticate(bearer(second))).toMatchObject({ ok: true })
    expect(await server.authenticate(bearer(first))).toMatchObject(invalid)
    const fourth = await rotate(actor, actor.keyId, 0)
    await within(async () => expect(await server.authenticate(bearer(fourth))).toMatchObject({ ok: true }))
    expect(await server.authenticate(bearer(third))).toMatchObject(invalid)
  })
})
