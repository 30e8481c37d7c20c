/** Account access in a real browser: API keys, SSH keys, webhooks and members. */
import { readFile } from 'node:fs/promises'
import { fail } from '../../src/contract/result.ts'
import ssh2 from 'ssh2'
import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Scope } from '../../src/contract/endpoint.ts'
import { browserLeftOut, openBrowser, expectDuring, whyNoBrowser, type ConsoleBrowser } from '../lab/browser.ts'
import { succeed } from '../harness/journey.ts'
import { startReceiver, status, type Receiver } from '../harness/receiver.ts'
import { testSshKey, type Call } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'
import { needs } from '../needs.ts'

needs('browser')

describe.skipIf(whyNoBrowser() !== undefined)(`keys, webhooks and people${browserLeftOut}`, () => {
  let browser: ConsoleBrowser
  let receiver: Receiver
  let account: { id: string; key: string; call: Call }

  beforeAll(async () => {
    receiver = await startReceiver()
    browser = await openBrowser()
    account = await browser.server.account({ usd: '10', sshKey: false })
  })
  afterAll(async () => {
    await browser.close()
    await receiver.close()
  })

  /** A key that an owner creates for another member. */
  async function keyOf(memberId: string, scopes: Scope[]): Promise<string> {
    const { key } = await succeed(account.call, 'POST', '/v2/api-keys', { name: 'Of another', memberId, scopes })
    return String(key)
  }

  test('creates a key with exactly the chosen scopes, and revokes it', async () => {
    const { page, visit, look, close } = await browser.open(account.key)
    await visit('/keys', 'API keys')
    await page.getByText('current session').waitFor()
    await page.getByRole('button', { name: 'Create key' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('button', { name: 'Create key' }).click()
    await dialog.getByText('Must not be empty').first().waitFor()
    await dialog.getByLabel('Name').fill('nightly training')
    await dialog.getByRole('checkbox', { name: 'inference' }).check()
    await dialog.getByRole('checkbox', { name: 'compute:read' }).check()
    await dialog.getByRole('button', { name: 'Expires: in 30 d' }).click()
    await dialog.getByText('Limits', { exact: true }).click()
    await dialog.getByLabel('Monthly spending limit (USD)').fill('lots')
    await dialog.getByLabel('Requests per minute').fill('600')
    await dialog.getByRole('button', { name: 'Create key' }).click()
    await dialog.getByText('Must be an amount in USD').waitFor()
    await look('keys-create')
    await dialog.getByLabel('Monthly spending limit (USD)').fill('25')
    await dialog.getByRole('button', { name: 'Create key' }).click()
    const shown = dialog.getByLabel('Key nightly training')
    const key = await shown.inputValue()
    await look('keys-new')
    await expectDuring(dialog.getByText('Copied', { exact: true }), () =>
      dialog.getByRole('button', { name: 'Copy' }).click(),
    )
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(key)
    await dialog.getByRole('button', { name: 'I have copied it' }).click()
    const row = page.getByRole('row', { name: /nightly training/ })
    await row.getByText('$25.00 per month').waitFor()
    expect(await page.content()).not.toContain(key)

    const call = browser.server.as(key)
    expect((await call('GET', '/v1/models')).status).toBe(200)
    expect((await call('GET', '/v2/ssh-keys')).status).toBe(200)
    for (const denied of ['/v2/customer/balance', '/v2/api-keys']) expect((await call('GET', denied)).status).toBe(403)
    expect((await call('POST', '/v2/ssh-keys', { name: 'x', publicKey: testSshKey })).status).toBe(403)

    await row.getByRole('button', { name: 'Revoke nightly training' }).click()
    await dialog.getByRole('button', { name: 'Revoke' }).click()
    await row.waitFor({ state: 'detached' })
    await waitFor('the key to stop', async () => (await call('GET', '/v1/models')).status === 401)
    await page.getByLabel('Show 1 revoked key').check()
    await row.getByText(/^Revoked/).waitFor()
    await look('keys')
    await close()
  })

  test('keeps the dialog open until a new key is created and copied', async () => {
    const { page, visit, close } = await browser.open(account.key)
    await visit('/keys', 'API keys')
    await page.getByRole('button', { name: 'Create key' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Name').fill('kept')
    await dialog.getByRole('checkbox', { name: 'inference' }).check()
    let goOn = (): void => undefined
    const held = new Promise<void>((resolve) => {
      goOn = resolve
    })
    await page.route('**/v2/api-keys', async (route) => {
      if (route.request().method() === 'POST') await held
      await route.continue()
    })
    await dialog.getByRole('button', { name: 'Create key' }).click()
    await dialog.locator('button[aria-busy=true]').waitFor()
    expect(await dialog.getByRole('button', { name: 'Close' }).isDisabled()).toBe(true)
    expect(await dialog.getByRole('button', { name: 'Cancel' }).isDisabled()).toBe(true)
    // A second Escape is handled by the browser itself.
    for (let n = 0; n < 3; n += 1) await page.keyboard.press('Escape')
    goOn()
    const shown = dialog.getByLabel('Key kept')
    await shown.waitFor()
    for (let n = 0; n < 3; n += 1) await page.keyboard.press('Escape')
    expect(await dialog.getByRole('button', { name: 'Close' }).count()).toBe(0)
    expect((await browser.server.as(await shown.inputValue())('GET', '/v1/models')).status).toBe(200)
    await dialog.getByRole('button', { name: 'I have copied it' }).click()
    await dialog.waitFor({ state: 'detached' })
    await close()
  })

  test('warns before revoking the key of the session, then signs out', async () => {
    const own = { name: 'this browser', scopes: ['keys', 'compute:read'] }
    const { key } = await succeed(account.call, 'POST', '/v2/api-keys', own)
    const { page, visit, close } = await browser.open(key)
    await visit('/keys', 'API keys')
    await page.getByRole('button', { name: 'Revoke this browser' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText(/You are signed in with this key/).waitFor()
    await dialog.getByRole('button', { name: 'Revoke' }).click()
    await page.waitForURL(/\/sign-in/)
    const isRefused = async (): Promise<boolean> => (await browser.server.as(key)('GET', '/v2/users/me')).status === 401
    expect(await waitFor('the key to stop', isRefused)).toBe(true)
    await close()
  })

  test('generates an SSH key; its private part is downloaded and never sent', async () => {
    const { key, call } = await browser.server.account({ sshKey: false })
    const { page, visit, look, close } = await browser.open(key)
    const sent: string[] = []
    page.on('request', (request) => sent.push(request.postData() ?? ''))
    await visit('/ssh-keys', 'SSH keys')
    await page.getByRole('button', { name: 'Generate key' }).click()
    await page.getByRole('button', { name: 'Generate and add' }).click()
    const dialog = page.getByRole('dialog', { name: /Download the private key/ })
    expect(await dialog.getByRole('button', { name: 'Done' }).isDisabled()).toBe(true)
    await look('ssh-keys-generate')
    const downloading = page.waitForEvent('download')
    await dialog.getByRole('button', { name: 'Download berth_ed25519' }).click()
    const parsed = ssh2.utils.parseKey(await readFile(await (await downloading).path()))
    if (parsed instanceof Error) throw parsed
    expect(parsed.isPrivateKey()).toBe(true)
    const { sshKeys } = (await call('GET', '/v2/ssh-keys')).body
    expect(sshKeys).toHaveLength(1)
    expect(sshKeys[0].publicKey.split(' ')[1]).toBe(parsed.getPublicSSH().toString('base64'))
    expect(sent.join('\n')).not.toContain('PRIVATE KEY')
    await dialog.getByRole('button', { name: 'Done' }).click()
    await page.getByRole('table', { name: 'SSH keys' }).getByText('Generated in the console').waitFor()
    await close()
  })

  test('adds an SSH key, explains rejected ones, and deletes it', async () => {
    const { page, visit, look, close } = await browser.open(account.key, { width: 390, height: 844 })
    await visit('/ssh-keys', 'SSH keys')
    await page.getByText('No SSH keys yet').waitFor()
    await look('ssh-keys-empty')
    const dialog = page.getByRole('dialog')
    const text = dialog.getByLabel('Public key')
    const add = dialog.getByRole('button', { name: 'Add key' })
    await page.getByRole('button', { name: 'Add key' }).first().click()
    await add.click()
    await dialog.getByText('Paste a public key').waitFor()
    await text.fill('-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n-----END OPENSSH PRIVATE KEY-----')
    await dialog.getByText(/This is a private key/).waitFor()
    await text.fill('hello there')
    await dialog.getByText(/this starts with “hello”/).waitFor()
    // Only the server detects this: the key is truncated.
    await text.fill(`${testSshKey.slice(0, 40)} cut`)
    await add.click()
    await dialog.getByText(/not an OpenSSH public key/).waitFor()
    await look('ssh-keys-add')
    await text.fill(testSshKey)
    expect(await dialog.getByLabel('Name').inputValue()).toBe('test@example.test')
    await add.click()
    const table = page.getByRole('table', { name: 'SSH keys' })
    await table.getByText(/^SHA256:/).waitFor()
    await look('ssh-keys')
    await page.getByRole('button', { name: 'Add key' }).click()
    await text.fill(testSshKey)
    await add.click()
    await dialog.getByRole('alert').getByText(fail('ssh_key_exists').message).waitFor()
    await dialog.getByRole('button', { name: 'Cancel' }).click()
    await page.getByRole('button', { name: 'Delete test@example.test' }).click()
    await dialog.getByRole('button', { name: 'Delete' }).click()
    await page.getByText('No SSH keys yet').waitFor()
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true)
    await close()
  })

  test('stores a secret without showing it again, and a registry login', async () => {
    const { page, visit, look, close } = await browser.open(account.key)
    await visit('/secrets', 'Secrets')
    await page.getByText('No secrets yet').waitFor()
    const dialog = page.getByRole('dialog')
    await page.getByRole('button', { name: 'Add secret' }).first().click()
    await dialog.getByLabel('Name').fill('HF_TOKEN')
    await dialog.getByLabel('Value').fill('planted-in-the-browser')
    await look('secrets-add')
    await dialog.getByRole('button', { name: 'Add' }).click()
    const secrets = page.getByRole('table', { name: 'Secrets' })
    await secrets.getByText('HF_TOKEN').waitFor()
    await page.getByRole('button', { name: 'Add registry login' }).click()
    await dialog.getByLabel('Name', { exact: true }).fill('team')
    await dialog.getByLabel('Registry').fill('registry.example.com')
    await dialog.getByLabel('User name').fill('ada')
    await dialog.getByLabel('Password or access token').fill('planted-in-the-browser')
    await dialog.getByRole('button', { name: 'Add' }).click()
    await page.getByRole('table', { name: 'Registry logins' }).getByText('registry.example.com').waitFor()
    await look('secrets')
    expect(await page.content()).not.toContain('planted-in-the-browser')
    await page.getByRole('button', { name: 'Delete HF_TOKEN' }).click()
    await dialog.getByRole('button', { name: 'Delete' }).click()
    await page.getByText('No secrets yet').waitFor()
    await close()
  })

  test('creates, edits and deletes a template; those of the operator are read-only', async () => {
    const { page, visit, look, close } = await browser.open(account.key)
    await visit('/templates', 'Templates')
    const jupyter = page.getByRole('article', { name: 'Jupyter', exact: true })
    await jupyter.waitFor()
    await look('templates')
    // No button that this key cannot use.
    expect(await jupyter.getByRole('button').allTextContents()).toEqual(['Details'])
    const dialog = page.getByRole('dialog')
    await page.getByRole('button', { name: 'Create template' }).click()
    await dialog.getByLabel('Name').fill('Team notebook')
    await dialog.getByLabel('Image').fill('team/notebook:2')
    await dialog.getByLabel('Ports').fill('8888/http')
    await dialog.getByLabel('Environment variables').fill('MODE')
    await dialog.getByRole('button', { name: 'Create', exact: true }).click()
    await dialog.getByText('Write NAME=value on each line').waitFor()
    await dialog.getByLabel('Environment variables').fill('MODE=train')
    await look('templates-create')
    await dialog.getByRole('button', { name: 'Edit as JSON' }).click()
    expect(JSON.parse(await dialog.getByLabel('Fields (JSON)').inputValue())).toEqual({
      icon: 'box',
      image: { name: 'team/notebook', tag: '2' },
      ports: ['8888/http'],
      env: { MODE: 'train' },
    })
    await dialog.getByRole('button', { name: 'Edit as a form' }).click()
    await dialog.getByRole('button', { name: 'Create', exact: true }).click()
    await page.getByRole('tab', { name: 'Mine' }).click()
    const team = page.getByRole('article', { name: 'Team notebook' })
    await team.getByText('team/notebook:2').waitFor()
    await page.getByRole('button', { name: 'Edit Team notebook' }).click()
    await dialog.getByRole('button', { name: 'Edit as JSON' }).click()
    await dialog.getByLabel('Fields (JSON)').fill('not JSON')
    await dialog.getByRole('button', { name: 'Save as new version' }).click()
    await dialog.getByText('Must be a JSON object').waitFor()
    await dialog.getByLabel('Fields (JSON)').fill('{"summary": "For the team"}')
    await dialog.getByRole('button', { name: 'Save as new version' }).click()
    await team.getByText('For the team').waitFor()
    await page.getByRole('button', { name: 'Details Team notebook' }).click()
    await dialog.getByText('8888/http').waitFor()
    await dialog.getByRole('button', { name: 'Done' }).click()
    await page.getByRole('button', { name: 'Delete Team notebook' }).click()
    await dialog.getByRole('button', { name: 'Delete' }).click()
    await team.waitFor({ state: 'hidden' })
    await close()
  })

  test('creates, tests, redelivers and deletes a webhook', async () => {
    const { page, visit, look, close } = await browser.open(account.key)
    await visit('/webhooks', 'Webhooks')
    await page.getByText('No webhooks yet').waitFor()
    await look('webhooks-empty')
    await page.getByRole('button', { name: 'Add webhook' }).first().click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('URL').fill('example.com/hook')
    await dialog.getByRole('checkbox', { name: 'All events' }).uncheck()
    await dialog.getByRole('button', { name: 'Add webhook' }).click()
    await dialog.getByLabel('URL').and(page.locator('[aria-invalid=true]')).waitFor()
    await dialog.getByRole('alert').getByText('Must not be empty').waitFor()
    await dialog.getByLabel('URL').fill(`${receiver.url}/hooks/berth`)
    await dialog.getByLabel('Description').fill('The build server')
    await dialog.getByRole('checkbox', { name: 'All key events' }).check()
    await dialog.getByRole('checkbox', { name: 'rental.running' }).check()
    await look('webhooks-add')
    await dialog.getByRole('button', { name: 'Add webhook' }).click()
    const secret = await dialog.getByLabel('Signing secret').inputValue()
    await dialog.getByRole('button', { name: 'I have copied it' }).click()
    const table = page.getByRole('table', { name: 'Webhooks' })
    await table.getByTitle('key.created, key.rotated, key.revoked, rental.running').getByText('4 types').waitFor()
    await table.getByRole('button', { name: /^Disable/ }).click()
    await table.getByText('Disabled', { exact: true }).waitFor()
    await table.getByRole('button', { name: /^Enable/ }).click()
    await table.getByText('Enabled', { exact: true }).waitFor()
    await look('webhooks')

    await table.getByRole('link', { name: /hooks\/berth/ }).click()
    const deliveries = page.getByRole('table', { name: 'Deliveries' })
    await page.getByText('No deliveries yet').waitFor()
    await page.getByRole('button', { name: 'Send test event' }).click()
    await deliveries.getByRole('row', { name: /webhook\.test.*Delivered.*200/ }).waitFor()
    const [sent] = receiver.received
    expect(new Webhook(secret).verify(sent?.body ?? '', sent?.headers ?? {})).toMatchObject({ type: 'webhook.test' })

    receiver.answer = status(503)
    await succeed(account.call, 'POST', '/v2/api-keys', { name: 'seen by the hook', scopes: ['inference'] })
    await deliveries.getByRole('row', { name: /key\.created.*Retrying.*503/ }).waitFor()
    await look('webhook')
    receiver.answer = status(204)
    // By now it may have been retried automatically and delivered.
    await deliveries.getByRole('button', { name: 'Redeliver key.created' }).click()
    await deliveries.getByRole('row', { name: /key\.created.*Delivered.*204/ }).waitFor()

    await page.getByRole('button', { name: 'Rotate secret' }).click()
    await dialog.getByRole('button', { name: 'Rotate secret' }).click()
    expect(await dialog.getByLabel('Signing secret').inputValue()).not.toBe(secret)
    await dialog.getByRole('button', { name: 'I have copied it' }).click()
    await page.getByRole('button', { name: 'Edit' }).click()
    await dialog.getByRole('checkbox', { name: 'All events' }).check()
    await dialog.getByRole('button', { name: 'Save' }).click()
    await dialog.waitFor({ state: 'detached' })
    await page.getByRole('definition').filter({ hasText: /^All$/ }).waitFor()
    await page.getByRole('button', { name: 'Delete' }).click()
    await dialog.getByRole('button', { name: 'Delete' }).click()
    await page.getByText('No webhooks yet').waitFor()
    await close()
  })

  test('lets owners manage members and shows others why they cannot', async () => {
    const owner = await browser.open(account.key)
    const { page } = owner
    await owner.visit('/members', 'Members')
    const remove = page.getByRole('button', { name: /^Remove owner-/ })
    await remove.waitFor()
    expect(await remove.isDisabled()).toBe(true)
    expect(await remove.getAttribute('title')).toMatch(/at least one owner/)
    const dialog = page.getByRole('dialog')
    for (const [email, role] of [
      ['mate@example.test', 'Member'],
      ['guest@example.test', 'Viewer'],
      ['past@example.test', 'Owner'],
    ] as const) {
      await page.getByRole('button', { name: 'Add member' }).click()
      await dialog.getByLabel('Email').fill('nonsense')
      await dialog.getByRole('button', { name: 'Add member' }).click()
      await dialog.getByLabel('Email').and(page.locator('[aria-invalid=true]')).waitFor()
      await dialog.getByLabel('Email').fill(email)
      await dialog.getByLabel('Role').selectOption(role)
      await dialog.getByRole('button', { name: 'Add member' }).click()
      await page.getByRole('row', { name: new RegExp(`${email} ${role}`) }).waitFor()
    }
    await page.getByRole('button', { name: 'Change role of past@example.test' }).click()
    await dialog.getByLabel('Role').selectOption('Viewer')
    await owner.look('members-role')
    await dialog.getByRole('button', { name: 'Change role' }).click()
    await page.getByRole('row', { name: /past@example\.test Viewer/ }).waitFor()
    await page.getByRole('button', { name: 'Remove past@example.test' }).click()
    await dialog.getByRole('button', { name: 'Remove' }).click()
    await page.getByRole('row', { name: /past@example\.test/ }).waitFor({ state: 'detached' })
    await expectDuring(page.getByRole('status').getByText('Request texts are now stored'), () =>
      page.getByRole('checkbox', { name: 'Store request and response texts' }).click(),
    )
    expect((await succeed(account.call, 'GET', '/v2/users/me')).account.keepsBodies).toBe(true)
    await owner.look('members')
    await owner.close()

    const { members } = await succeed(account.call, 'GET', '/v2/members')
    const idOf = (email: string): string => members.find((one: { email: string }) => one.email === email).id
    const mate = await browser.open(await keyOf(idOf('mate@example.test'), ['keys', 'compute:read']))
    await mate.visit('/members', 'Members')
    await mate.page.getByText('Only account owners can manage members. Your role is member.').waitFor()
    for (const name of ['Add member', 'Remove guest@example.test']) {
      const button = mate.page.getByRole('button', { name })
      await button.waitFor()
      expect([name, await button.isDisabled(), await button.getAttribute('title')]).toEqual([
        name,
        true,
        'Only account owners can manage members.',
      ])
    }
    expect(await mate.page.getByRole('checkbox', { name: /Store request/ }).isDisabled()).toBe(true)
    await mate.look('members-as-member')
    await mate.close()

    const guest = await browser.open(await keyOf(idOf('guest@example.test'), ['compute:read', 'billing:read']))
    await guest.visit('/ssh-keys', 'SSH keys')
    await guest.page
      .getByRole('paragraph')
      .filter({ hasText: /^Your key is read-only/ })
      .waitFor()
    expect(await guest.page.getByRole('button', { name: 'Add key' }).first().isDisabled()).toBe(true)
    await guest.visit('/keys', 'API keys')
    await guest.page
      .getByRole('alert')
      .getByText(/does not have the scope/)
      .waitFor()
    expect(await guest.page.getByRole('button', { name: 'Create key' }).isDisabled()).toBe(true)
    await guest.look('keys-as-viewer')
    await guest.close()
  })
})
