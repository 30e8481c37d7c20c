/** `berth login` with a person who approves in a browser, `logout`, `whoami` and `accounts`. Promise 27 in the command line. */
import { readFileSync, statSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { startCliTest, type CliTest } from '../../../test/lab/cli.ts'
import { ask } from '../../../test/harness/console.ts'
import { removeFolder } from '../../../test/harness/leftover.ts'
import { personHeaders } from '../../../test/harness/people.ts'
import type { Call } from '../../../test/harness/server.ts'
import { needs } from '../../../test/needs.ts'
import type { Keyring } from '../kit/keyring.ts'

needs('build')

let cli: CliTest
let file: string
beforeAll(async () => {
  cli = await startCliTest({ BERTH_PUBLIC_URL: 'https://cloud.example' })
  file = path.join(cli.folder, 'config', 'berth', 'profiles.json')
})
afterAll(() => cli.close())
beforeEach(() => removeFolder(path.join(cli.folder, 'config')))

const elsewhere = { BERTH_URL: '', BERTH_DATA_DIR: '/nowhere' }

/** A person at a browser, who types the code that the command shows. */
async function approver(owner: { id: string; call: Call }) {
  const headers = await personHeaders(cli.server.app, owner)
  const decide = async (text: string, path: 'approve' | 'deny'): Promise<void> => {
    const userCode = /[B-Z]{4}-[B-Z]{4}/.exec(text)?.[0]
    const approval = { accountId: owner.id, scopes: ['compute:read', 'billing:read'], days: 3 }
    const body = path === 'deny' ? { userCode } : { userCode, ...approval }
    const answer = await ask(cli.server.url, `/v2/device/${path}`, { method: 'POST', headers, body })
    if (answer.status !== 200) throw new Error(answer.text)
  }
  return (path: 'approve' | 'deny' = 'approve') => {
    let decision: Promise<void> | undefined
    return {
      onError: (text: string): void => {
        if (/[B-Z]{4}-[B-Z]{4}/.test(text)) decision ??= decide(text, path)
      },
      decided: () => decision,
    }
  }
}

async function logIn(owner: { id: string; call: Call }, more: readonly string[] = [], keyring?: Keyring) {
  const person = (await approver(owner))()
  const front = { onError: person.onError, ...(keyring === undefined ? {} : { keyring }) }
  const outcome = await cli.berth(['login', '--server', cli.server.url, ...more], elsewhere, front)
  await person.decided()
  return outcome
}

function memoryKeyring(): Keyring & { readonly secrets: Map<string, string> } {
  const secrets = new Map<string, string>()
  return {
    secrets,
    title: 'the system keyring',
    read: (id) => secrets.get(id),
    write: (id, _label, secret) => secrets.set(id, secret) !== undefined,
    remove: (id) => void secrets.delete(id),
  }
}

test('promise 27: the key of a login has the scopes that the person chose, ends, and is private to the user', async () => {
  const owner = await cli.server.account({ usd: '7' })
  const { code, out, error } = await logIn(owner)
  expect(code).toBe(0)
  expect(error).toContain('https://cloud.example/device')
  expect(out).toContain('compute:read, billing:read')
  expect([statSync(file).mode & 0o777, statSync(path.dirname(file)).mode & 0o777]).toEqual([0o600, 0o700])
  const { profiles } = JSON.parse(readFileSync(file, 'utf8')) as { profiles: Array<Record<string, string>> }
  expect(out + error).not.toContain(profiles[0]?.['key'])
  expect((await cli.berth(['balance'], elsewhere)).out).toContain('$7.00')
  const who = JSON.parse((await cli.berth(['whoami', '--json'], elsewhere)).out)
  expect(who).toMatchObject({
    account: { id: owner.id },
    key: { kind: 'device', scopes: ['compute:read', 'billing:read'] },
  })
  const endsInDays = (Date.parse(who.key.expiresAt) - cli.server.app.clock.now()) / 86_400_000
  expect(endsInDays).toBeGreaterThan(2.9)
  expect(endsInDays).toBeLessThanOrEqual(3)
})

test('a keyring gets the key, the file does not, and logout takes it from both and from the server', async () => {
  const owner = await cli.server.account({ usd: '3' })
  const keyring = memoryKeyring()
  expect((await logIn(owner, [], keyring)).out).toContain('the system keyring')
  const [key = ''] = keyring.secrets.values()
  expect(key).toMatch(/^bk_/)
  expect(readFileSync(file, 'utf8')).not.toContain(key)
  expect((await cli.berth(['balance'], elsewhere, { keyring })).out).toContain('$3.00')
  const locked = await cli.berth(['balance'], elsewhere, { keyring: { ...keyring, read: () => undefined } })
  expect([locked.code, locked.error]).toEqual([4, expect.stringContaining('berth login --profile')])
  const { code, out } = await cli.berth(['logout'], elsewhere, { keyring })
  expect([code, out]).toEqual([0, expect.stringContaining('The key has ended.')])
  expect(keyring.secrets.size).toBe(0)
  expect((await cli.server.as(key)('GET', '/v2/users/me')).body.reason).toBe('invalid_key')
})

test('a refused login saves nothing: exit code 4', async () => {
  const owner = await cli.server.account({ usd: '1' })
  const person = (await approver(owner))('deny')
  const outcome = await cli.berth(['login', '--server', cli.server.url], elsewhere, { onError: person.onError })
  expect([outcome.code, outcome.error]).toEqual([4, expect.stringContaining('was refused in the browser')])
  expect(() => statSync(file)).toThrow('ENOENT')
})

test('two accounts of one server are two logins; commands that create say which one they use', async () => {
  const [first, second] = [await cli.server.account({ usd: '1' }), await cli.server.account({ usd: '2' })]
  await logIn(first)
  await logIn(second)
  const rows = JSON.parse((await cli.berth(['accounts', 'ls', '--json'], elsewhere)).out) as Array<
    Record<string, unknown>
  >
  expect(rows.map(({ accountId, current }) => [accountId, current])).toEqual([
    [first.id, false],
    [second.id, true],
  ])
  expect((await cli.berth(['balance'], elsewhere)).out).toContain('$2.00')
  expect((await cli.berth(['accounts', 'use', first.id], elsewhere)).code).toBe(0)
  expect((await cli.berth(['balance'], elsewhere)).out).toContain('$1.00')
  const unknown = await cli.berth(['accounts', 'use', 'nobody'], elsewhere)
  expect([unknown.code, unknown.error]).toEqual([1, expect.stringContaining('berth accounts ls')])
})

test('logout --everywhere ends all logins of the person, and none of others', async () => {
  const [owner, stranger] = [await cli.server.account({ usd: '1' }), await cli.server.account({ usd: '2' })]
  await logIn(stranger, ['--profile', 'theirs'])
  await logIn(owner, ['--profile', 'laptop'])
  await logIn(owner, ['--profile', 'desktop'])
  const { code } = await cli.berth(['logout', '--everywhere'], elsewhere)
  expect(code).toBe(0)
  const { profiles } = JSON.parse(readFileSync(file, 'utf8')) as { profiles: Array<{ name: string }> }
  expect(profiles.map(({ name }) => name)).toEqual(['theirs'])
  expect((await cli.berth(['balance', '--profile', 'theirs'], elsewhere)).out).toContain('$2.00')
})

test('a login in place of another ends the key of the one before', async () => {
  const owner = await cli.server.account({ usd: '1' })
  await logIn(owner)
  const { profiles } = JSON.parse(readFileSync(file, 'utf8')) as { profiles: Array<{ key: string }> }
  await logIn(owner)
  expect((await cli.server.as(profiles[0]?.key ?? '')('GET', '/v2/users/me')).body.reason).toBe('invalid_key')
  expect((await cli.berth(['balance'], elsewhere)).code).toBe(0)
})
