/** Who and what gets into the account: API keys, SSH keys, webhooks and people, in a real browser. */
import { fail } from '../../src/contract/result.ts'
import { Webhook } from 'standardwebhooks'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Scope } from '../../src/contract/endpoint.ts'
import { browserLeftOut, openBrowser, seeWhile, whyNoBrowser, type ConsoleBrowser } from '../harness/browser.ts'
import { succeed } from '../harness/journey.ts'
import { startReceiver, status, type Receiver } from '../harness/receiver.ts'
import { testSshKey, type Call } from '../harness/server.ts'
import { waitFor } from '../harness/wait.ts'

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

  /** As an owner makes it for another person. */
  async function keyOf(memberId: string, scopes: Scope[]): Promise<string> {
    const { key } = await succeed(account.call, 'POST', '/v2/api-keys', { name: 'Of another', memberId, scopes })
    return String(key)
  }

  test('a key made here can do exactly what it was made for, until it is revoked', async () => {
    const { page, visit, look, close } = await browser.open(account.key)
    await visit('/keys', 'API keys')
    await page.getByText('signed in with it').waitFor()
    await page.getByRole('button', { name: 'Create a key' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByRole('button', { name: 'Create' }).click()
    await dialog.getByText('Give it a name, so that you know it again.').waitFor()
    await dialog.getByText('Choose at least one thing that it may do.').waitFor()
    await dialog.getByLabel('Name').fill('nightly training')
    await dialog.getByRole('checkbox', { name: 'inference' }).check()
    await dialog.getByRole('checkbox', { name: 'compute:read' }).check()
    await dialog.getByLabel('Expires').selectOption('In 30 days')
    await dialog.getByText('Limits', { exact: true }).click()
    await dialog.getByLabel('Spends a month at most ($)').fill('lots')
    await dialog.getByLabel('Requests a minute').fill('600')
    await dialog.getByRole('button', { name: 'Create' }).click()
    await dialog.getByText('An amount in dollars, such as 12.50.').waitFor()
    await look('keys-create')
    await dialog.getByLabel('Spends a month at most ($)').fill('25')
    await dialog.getByRole('button', { name: 'Create' }).click()
    const shown = dialog.getByLabel('Key nightly training')
    const key = await shown.inputValue()
    await look('keys-new')
    await seeWhile(dialog.getByText('Copied', { exact: true }), () =>
      dialog.getByRole('button', { name: 'Copy' }).click(),
    )
    expect(await page.evaluate('navigator.clipboard.readText()')).toBe(key)
    await dialog.getByRole('button', { name: 'I have copied it' }).click()
    const row = page.getByRole('row', { name: /nightly training/ })
    await row.getByText('$25.00 a month').waitFor()
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

  test('a key that is being made cannot be lost: neither while it is under way nor before it was copied', async () => {
    const { page, visit, close } = await browser.open(account.key)
    await visit('/keys', 'API keys')
    await page.getByRole('button', { name: 'Create a key' }).click()
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
    await dialog.getByRole('button', { name: 'Create' }).click()
    await dialog.locator('button[aria-busy=true]').waitFor()
    expect(await dialog.getByRole('button', { name: 'Close' }).isDisabled()).toBe(true)
    expect(await dialog.getByRole('button', { name: 'Cancel' }).isDisabled()).toBe(true)
    // The browser itself gives in to a second Escape.
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

  test('who revokes the key of the session is warned, and is signed out', async () => {
    const own = { name: 'this browser', scopes: ['keys', 'compute:read'] }
    const { key } = await succeed(account.call, 'POST', '/v2/api-keys', own)
    const { page, visit, close } = await browser.open(key)
    await visit('/keys', 'API keys')
    await page.getByRole('button', { name: 'Revoke this browser' }).click()
    const dialog = page.getByRole('dialog')
    await dialog.getByText(/You are signed in with this very key/).waitFor()
    await dialog.getByRole('button', { name: 'Revoke' }).click()
    await page.waitForURL(/\/sign-in/)
    const isRefused = async (): Promise<boolean> => (await browser.server.as(key)('GET', '/v2/users/me')).status === 401
    expect(await waitFor('the key to stop', isRefused)).toBe(true)
    await close()
  })

  test('SSH keys are added once, by what is wrong with a wrong one, and deleted', async () => {
    const { page, visit, look, close } = await browser.open(account.key, { width: 390, height: 844 })
    await visit('/ssh-keys', 'SSH keys')
    await page.getByText('There is no SSH key yet').waitFor()
    await look('ssh-keys-empty')
    const dialog = page.getByRole('dialog')
    const text = dialog.getByLabel('Public key')
    const add = dialog.getByRole('button', { name: 'Add' })
    await page.getByRole('button', { name: 'Add a key' }).first().click()
    await add.click()
    await dialog.getByText('Paste the public key.').waitFor()
    await text.fill('-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk\n-----END OPENSSH PRIVATE KEY-----')
    await dialog.getByText(/This is a private key/).waitFor()
    await text.fill('hello there')
    await dialog.getByText(/this begins with “hello”/).waitFor()
    // What only the server can see: the key is cut.
    await text.fill(`${testSshKey.slice(0, 40)} cut`)
    await add.click()
    await dialog.getByText(/Not an OpenSSH public key/).waitFor()
    await look('ssh-keys-add')
    await text.fill(testSshKey)
    expect(await dialog.getByLabel('Name').inputValue()).toBe('test@example.test')
    await add.click()
    const table = page.getByRole('table', { name: 'SSH keys' })
    await table.getByText(/^SHA256:/).waitFor()
    await look('ssh-keys')
    await page.getByRole('button', { name: 'Add a key' }).click()
    await text.fill(testSshKey)
    await add.click()
    await dialog.getByRole('alert').getByText(fail('ssh_key_exists').message).waitFor()
    await dialog.getByRole('button', { name: 'Cancel' }).click()
    await page.getByRole('button', { name: 'Delete test@example.test' }).click()
    await dialog.getByRole('button', { name: 'Delete' }).click()
    await page.getByText('There is no SSH key yet').waitFor()
    expect(await page.evaluate('document.documentElement.scrollWidth <= innerWidth')).toBe(true)
    await close()
  })

  test('a webhook is made, tested, fails, is sent again, and goes', async () => {
    const { page, visit, look, close } = await browser.open(account.key)
    await visit('/webhooks', 'Webhooks')
    await page.getByText('There is no webhook yet').waitFor()
    await look('webhooks-empty')
    await page.getByRole('button', { name: 'Add a webhook' }).first().click()
    const dialog = page.getByRole('dialog')
    await dialog.getByLabel('Address').fill('example.com/hook')
    await dialog.getByRole('checkbox', { name: 'All events' }).uncheck()
    await dialog.getByRole('button', { name: 'Add' }).click()
    await dialog.getByText('An address that begins with https:// or http://.').waitFor()
    await dialog.getByText('Choose at least one event, or all of them.').waitFor()
    await dialog.getByLabel('Address').fill(`${receiver.url}/hooks/berth`)
    await dialog.getByLabel('Description').fill('The build server')
    await dialog.getByRole('checkbox', { name: 'All of key' }).check()
    await dialog.getByRole('checkbox', { name: 'rental.running' }).check()
    await look('webhooks-add')
    await dialog.getByRole('button', { name: 'Add' }).click()
    const secret = await dialog.getByLabel('Signing secret').inputValue()
    await dialog.getByRole('button', { name: 'I have copied it' }).click()
    const table = page.getByRole('table', { name: 'Webhooks' })
    await table.getByText('key.created, key.revoked, rental.running').waitFor()
    await table.getByRole('button', { name: /^Turn off/ }).click()
    await table.getByText('Off', { exact: true }).waitFor()
    await table.getByRole('button', { name: /^Turn on/ }).click()
    await table.getByText('On', { exact: true }).waitFor()
    await look('webhooks')

    await table.getByRole('link', { name: /hooks\/berth/ }).click()
    const deliveries = page.getByRole('table', { name: 'Deliveries' })
    await page.getByText('Nothing was sent yet').waitFor()
    await page.getByRole('button', { name: 'Send a test' }).click()
    await deliveries.getByRole('row', { name: /webhook\.test.*Delivered.*200/ }).waitFor()
    const [sent] = receiver.received
    expect(new Webhook(secret).verify(sent?.body ?? '', sent?.headers ?? {})).toMatchObject({ type: 'webhook.test' })

    receiver.answer = status(503)
    await succeed(account.call, 'POST', '/v2/api-keys', { name: 'seen by the hook', scopes: ['inference'] })
    await deliveries.getByRole('row', { name: /key\.created.*Tried again soon.*503/ }).waitFor()
    await look('webhook')
    receiver.answer = status(204)
    // By now it may have been tried again by itself, and have arrived.
    await deliveries.getByRole('button', { name: 'Send again: key.created' }).click()
    await deliveries.getByRole('row', { name: /key\.created.*Delivered.*204/ }).waitFor()

    await page.getByRole('button', { name: 'New secret' }).click()
    await dialog.getByRole('button', { name: 'Make a new secret' }).click()
    expect(await dialog.getByLabel('Signing secret').inputValue()).not.toBe(secret)
    await dialog.getByRole('button', { name: 'I have copied it' }).click()
    await page.getByRole('button', { name: 'Edit' }).click()
    await dialog.getByRole('checkbox', { name: 'All events' }).check()
    await dialog.getByRole('button', { name: 'Save' }).click()
    await dialog.waitFor({ state: 'detached' })
    await page.getByRole('definition').filter({ hasText: /^All$/ }).waitFor()
    await page.getByRole('button', { name: 'Delete' }).click()
    await dialog.getByRole('button', { name: 'Delete' }).click()
    await page.getByText('There is no webhook yet').waitFor()
    await close()
  })

  test('owners change who is in the account; others see why they cannot', async () => {
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
      await page.getByRole('button', { name: 'Add a person' }).click()
      await dialog.getByLabel('E-mail').fill('nonsense')
      await dialog.getByRole('button', { name: 'Add' }).click()
      await dialog.getByText('An e-mail address, such as name@example.com.').waitFor()
      await dialog.getByLabel('E-mail').fill(email)
      await dialog.getByLabel('Role').selectOption(role)
      await dialog.getByRole('button', { name: 'Add' }).click()
      await page.getByRole('row', { name: new RegExp(`${email} ${role}`) }).waitFor()
    }
    await page.getByRole('button', { name: 'Change role of past@example.test' }).click()
    await dialog.getByLabel('Role').selectOption('Viewer')
    await owner.look('members-role')
    await dialog.getByRole('button', { name: 'Change' }).click()
    await page.getByRole('row', { name: /past@example\.test Viewer/ }).waitFor()
    await page.getByRole('button', { name: 'Remove past@example.test' }).click()
    await dialog.getByRole('button', { name: 'Remove' }).click()
    await page.getByRole('row', { name: /past@example\.test/ }).waitFor({ state: 'detached' })
    await seeWhile(page.getByRole('status').getByText('Texts are kept from now on'), () =>
      page.getByRole('checkbox', { name: 'Keep the texts of requests to models' }).click(),
    )
    expect((await succeed(account.call, 'GET', '/v2/users/me')).account.keepsBodies).toBe(true)
    await owner.look('members')
    await owner.close()

    const { members } = await succeed(account.call, 'GET', '/v2/members')
    const idOf = (email: string): string => members.find((one: { email: string }) => one.email === email).id
    const mate = await browser.open(await keyOf(idOf('mate@example.test'), ['keys', 'compute:read']))
    await mate.visit('/members', 'Members')
    await mate.page.getByText('Only an owner of the account changes who is in it. You are a member here.').waitFor()
    for (const name of ['Add a person', 'Remove guest@example.test']) {
      const button = mate.page.getByRole('button', { name })
      await button.waitFor()
      expect([name, await button.isDisabled(), await button.getAttribute('title')]).toEqual([
        name,
        true,
        'Only an owner of the account changes who is in it.',
      ])
    }
    expect(await mate.page.getByRole('checkbox', { name: /Keep the texts/ }).isDisabled()).toBe(true)
    await mate.look('members-as-member')
    await mate.close()

    const guest = await browser.open(await keyOf(idOf('guest@example.test'), ['compute:read', 'billing:read']))
    await guest.visit('/ssh-keys', 'SSH keys')
    await guest.page
      .getByRole('paragraph')
      .filter({ hasText: /^Your key only reads/ })
      .waitFor()
    expect(await guest.page.getByRole('button', { name: 'Add a key' }).first().isDisabled()).toBe(true)
    await guest.visit('/keys', 'API keys')
    await guest.page
      .getByRole('alert')
      .getByText(/Sign in with a key that has this scope/)
      .waitFor()
    expect(await guest.page.getByRole('button', { name: 'Create a key' }).isDisabled()).toBe(true)
    await guest.look('keys-as-viewer')
    await guest.close()
  })
})
