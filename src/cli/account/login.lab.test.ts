/** Keys that are kept: what is written, who can read it, what wins over it, and what is never printed. */
import { readFileSync, statSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { startCliTest, type CliTest } from '../../../test/lab/cli.ts'
import { removeFolder } from '../../../test/harness/leftover.ts'
import { needs } from '../../../test/needs.ts'

needs('build')

let cli: CliTest
let file: string

beforeAll(async () => {
  cli = await startCliTest()
  file = path.join(cli.folder, 'config', 'berth', 'profiles.json')
})
afterAll(() => cli.close())
beforeEach(() => removeFolder(path.join(cli.folder, 'config')))

/** As on a machine where no server runs: nothing in the environment, no data folder. */
const elsewhere = { BERTH_URL: '', BERTH_DATA_DIR: '/nowhere' }

async function loginAs(profile: string, usd: string): Promise<string> {
  const { key } = await cli.server.account({ usd })
  const args = ['login', '--server', cli.server.url, '--profile', profile]
  const { code, error } = await cli.berth(args, elsewhere, { input: `${key}\n` })
  expect({ code, error }).toEqual({ code: 0, error: '' })
  return key
}

describe('login', () => {
  test('verifies the key, stores it privately, and uses it from then on', async () => {
    const { key } = await cli.server.account({ usd: '7' })
    const { code, out } = await cli.berth(['login', '--server', cli.server.url], elsewhere, { input: `${key}\n` })
    expect(code).toBe(0)
    const name = `local-${new URL(cli.server.url).port}`
    expect(out).toContain(`Profile   ${name} (now in use)`)
    expect(out).not.toContain(key)
    expect(statSync(file).mode & 0o777).toBe(0o600)
    expect(statSync(path.dirname(file)).mode & 0o777).toBe(0o700)
    expect((await cli.berth(['balance'], elsewhere)).out).toContain('$7.00')
    const result = await cli.berth(['login', '--key', key, '--url', cli.server.url, '--json'], elsewhere)
    expect(JSON.parse(result.out)).toMatchObject({ name, url: cli.server.url, current: true, file })
    expect(result.out).not.toContain(key)
  })

  test('does not store a rejected key: exit code 4', async () => {
    const { code, error } = await cli.berth(['login', '--key', 'bk_not_a_key', '--server', cli.server.url], elsewhere)
    expect(code).toBe(4)
    expect(error).toContain('The API key is from --key.')
    expect(() => statSync(file)).toThrow('ENOENT')
  })

  test.each([
    [['login', '--server', 'http://127.0.0.1:9', '--key', 'bk_x'], 3, 'Cannot reach http://127.0.0.1:9'],
    [['login', '--server', 'localhost:1', '--key', 'bk_x'], 2, 'is not an http or https URL'],
    [['login', '--key-file', '/nowhere'], 2, 'Cannot read the key file /nowhere.'],
    [['login', '--profile', 'a b'], 2, 'Use letters, digits, dots, - and _'],
    [['logout'], 1, 'no profile is in use'],
    [['profiles', 'use', 'none'], 2, 'There is no profile none.\n  To list profiles: berth profiles ls'],
    [['profiles', 'rm', 'none'], 2, 'To create it: berth login --profile none --server URL'],
    [['balance', '--profile', 'none'], 2, 'There is no profile none.'],
  ])('%j: exit code %i and the next step', async (args, exitCode, text) => {
    const { code, out, error } = await cli.berth(args, elsewhere)
    expect({ code, out }).toEqual({ code: exitCode, out: '' })
    expect(error).toContain(text)
  })

  test('asks for a key where people do not sign in', async () => {
    const { code, error } = await cli.berth(['login', '--server', cli.server.url], elsewhere)
    expect(code).toBe(2)
    expect(error).toContain('No API key was given.\n  Use --key-file, or a pipe: berth login < key-file')
  })

  test('reports that there is no folder for profiles', async () => {
    const env = { ...elsewhere, XDG_CONFIG_HOME: 'not/absolute' }
    const args = ['login', '--server', cli.server.url, '--key', cli.server.demoKey]
    expect(await cli.berth(args, env)).toMatchObject({ code: 1, error: expect.stringContaining('Set HOME or XDG') })
    const home = path.join(cli.folder, 'home')
    expect((await cli.berth(args, { ...env, HOME: home })).out).toContain(`${home}/.config/berth/profiles.json`)
  })

  test('reports an unreadable profile file and does not overwrite it', async () => {
    await loginAs('one', '1')
    writeFileSync(file, '{"profiles": 7}')
    const { code, error } = await cli.berth(['profiles', 'ls'], elsewhere)
    expect(code).toBe(2)
    expect(error).toContain(`The profiles file ${file} is damaged.`)
    expect((await cli.berth(['login', '--key', cli.server.demoKey], elsewhere)).code).toBe(2)
    expect(readFileSync(file, 'utf8')).toBe('{"profiles": 7}')
  })
})

describe('profiles', () => {
  test('are listed, switched, selected for one command and removed, without showing keys', async () => {
    const one = await loginAs('one', '1')
    const two = await loginAs('two', '2')
    const { out } = await cli.berth(['profiles', 'ls'], elsewhere)
    expect(out).toMatch(/^ {3}one +http/m)
    expect(out).toMatch(/^\* {2}two +http/m)
    const result = await cli.berth(['profiles', 'ls', '--json'], elsewhere)
    expect(JSON.parse(result.out)).toMatchObject([
      { name: 'one', current: false },
      { name: 'two', current: true },
    ])
    for (const key of [one, two]) expect(out + result.out).not.toContain(key)

    const balance = async (args: readonly string[], env = {}): Promise<string> =>
      (await cli.berth(['balance', ...args], { ...elsewhere, ...env })).out.split('\n')[0] ?? ''
    expect(await balance([])).toBe('Balance    $2.00')
    expect(await balance(['--profile', 'one'])).toBe('Balance    $1.00')
    expect(await balance([], { BERTH_PROFILE: 'one' })).toBe('Balance    $1.00')
    expect((await cli.berth(['profiles', 'use', 'one'], elsewhere)).out).toContain('Using one')
    expect(await balance([])).toBe('Balance    $1.00')

    // Options win over the environment, and that over the profile in use.
    expect(await balance([], { BERTH_KEY: two })).toBe('Balance    $2.00')
    expect(await balance(['--profile', 'one'], { BERTH_KEY: two })).toBe('Balance    $1.00')
    expect(await balance(['--key', two], { BERTH_KEY: one })).toBe('Balance    $2.00')

    expect((await cli.berth(['logout'], elsewhere)).out).toContain('Deleted the profile one')
    expect((await cli.berth(['balance'], elsewhere)).code).toBe(4)
    expect((await cli.berth(['profiles', 'rm', 'two'], elsewhere)).code).toBe(0)
    expect((await cli.berth(['profiles', 'ls'], elsewhere)).out).toContain('There are no profiles.')
    expect(readFileSync(file, 'utf8')).not.toContain('bk_')
  })

  test('a key goes to its own server only', async () => {
    await loginAs('one', '1')
    const { code, error } = await cli.berth(['balance', '--url', 'http://berth.invalid'], elsewhere)
    expect(code).toBe(4)
    expect(error).toContain('Log in with: berth login --server http://berth.invalid')
  })

  test('a customer profile does not replace the operator’s key in the data folder', async () => {
    await loginAs('one', '1')
    // The server is the profile's, on this machine; the key is the one that the command needs.
    expect(await cli.berth(['operator', 'accounts'], { BERTH_URL: '' })).toMatchObject({ code: 0, error: '' })
    expect((await cli.berth(['balance'], { BERTH_URL: '' })).out).toContain('Balance    $1.00')
    const { code, error } = await cli.berth(['operator', 'accounts', '--profile', 'one'])
    expect(code).toBe(4)
    expect(error).toContain('The API key is from the profile one.')
  })

  test('a revoked key: exit code 4, and how to log in again', async () => {
    const key = await loginAs('one', '1')
    const [, publicId = ''] = key.split('_')
    await cli.server.as(key)('DELETE', `/v2/api-keys/${publicId}`)
    const { code, error } = await cli.berth(['balance'], elsewhere)
    expect(code).toBe(4)
    expect(error).toContain('The API key is from the profile one.\n  To log in again: berth login --profile one')
  })
})

test('in a terminal, prompts for the key without showing it', async () => {
  const { key } = await cli.server.account({ usd: '5' })
  const { code, out } = await cli.inTerminal(
    ['login'],
    [
      ['Server [http://127.0.0.1:8420]: ', `${cli.server.url}\r`],
      [`API key for ${cli.server.url} (not shown): `, `${key}\r`],
    ],
    elsewhere,
  )
  expect({ code, out }).toEqual({ code: 0, out: expect.stringContaining('(now in use)') })
  expect(out).not.toContain(key)
  expect(out).not.toContain(key.slice(-12))
  expect((await cli.berth(['balance'], elsewhere)).out).toContain('$5.00')
  // Leaving changes nothing.
  const left = await cli.inTerminal(['login', '--server', cli.server.url], [['(not shown): ', '\u0003']], elsewhere)
  expect(left.code).toBe(2)
  expect(left.out).toContain('No API key was given.')
})
