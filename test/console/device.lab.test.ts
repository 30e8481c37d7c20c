/** `berth login` while a person approves in a real browser. Promises 25 and 27 of sign-in. */
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runCli } from '../../src/cli/program.ts'
import { removeFolder } from '../harness/leftover.ts'
import { succeed } from '../harness/journey.ts'
import { startMailServer, type MailServer } from '../harness/mail-server.ts'
import { waitFor } from '../harness/wait.ts'
import { browserLeftOut, openBrowser, whyNoBrowser, type ConsoleBrowser } from '../lab/browser.ts'
import { enterAccount } from '../lab/sign-in-page.ts'
import { needs } from '../needs.ts'

needs('browser')

const USER_CODE = /[B-Z]{4}-[B-Z]{4}/

describe.skipIf(whyNoBrowser() !== undefined)(`logging devices in${browserLeftOut}`, () => {
  let mails: MailServer
  let browser: ConsoleBrowser
  let folder: string

  beforeAll(async () => {
    folder = await mkdtemp(path.join(os.tmpdir(), 'berth-login-'))
    mails = await startMailServer()
    browser = await openBrowser({
      env: {
        BERTH_PUBLIC_URL: 'https://cloud.example',
        BERTH_SMTP_URL: mails.url,
        BERTH_MAIL_FROM: 'berth@cloud.example',
      },
    })
  })
  afterAll(async () => {
    await browser?.close()
    await mails.close()
    await removeFolder(folder)
  })

  /** The command in this process, with a folder of its own. */
  function berth(args: readonly string[]) {
    const output = { out: '', error: '' }
    const ended = runCli([...args], {
      env: { PATH: process.env['PATH'], XDG_CONFIG_HOME: folder, BERTH_DATA_DIR: '/nowhere' },
      color: { out: false, error: false },
      write: (text) => void (output.out += text),
      writeError: (text) => void (output.error += text),
      readFile: (file) => (existsSync(file) ? readFileSync(file, 'utf8') : undefined),
      readInput: () => undefined,
    })
    return { output, ended }
  }

  test('promise 25 and 27: the person types the code, sees the device, and chooses what it may do', async () => {
    const owner = { email: 'owner@example.test', name: 'Device lab' }
    const { operator } = browser.server
    const { account } = await succeed(operator, 'POST', '/v2/operator/accounts', {
      name: owner.name,
      ownerEmail: owner.email,
    })
    const { page, look, close } = await browser.open(null)
    await enterAccount(page, mails, owner)

    const login = berth(['login', '--server', browser.server.url])
    const code = await waitFor('the code', () => USER_CODE.exec(login.output.error + login.output.out)?.[0])
    // The address has no code, and one in it is not used.
    await page.goto(`/device?code=${code}&user_code=${code}`)
    expect(await page.getByLabel('Code').inputValue()).toBe('')
    await look('device-code')
    await page.getByLabel('Code').fill('BBBB-BBBB')
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.getByRole('alert').getByText('No device shows this code now', { exact: false }).waitFor()
    await page.getByLabel('Code').fill(code.toLowerCase())
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.getByRole('heading', { name: `Log ${os.hostname()} in?` }).waitFor()
    await page.getByText('127.0.0.1').waitFor()
    await look('device-decision')
    await page.getByRole('checkbox', { name: 'compute:write' }).uncheck()
    await page.getByLabel('Days').fill('3')
    await page.getByRole('button', { name: 'Approve' }).click()
    await page.getByText(`${os.hostname()} is logged in to ${owner.name}`, { exact: false }).waitFor()
    expect(await login.ended).toBe(0)
    await page.getByRole('link', { name: 'See your devices' }).click()
    const row = page.getByRole('row', { name: new RegExp(os.hostname()) })
    await row.getByText('inference, compute:read, billing:read').waitFor()

    const who = berth(['whoami', '--json'])
    expect(await who.ended).toBe(0)
    expect(JSON.parse(who.output.out)).toMatchObject({
      account: { id: (account as { id: string }).id },
      key: { kind: 'device', scopes: ['inference', 'compute:read', 'billing:read'] },
    })
    await row.getByRole('button', { name: /^Log out/ }).click()
    await page.getByRole('dialog').getByRole('button', { name: 'Log out' }).click()
    await row.waitFor({ state: 'detached' })
    expect(await berth(['whoami']).ended).not.toBe(0)

    const refused = berth(['login', '--server', browser.server.url])
    const second = await waitFor('the code', () => USER_CODE.exec(refused.output.error + refused.output.out)?.[0])
    await page.getByRole('link', { name: 'Log a device in' }).click()
    await page.getByLabel('Code').fill(second)
    await page.getByRole('button', { name: 'Continue' }).click()
    await page.getByRole('button', { name: 'Deny' }).click()
    await page.getByText('is denied', { exact: false }).waitFor()
    expect(await refused.ended).not.toBe(0)
    await close()
  })
})
