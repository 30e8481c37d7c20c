/** Each key once per account, parsed strictly, within the quota. */
import { randomBytes } from 'node:crypto'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { openTestAccount, startIdentityTest, type IdentityTest } from '../../../test/harness/identity.ts'
import { updateAccount } from '../../store/account/account.ts'
import { transact } from '../../store/platform/database.ts'
import { listSshKeys } from '../../store/account/ssh-key.ts'
import type { Actor } from '../app.ts'
import { addSshKey, deleteSshKey } from './ssh-key.ts'

let fixture: IdentityTest
beforeAll(async () => {
  fixture = await startIdentityTest()
})
afterAll(() => fixture.close())

function randomPublicKey(comment = ''): string {
  const type = 'ssh-ed25519'
  const length = (bytes: number) => Buffer.from([0, 0, 0, bytes])
  const blob = Buffer.concat([length(type.length), Buffer.from(type), length(32), randomBytes(32)])
  return `${type} ${blob.toString('base64')} ${comment}`.trim()
}
const add = (actor: Actor, publicKey = randomPublicKey()) =>
  transact(fixture.database, (tx) => addSshKey(tx, actor, { name: 'laptop', publicKey }))
const remove = (actor: Actor, id: string) => transact(fixture.database, (tx) => deleteSshKey(tx, actor, id))

describe('SSH keys', () => {
  test('a key with another comment is a duplicate, but each account has its own keys', async () => {
    const { actor } = await openTestAccount(fixture)
    const other = await openTestAccount(fixture)
    const key = randomPublicKey()
    expect(await add(actor, `${key} me@laptop`)).toMatchObject({ ok: true, value: { public_key: `${key} me@laptop` } })
    expect(await add(actor, `${key} me@desktop`)).toMatchObject({ kind: 'conflict', reason: 'ssh_key_exists' })
    expect(await add(other.actor, key)).toMatchObject({ ok: true })
  })

  test('rejects an invalid public key', async () => {
    const { actor } = await openTestAccount(fixture)
    for (const text of ['hello', '-----BEGIN OPENSSH PRIVATE KEY-----', `command="x" ${randomPublicKey()}`]) {
      expect(await add(actor, text)).toMatchObject({ kind: 'invalid', issues: [{ path: ['publicKey'] }] })
    }
  })

  test('the quota holds for concurrent requests, and a duplicate is still reported as one', async () => {
    const { actor, accountId } = await openTestAccount(fixture)
    await transact(fixture.database, (tx) => updateAccount(tx, accountId, { quota: { sshKeys: 3 } }))
    const results = await Promise.all(Array.from({ length: 10 }, () => add(actor)))
    expect(results.filter((result) => result.ok)).toHaveLength(3)
    expect(new Set(results.flatMap((result) => (result.ok ? [] : [result.reason])))).toEqual(
      new Set(['quota_exceeded']),
    )
    const held = await listSshKeys(fixture.database.db, accountId)
    expect(held).toHaveLength(3)
    expect(await add(actor, held[0]?.public_key)).toMatchObject({ reason: 'ssh_key_exists' })
  })

  test("deletes once, and does not find another account's key", async () => {
    const { actor } = await openTestAccount(fixture)
    const other = await openTestAccount(fixture)
    const added = await add(actor)
    if (!added.ok) throw new Error(added.message)
    expect(await remove(other.actor, added.value.id)).toMatchObject({ kind: 'not_found' })
    expect(await remove(actor, added.value.id)).toMatchObject({ ok: true })
    expect(await remove(actor, added.value.id)).toMatchObject({ kind: 'not_found' })
  })
})
