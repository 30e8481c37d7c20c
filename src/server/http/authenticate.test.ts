/** No database call in the steady state, and a revoked key stops working on every server within a second. */
import { crc32 } from 'node:zlib'
import { sql, type KyselyPlugin } from 'kysely'
import { afterAll, afterEach, beforeAll, describe, expect, test, vi } from 'vitest'
import { openTestAccount, startIdentityTest, type IdentityTest } from '../../../test/harness/identity.ts'
import { waitFor } from '../../../test/harness/wait.ts'
import { changeMember, removeMember } from '../../app/account/account.ts'
import { createApiKey, revokeApiKey, type ApiKeyInput } from '../../app/account/api-key.ts'
import { changeAccount } from '../../app/account/operator-account.ts'
import { makeApiKey } from '../../base/api-key.ts'
import { base62 } from '../../base/id.ts'
import { addMs, formatInstant, HOUR_MS } from '../../base/instant.ts'
import { insertMember } from '../../store/account/account.ts'
import { findApiKey } from '../../store/account/api-key.ts'
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
interface Started {
  readonly server: Authenticator
  readonly lookUps: () => number
  /**
   * How many lookups a stall of this machine may have added: without notifications each request queries the database,
   * and the cache is dropped with the connection.
   */
  readonly excused: () => number
  readonly writes: () => number
  /** How often the notification connection was lost. */
  readonly losses: () => number
}

async function startServer(): Promise<Started> {
  let [lookUps, writes, losses, unheard] = [0, 0, 0, 0]
  const log = { warn: () => (losses += 1) }
  const database = openDatabase({ url: fixture.url, clock: fixture.clock, name: 'server', log })
  const counted = database.db.withPlugin({
    transformQuery: ({ node }) => {
      if (node.kind === 'SelectQueryNode') lookUps += 1
      else writes += 1
      return node
    },
    transformResult: async ({ result }) => result,
  })
  const authenticator = makeAuthenticator({
    database: { ...database, db: counted },
    clock: fixture.clock,
    log,
  })
  const server: Authenticator = {
    ...authenticator,
    authenticate: (credentials) => {
      if (!authenticator.isCaching()) unheard += 1
      return authenticator.authenticate(credentials)
    },
  }
  open.push(server, database)
  await waitFor('it to listen', () => server.isCaching())
  return {
    server,
    lookUps: () => lookUps,
    excused: () => unheard + losses,
    writes: () => writes,
    losses: () => losses,
  }
}
const sent = (header: string): Credentials => ({ kind: 'authorization', header })
const bearer = (text: string): Credentials => sent(`Bearer ${text}`)
/** Far shorter than cached keys stay valid, so only a notification is this quick; far longer than a busy machine needs. */
const SOON_MS = 10_000
const within = <T>(check: () => Promise<T>) => vi.waitFor(check, { timeout: SOON_MS, interval: 5 })
const plain: ApiKeyInput = {
  name: 'A key',
  scopes: ['inference'],
  expiresAt: null,
  allowedModels: null,
  allowedOrigins: [],
  monthlyLimit: null,
  totalLimit: null,
  requestsPerMinute: null,
  tokensPerMinute: null,
}

describe('an invalid key', () => {
  test('has a sentence for each mistake, which repeats nothing of the secret', async () => {
    const { server, lookUps } = await startServer()
    const { keyText } = await openTestAccount(fixture)
    const typo = keyText.slice(0, -1) + (keyText.endsWith('A') ? 'B' : 'A')
    const cases: Array<[Credentials, string]> = [
      [{ kind: 'none' }, 'missing_key'],
      [sent(''), 'missing_key'],
      [sent(keyText), 'not_bearer'],
      [sent('Basic dXNlcjpwYXNz'), 'not_bearer'],
      [sent('Bearer'), 'not_bearer'],
      [bearer(`${keyText} ${keyText}`), 'not_bearer'],
      [bearer('sk-something-else'), 'malformed_key'],
      [bearer(keyText.slice(0, -10)), 'malformed_key'],
      [bearer(typo), 'mistyped_key'],
      [{ kind: 'key', text: `Bearer ${keyText}` }, 'malformed_key'],
      [{ kind: 'key', text: typo }, 'mistyped_key'],
    ]
    for (const [credentials, reason] of cases) {
      const answer = await server.authenticate(credentials)
      expect(answer).toMatchObject({ ok: false, kind: 'unauthenticated', reason })
      const texts = Object.values(credentials as Record<string, string>).flatMap((text) => text.split(' '))
      for (const word of texts.filter((text) => /[-_\d]/.test(text))) {
        expect(JSON.stringify(answer)).not.toContain(word)
      }
    }
    expect(lookUps()).toBe(0)
  })

  test('gets the same answer for an unknown id and a wrong secret; looks unknown ids up once', async () => {
    const { server, lookUps, excused } = await startServer()
    const { keyText, actor } = await openTestAccount(fixture)
    const stranger = bearer(makeApiKey().text)
    const refusal = { kind: 'unauthenticated', reason: 'invalid_key' }
    expect(await server.authenticate(stranger)).toMatchObject(refusal)
    expect(await server.authenticate(stranger)).toMatchObject(refusal)
    expect(lookUps()).toBeGreaterThan(0)
    expect(lookUps()).toBeLessThanOrEqual(1 + excused())
    // Its checksum fits; only the secret is wrong.
    expect(await server.authenticate(bearer(forge(actor.keyId)))).toEqual(await server.authenticate(stranger))
    expect(await server.authenticate(bearer(keyText))).toMatchObject({ ok: true })
  })
})

describe('a valid key', () => {
  test('is looked up once', async () => {
    const { server, lookUps, excused } = await startServer()
    const { keyText, actor } = await openTestAccount(fixture)
    const first = await Promise.all(Array.from({ length: 20 }, () => server.authenticate(bearer(keyText))))
    for (let n = 0; n < 200; n += 1) await server.authenticate(sent(`bearer  ${keyText} `))
    expect(lookUps()).toBeGreaterThan(0)
    expect(lookUps()).toBeLessThanOrEqual(1 + excused())
    expect(first[19]).toMatchObject({ ok: true, value: { ...actor, keyName: 'First key', requestsPerMinute: null } })
  })

  test('expires by the clock, without a lookup', async () => {
    const { server, lookUps, excused } = await startServer()
    const { actor } = await openTestAccount(fixture)
    const expiresAt = addMs(fixture.clock.now(), HOUR_MS)
    const created = await transact(fixture.database, (tx) => createApiKey(tx, actor, { ...plain, expiresAt }))
    if (!created.ok) throw new Error(created.message)
    const header = bearer(created.value.text)
    expect(await server.authenticate(header)).toMatchObject({ ok: true })
    fixture.clock.advance(HOUR_MS - 1)
    expect(await server.authenticate(header)).toMatchObject({ ok: true })
    fixture.clock.advance(1)
    expect(await server.authenticate(header)).toMatchObject({
      kind: 'unauthenticated',
      reason: 'expired_key',
      message: expect.stringContaining(formatInstant(expiresAt)) as string,
    })
    expect(lookUps()).toBeGreaterThan(0)
    expect(lookUps()).toBeLessThanOrEqual(1 + excused())
  })

  test('has its last use written in one statement, and never set back', async () => {
    const { server, writes } = await startServer()
    const accounts = [await openTestAccount(fixture), await openTestAccount(fixture)]
    for (const { keyText } of accounts) await server.authenticate(bearer(keyText))
    const before = writes()
    await server.flushLastUsed()
    await server.flushLastUsed()
    expect(writes() - before).toBe(1)
    for (const { accountId, actor } of accounts) {
      // The server also writes on its own and may have written the first of them.
      await waitFor('the use to be written', async () => {
        const key = await findApiKey(fixture.database.db, accountId, actor.keyId)
        return key?.last_used_at === fixture.clock.now()
      })
    }
  })
})

describe('revoked rights', () => {
  test('rejects a revoked key on all servers within a second', async () => {
    const servers = [await startServer(), await startServer()]
    const { actor } = await openTestAccount(fixture)
    const created = await transact(fixture.database, (tx) => createApiKey(tx, actor, plain))
    if (!created.ok) throw new Error(created.message)
    const header = bearer(created.value.text)
    for (const { server } of servers) expect(await server.authenticate(header)).toMatchObject({ ok: true })
    await transact(fixture.database, (tx) => revokeApiKey(tx, actor, created.value.key.public_id))
    for (const { server } of servers) {
      await within(async () => expect(await server.authenticate(header)).toMatchObject({ reason: 'invalid_key' }))
    }
  })

  test('does not cache a key that is revoked during its lookup', async () => {
    const database = openDatabase({ url: fixture.url, clock: fixture.clock })
    const held = holdFirstResult()
    const server = makeAuthenticator({
      database: { ...database, db: database.db.withPlugin(held.plugin) },
      clock: fixture.clock,
      log: { warn: () => {} },
    })
    open.push(server, database)
    const { actor, keyText } = await openTestAccount(fixture)
    await waitFor('it to listen', () => server.isCaching())
    const early = server.authenticate(bearer(keyText))
    await waitFor('the first lookup', () => held.results() === 1)
    await transact(fixture.database, (tx) => revokeApiKey(tx, actor, actor.keyId))
    // Requests share the first lookup until the notification arrives; the next request then starts a new lookup.
    await within(async () => {
      // Without notifications, each of them would start its own lookup.
      if (server.isCaching()) void server.authenticate(bearer(keyText))
      expect(held.results()).toBe(2)
    })
    held.release()
    expect(await early).toMatchObject({ ok: true })
    expect(await server.authenticate(bearer(keyText))).toMatchObject({ reason: 'invalid_key' })
  })

  test('answers 403 for a suspended account, until the suspension is lifted', async () => {
    const { server } = await startServer()
    const operator = await openTestAccount(fixture, { scopes: ['operator'] })
    const { keyText, accountId } = await openTestAccount(fixture)
    expect(await server.authenticate(bearer(keyText))).toMatchObject({ ok: true })
    const suspend = (suspended: boolean) =>
      transact(fixture.database, (tx) =>
        changeAccount(tx, operator.actor, { accountId, suspended, reason: 'because of a test' }),
      )
    await suspend(true)
    await within(async () =>
      expect(await server.authenticate(bearer(keyText))).toMatchObject({
        kind: 'forbidden',
        reason: 'account_suspended',
      }),
    )
    await suspend(false)
    await within(async () => expect(await server.authenticate(bearer(keyText))).toMatchObject({ ok: true }))
  })

  test('lets a member demoted to viewer only read, and rejects a removed one', async () => {
    const { server } = await startServer()
    const { actor, keyText, accountId } = await openTestAccount(fixture)
    const boss = await openTestAccount(fixture)
    const bossKey = await transact(fixture.database, async (tx) => {
      await insertMember(tx, { accountId, personId: boss.actor.personId, role: 'owner', name: null })
      // An account must keep an owner with a key, so the other owner could not be removed.
      return createApiKey(tx, actor, { ...plain, scopes: ['keys'], memberId: boss.actor.personId })
    })
    expect(bossKey).toMatchObject({ ok: true })
    const owner = { ...boss.actor, accountId }
    expect(await server.authenticate(bearer(keyText))).toMatchObject({ value: { role: 'owner' } })
    const { personId } = actor
    const changed = await transact(fixture.database, (tx) => changeMember(tx, owner, { personId, role: 'viewer' }))
    expect(changed).toMatchObject({ ok: true, value: { role: 'viewer' } })
    await within(async () =>
      expect(await server.authenticate(bearer(keyText))).toMatchObject({
        value: { role: 'viewer', scopes: ['compute:read', 'billing:read'] },
      }),
    )
    expect(await transact(fixture.database, (tx) => removeMember(tx, owner, personId))).toMatchObject({ ok: true })
    await within(async () =>
      expect(await server.authenticate(bearer(keyText))).toMatchObject({ reason: 'invalid_key' }),
    )
  })
})

describe('a lost notification connection', () => {
  const endListeners = () =>
    fixture.database.pool.query(
      `select pg_terminate_backend(pid) from pg_stat_activity
       where application_name = 'berth:notifications' and datname = current_database()`,
    )

  test('stops caching until it is back, so that revocations in between count', async () => {
    const { server, lookUps, losses } = await startServer()
    const { actor, keyText } = await openTestAccount(fixture)
    await server.authenticate(bearer(keyText))
    await endListeners()
    await waitFor('the loss to be reported', () => losses() >= 1)
    // It may be back at any moment; until then each request queries the database.
    await transact(fixture.database, (tx) => revokeApiKey(tx, actor, actor.keyId))
    expect(await server.authenticate(bearer(keyText))).toMatchObject({ reason: 'invalid_key' })
    expect(lookUps()).toBeGreaterThan(1)
    await waitFor('it to listen again', () => server.isCaching())
  })

  test('reconnects and caches again, as often as needed', async () => {
    const { server, lookUps, excused, losses } = await startServer()
    const { keyText } = await openTestAccount(fixture)
    for (let n = 1; n <= 3; n += 1) {
      await waitFor('it to listen', () => server.isCaching())
      const before = losses()
      await endListeners()
      await waitFor('the loss to be reported', () => losses() > before)
    }
    await waitFor('it to listen again', () => server.isCaching())
    const before = lookUps() - excused()
    for (let n = 0; n < 50; n += 1) await server.authenticate(bearer(keyText))
    expect(lookUps() - excused()).toBeLessThanOrEqual(before + 1)
  })

  test('a server that has just started waits for a slow database, because it knows no key yet', async () => {
    const { keyText } = await openTestAccount(fixture)
    const database = openDatabase({ url: fixture.url, clock: fixture.clock })
    open.push(database)
    const outcome = await transact(fixture.database, async ({ db }) => {
      await sql`lock table api_key in access exclusive mode`.execute(db)
      const server = makeAuthenticator({ database, clock: fixture.clock, log: { warn: () => {} } })
      open.push(server)
      // Longer than a server waits that can use what it knew before.
      const answer = server.authenticate(bearer(keyText))
      await sql`select pg_sleep(2.5)`.execute(db)
      return { asked: answer }
    })
    expect(await outcome.asked).toMatchObject({ ok: true })
  })

  test('reports a known key as unavailable without a database, never as unknown', async () => {
    const database = openDatabase({ url: fixture.url, clock: fixture.clock })
    const server = makeAuthenticator({ database, clock: fixture.clock, log: { warn: () => {} } })
    const { keyText } = await openTestAccount(fixture)
    await database.pool.end()
    expect(await server.authenticate(bearer(keyText))).toMatchObject({ kind: 'unavailable' })
    // A session is not reported as ended either.
    const session: Credentials = { kind: 'session', token: 'any', isHostCookie: false }
    expect(await server.authenticate(session)).toMatchObject({ kind: 'unavailable' })
    await server.close()
  })
})

/** The database answers at once, but the first answer is held: a lookup that has read its row but not finished. */
function holdFirstResult(): { plugin: KyselyPlugin; results: () => number; release: () => void } {
  let results = 0
  let release = (): void => {}
  const released = new Promise<void>((resolve) => (release = resolve))
  const plugin: KyselyPlugin = {
    transformQuery: ({ node }) => node,
    transformResult: async ({ result }) => {
      results += 1
      if (results === 1) await released
      return result
    },
  }
  return { plugin, results: () => results, release: () => release() }
}

/** A well-formed key with the given public id and a secret of its own. */
function forge(publicId: string): string {
  const secret = base62(Buffer.alloc(32, 7))
  const sum = Buffer.alloc(4)
  sum.writeUInt32BE(crc32(`${publicId}${secret}`))
  return `bk_${publicId}_${secret}${base62(sum).padStart(6, '0')}`
}
