/** The secret key changes under running servers, and nothing that was sealed is lost. */
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import pg from 'pg'
import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { makeVault, type Vault } from '../src/base/vault.ts'
import { sealedTables } from '../src/store/platform/sealed.ts'
import { testDatabase, type TestDatabase } from './harness/database.ts'
import { succeed } from './harness/journey.ts'
import { removeFolder } from './harness/leftover.ts'
import { startServerProcess, type ServerProcess } from './lab/process.ts'
import { caller, type Call } from './harness/server.ts'
import { needs } from './needs.ts'

needs('build')

const [oldKey, newKey] = ['the old key of an installation in a test', 'the new key of an installation in a test']
const [oldVault, newVault] = [makeVault(oldKey), makeVault(newKey)]
/** Rows that only engines write. */
const BARE_METAL = JSON.stringify({ access: 'of a host' })
const running: ServerProcess[] = []
let home: string
let database: TestDatabase
let pool: pg.Pool

beforeAll(async () => {
  home = await mkdtemp(path.join(os.tmpdir(), 'berth-secret-key-'))
  database = await testDatabase()
  pool = new pg.Pool({ connectionString: database.url, max: 2 })
})
afterEach(async () => {
  for (const server of running.splice(0)) await server.killTree()
})
afterAll(async () => {
  await pool.end()
  await database.drop()
  await removeFolder(home)
})

async function start(key: string, others = ''): Promise<{ server: ServerProcess; operator: Call }> {
  const server = await startServerProcess({
    BERTH_DATA_DIR: home,
    DATABASE_URL: database.url,
    BERTH_DRIVERS: 'mock',
    BERTH_ALLOW_PRIVATE_ADDRESSES: 'true',
    BERTH_SECRET_KEY: key,
    BERTH_SECRET_KEY_OTHERS: others,
  })
  running.push(server)
  return { server, operator: caller(server.url, readFileSync(path.join(home, 'operator.key'), 'utf8').trim()) }
}

/** How many values this key opens, by column. */
async function opened(vault: Vault): Promise<Record<string, string>> {
  const counts: Record<string, string> = {}
  for (const { name, columns } of sealedTables) {
    for (const column of columns) {
      const { rows } = await pool.query<{ value: string }>(`select ${column} as value from ${name}`)
      const sealed = rows.flatMap(({ value }) => value ?? [])
      counts[`${name}.${column}`] = `${sealed.filter((one) => canOpen(vault, one)).length} of ${sealed.length}`
    }
  }
  return counts
}

function canOpen(vault: Vault, sealed: string): boolean {
  try {
    vault.open(sealed)
    return true
  } catch {
    return false
  }
}

/** By the API where it can; the rest as engines and gateways write it. */
async function fillAll(operator: Call): Promise<string> {
  const { account, key } = await succeed(operator, 'POST', '/v2/operator/accounts', {
    name: 'Sealed',
    ownerEmail: 'sealed@example.com',
  })
  const call = (method: string, at: string, body: object) =>
    succeed(caller(running[0]?.url ?? '', key as string), method, at, body)
  for (const name of ['one', 'two', 'three']) await call('PUT', `/v2/secrets/${name}`, { value: `value of ${name}` })
  await call('POST', '/v2/registry-credentials', { name: 'r', server: 'a.example', username: 'u', password: 'p' })
  const hook = await call('POST', '/v2/webhooks', { url: 'https://example.com/hook', eventTypes: ['rental.running'] })
  await call('POST', `/v2/webhooks/${hook.id as string}/rotate-secret`, {})
  const id = (account as { id: string }).id
  const seal = (text: string): string => oldVault.seal(text)
  await pool.query(
    `insert into idempotency (account_id, key, operation, body_hash, response_sealed, created_at)
    values ($1, 'k', 'o', '', $2, now())`,
    [id, seal('{}')],
  )
  await pool.query(`insert into model (name, kind, created_at) values ('m', 'chat', now())`)
  await pool.query(
    `insert into deployment (id, model, protocol, url, upstream_model, key_sealed, created_at)
     values ('d', 'm', 'chat', 'https://x.example', 'm', $1, now())`,
    [seal('key')],
  )
  await pool.query(
    `insert into host (id, driver, access, offer, created_at) values ('h', 'private-cloud', $1, '{}', now())`,
    [seal(BARE_METAL)],
  )
  await pool.query(
    `insert into request_body (request_id, at, request, response)
     select 'r' || n, now() - n * interval '1 day', $1, $2 from generate_series(1, 5) n`,
    [seal('question'), seal('answer')],
  )
  await pool.query(
    `insert into sign_in (state_hash, flow_hash, purpose, sealed, created_at, expires_at)
     values (sha256('state'), sha256('flow'), 'sign-in', $1, now(), now() + interval '10 minutes')`,
    [seal('nonce')],
  )
  return key as string
}

describe('with the key in the settings', () => {
  test('every sealed column is known', async () => {
    // Bytes are sealed with a key of their own, which is a text beside them.
    const { rows } = await pool.query<{ name: string }>(`select table_name || '.' || column_name as name
      from information_schema.columns c join pg_class on relname = table_name and not relispartition
      where table_schema = 'public' and column_name like '%sealed%' and data_type = 'text'`)
    const known = sealedTables.flatMap(({ name, columns }) => columns.map((column) => `${name}.${column}`))
    const others = ['host.access', 'request_body.request', 'request_body.response']
    expect(known.toSorted()).toEqual([...rows.map(({ name }) => name), ...others].toSorted())
  })

  test('everything is sealed again, in pages that can stop anywhere, and the old key is needed until the end', async () => {
    const before = await start(oldKey)
    await fillAll(before.operator)
    await before.server.stop()
    await expect(start(newKey)).rejects.toThrow('BERTH_SECRET_KEY_OTHERS')

    // A server that only accepts the new key works on.
    const first = await start(oldKey, newKey)
    await first.server.stop()
    const changing = await start(newKey, oldKey)
    const page = (body: object) => succeed(changing.operator, 'POST', '/v2/operator/reseal', body)
    const one = await page({ limit: 2 })
    expect(one).toMatchObject({ checked: 2, resealed: 2, unreadable: [] })
    expect(one.nextCursor).not.toBeNull()
    await changing.server.killTree()
    await expect(start(newKey)).rejects.toThrow('BERTH_SECRET_KEY_OTHERS')

    // From the start: the first page has nothing left to do.
    const again = await start(newKey, oldKey)
    let [checked, resealed, cursor] = [0, 0, undefined as string | undefined]
    for (;;) {
      const body = { limit: 2, ...(cursor === undefined ? {} : { cursor }) }
      const done = await succeed(again.operator, 'POST', '/v2/operator/reseal', body)
      checked += done.checked as number
      resealed += done.resealed as number
      if (done.nextCursor === null) break
      cursor = done.nextCursor as string
    }
    expect(resealed).toBe(checked - 2)
    const counts = await opened(newVault)
    for (const [column, count] of Object.entries(counts)) {
      const [ours, all] = count.split(' of ')
      expect(`${column} ${ours}`).toBe(`${column} ${all}`)
    }
    expect(Object.values(await opened(oldVault)).every((count) => count.startsWith('0 of '))).toBe(true)
    expect(counts).toMatchObject({
      'secret.sealed': '3 of 3',
      'webhook.old_secret_sealed': '1 of 1',
      'host.access': '1 of 1',
      'sign_in.sealed': '1 of 1',
    })
    const access = await pool.query<{ access: string }>('select access from host')
    expect(newVault.open(access.rows[0]?.access ?? '')).toBe(BARE_METAL)
    await again.server.stop()

    const after = await start(newKey)
    const { records } = await succeed(after.operator, 'GET', '/v2/operator/audit?limit=1')
    expect((records as Array<{ action: string }>)[0]?.action).toBe('secret_key.change')
    expect(await succeed(after.operator, 'POST', '/v2/operator/reseal', {})).toMatchObject({ resealed: 0 })
    await after.server.stop()
    await expect(start(oldKey)).rejects.toThrow('BERTH_SECRET_KEY')
  })

  test('a value that no key opens is reported and kept, and an invalid cursor is rejected', async () => {
    const sealed = makeVault('a key that nobody has any more, for a test').seal('x')
    await pool.query('update host set access = $1', [sealed])
    const { operator } = await start(newKey, oldKey)
    const cursor = Buffer.from('["host"]').toString('base64url')
    expect(await succeed(operator, 'POST', '/v2/operator/reseal', { cursor })).toMatchObject({ unreadable: ['host h'] })
    expect((await pool.query('select access from host')).rows).toEqual([{ access: sealed }])
    for (const bad of ['["nothing"]', '["rental_log","x"]', '[1]', '{'])
      expect(
        (await operator('POST', '/v2/operator/reseal', { cursor: Buffer.from(bad).toString('base64url') })).body.reason,
      ).toBe('bad_cursor')
  })
})

describe('with the key in the data folder', () => {
  test('berth serve --new-secret-key replaces it, and the older one goes when everything is sealed again', async () => {
    const dir = path.join(home, 'alone')
    const file = (name: string): string => path.join(dir, name)
    const begin = async (...args: string[]) => {
      const server = await startServerProcess({ BERTH_DATA_DIR: dir }, { args })
      running.push(server)
      return { server, operator: caller(server.url, readFileSync(file('operator.key'), 'utf8').trim()) }
    }
    const first = await begin()
    const before = readFileSync(file('secret.key'), 'utf8')
    await first.server.stop()
    const second = await begin('--new-secret-key')
    expect(readFileSync(file('secret.key.old'), 'utf8')).toBe(before)
    const after = readFileSync(file('secret.key'), 'utf8')
    expect(after).not.toBe(before)
    await second.server.stop()
    await expect(begin('--new-secret-key')).rejects.toThrow('berth operator reseal')
    const third = await begin()
    for (let cursor: string | undefined; ;) {
      const body = cursor === undefined ? {} : { cursor }
      const page = await succeed(third.operator, 'POST', '/v2/operator/reseal', body)
      if (page.nextCursor === null) break
      cursor = page.nextCursor as string
    }
    expect(existsSync(file('secret.key.old'))).toBe(true)
    await third.server.stop()
    await begin()
    expect(existsSync(file('secret.key.old'))).toBe(false)
    expect(readFileSync(file('secret.key'), 'utf8')).toBe(after)
  })
})
